"""Goal: whatever a network does to connections, clients of the gateway that send again get every message stored, and nobody
waits for ever; the gateway neither ends nor keeps memory or descriptors.

Method: clients behind a proxy that tears connections (tearing_proxy.py), compared with a model of what must be in the log
(torn_clients.py, which `python -m` takes further).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.gateway_fuzz import resident
from tests.actors.torn_clients import QUEUES, SETTINGS, TOPIC, Rounds
from tests.trees import small_broker

WARM, MORE = 4, 8  # rounds
GROWTH_MAX = 4 << 20  # bytes


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, **SETTINGS) as broker:
        broker.create_topic(TOPIC, QUEUES)
        yield broker


def test_torn_connections(broker: orbitmq.Broker, caplog: pytest.LogCaptureFixture) -> None:
    with Rounds(broker, seed=15) as rounds:
        for _ in range(WARM):
            rounds.run()
        before = resident(rounds.pid)
        for _ in range(MORE):
            rounds.run()
        assert resident(rounds.pid) - before < GROWTH_MAX
        for deed in "cut", "ended", "abandoned", "replayed", "swapped", "doubled", "connections again", "stored again":
            assert rounds.told[deed] > 0, rounds.told
    broker.close()  # everything that it said has come then
    assert "Traceback" not in caplog.text
