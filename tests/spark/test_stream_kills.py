"""Goal: exactly once into Parquet, whichever process is killed. Method: stream_rampage.py, a few kills at moments of a
seed. Queues and topics are added in the meantime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.stream_rampage import StreamRampage

# With "query", the life ends in which the query finds its store by the broker, and the one begins in which it has the path.
VICTIMS = ("broker", "query", "broker")
SEED = 3


# The restart of a query from its checkpoint touches PySpark, and test_stream_source.py has one.
@pytest.mark.timeout(1500)  # each life of a query begins with a JVM
@pytest.mark.usefixtures("java_home")
def test_exactly_once_through_kills(tmp_path: Path) -> None:
    rampage = StreamRampage(tmp_path, SEED, "both", VICTIMS)
    try:
        for _ in VICTIMS:
            rampage.strike()
        count = rampage.finish()
    finally:
        rampage.close()
    assert count > 0 and [kill.partition(",")[0] for kill in rampage.kills] == list(VICTIMS)
