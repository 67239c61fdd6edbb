"""Goal: a queue that retention has emptied continues where it was, whatever is repaired of it.

Method: a store of which retention has removed a queue's messages, damaged there; store/repair/reindex.py makes its queues anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import orbitmq
from orbitmq.store import config
from orbitmq.store.consume_queue import ConsumeQueue
from tests.store.repair_rig import repair
from tests.store.stored_by_broker import SETTINGS, Stored, store_by_broker


@pytest.fixture(scope="module")
def with_an_emptied_queue(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Retention has removed all 31 messages of early/0, and no one else's queue is empty."""
    return store_by_broker(tmp_path_factory.mktemp("emptied") / "store", "emptied", early=31)


@pytest.fixture
def emptied(with_an_emptied_queue: Stored) -> Iterator[Stored]:
    yield with_an_emptied_queue
    with_an_emptied_queue.restore()


def next_of(stored: Stored, topic: str, queue: int) -> int:
    return ConsumeQueue(stored.layout.root, topic, queue, SETTINGS.queue_file_units).extent().max_offset


def test_a_group_at_the_end_of_an_emptied_queue(emptied: Stored) -> None:
    """It ends behind its last message that was removed."""
    config.store_offsets(emptied.layout, {("early", "G"): {0: 31}})
    verdict, found = emptied.verify()
    assert verdict.whole and verdict.queues["early", 0].next == 31, found
    config.store_offsets(emptied.layout, {("early", "G"): {0: 32}})
    assert emptied.verify()[0].faults == {"config": 1}
    assert repair(emptied)[1].whole
    assert config.load_offsets(emptied.layout)["early", "G"] == {0: 31}


def test_delayed_messages_that_the_log_does_not_have(emptied: Stored) -> None:
    """verify names the notes, which repair lowers."""
    config.store_delay_offsets(emptied.layout, {1: 5})
    assert emptied.verify()[0].faults == {"config": 1}
    assert repair(emptied)[1].whole
    assert config.load_delay_offsets(emptied.layout) == {}


@pytest.mark.parametrize("what", ["a unit", "short", "short, with a group", "all", "all, with a group"])
def test_an_emptied_queue_does_not_use_offsets_again(emptied: Stored, what: str) -> None:
    [path] = emptied.of("consumequeue/early/0")
    if what.endswith("group"):
        config.store_offsets(emptied.layout, {("early", "G"): {0: 31}})
    if what == "a unit":
        emptied.spoil(path, 62, b"\x40")
    elif what.startswith("short"):
        path.write_bytes(emptied.files[path][: 790 if what == "short" else 490])
    else:
        path.write_bytes(b"\xff" * 790)
    assert repair(emptied)[1].whole
    assert next_of(emptied, "early", 0) == (0 if what == "all" else 31)
    with orbitmq.Broker(emptied.layout.root, name="emptied") as broker, broker.producer() as producer:
        assert producer.send("early", b"late", queue=0).offset == (0 if what == "all" else 31)
    assert emptied.verify()[0].whole
