"""A running broker with messages, for commands that look at a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.broker.broker import Broker
from tests.fast import on_disk, tmp_path, warm
from tests.trees import indexed
from tests.waiting import until

__all__ = ["on_disk", "tmp_path", "warm"]

MESSAGES = 3000


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A topic `flows` with MESSAGES messages, all on disk and in its queues."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    with orbitmq.Broker(tmp_path / "store", name="flows", log_file_size=1 << 20, handlers=1) as running:
        running.create_topic("flows", 4)
        with running.producer() as producer:
            for number in range(0, MESSAGES, 1000):
                producer.send_batch("flows", [b"%d" % n for n in range(number, number + 1000)], tags="t", durability="flushed")
        indexed(running)
        until(lambda: not running.status().sessions, "the end of its producer")
        yield running
