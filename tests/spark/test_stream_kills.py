"""Goal: exactly once into Parquet, whichever process is killed. Method: stream_rampage.py, a few kills of a seed. Queues and
topics are added in the meantime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.stream_rampage import StreamRampage

# The first case kills a query and then a broker. The second kills a broker only, which is the same with each version of Spark.
CASES = [pytest.param("broker", 3, 2, marks=pytest.mark.pyspark), ("path", 8, 1)]


@pytest.mark.timeout(1500)  # each life of a query begins with a JVM
@pytest.mark.usefixtures("java_home")
@pytest.mark.parametrize(("by", "seed", "kills"), CASES)
def test_exactly_once_through_kills(tmp_path: Path, by: str, seed: int, kills: int) -> None:
    rampage = StreamRampage(tmp_path, seed, by)
    try:
        for _ in range(kills):
            rampage.strike()
        count = rampage.finish()
    finally:
        rampage.close()
    assert count > 0 and len(rampage.kills) == kills
