"""Goal: a program backs its broker's store up without the command. Method: the backups are read by a broker of their own, and
the calls that fail leave what was there. tests/crash/test_backup_drill.py shows what a backup holds under load, and makes it
with this call, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq
from orbitmq import aio
from orbitmq.errors import StoreUnsupported
from tests.waiting import WATCHDOG_S

SMALL: dict[str, int] = {"log_file_size": 1 << 20, "handlers": 1}


def bodies(store: Path) -> list[bytes]:
    with orbitmq.Broker(store) as broker, broker.consumer("g", ["t"], start="earliest") as consumer:
        topic = next(each for each in broker.status().topics if each.name == "t")
        wanted = sum(queue.max_offset for queue in topic.queues)
        found: list[bytes] = []
        while len(found) < wanted:
            more = consumer.poll_bodies(100, timeout=WATCHDOG_S)
            assert more, f"{wanted} messages are indexed, and these can be read: {found}"
            found += more
        return found


def test_backups_of_a_running_broker(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    told: list[tuple[int, int]] = []
    with orbitmq.Broker(tmp_path / "store", **SMALL) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"one")
            backed = broker.backup(first, progress=lambda done, whole: told.append((done, whole)))
            producer.send("t", b"two")

            async def with_asyncio() -> None:
                async with aio.connect(broker.name) as client:
                    await client.backup(str(second))

            asyncio.run(with_asyncio())
            producer.send("t", b"three")
    assert backed.note.end > backed.note.begin and backed.copied > 0
    assert told and told[-1][0] == told[-1][1] and told == sorted(told), "the last word is that all is done"
    assert (bodies(first), bodies(second)) == ([b"one"], [b"one", b"two"])


def test_what_fails_leaves_the_last_backup(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with orbitmq.Broker(tmp_path / "store", **SMALL) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"one")
        broker.backup(target)
        with pytest.raises(StoreUnsupported):
            broker.backup(tmp_path / "store" / "inside")

        def enough(done: int, whole: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            broker.backup(target, progress=enough)
    assert bodies(target) == [b"one"]
