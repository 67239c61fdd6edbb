"""A real RocketMQ broker opens the stores that OrbitMQ wrote, and a real Java client finds every message in them.

Goal: a store, a program or a team can move from OrbitMQ to RocketMQ without a conversion. Method: what was sent is written down
with its receipts, and compared with what the Java client finds by offset, tag, time, key and id, field by field.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.errors import OrbitError
from orbitmq.store.checkpoint import SAFETY_MS, Checkpoint
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock
from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.repair import Repair
from tests.interop import served
from tests.interop.judge import Files, Judge
from tests.interop.letters import Letter, of, of_rocketmq, random_letters, send_to_orbitmq, send_to_rocketmq
from tests.interop.ours import broker_on, kill_tree
from tests.trees import indexed
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

# Small files, so that every kind of file rolls.
SMALL = Files(queue_file_units=100, index_slots=1000, index_entries=3000)
FOLDERS = ("commitlog", "consumequeue", "index")
TOPICS = {"orders": 4, "a-b_c|d": 2, "t" * 127: 1}


def files_in(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def oldest(store: Path) -> int:
    """Where the first file of the log begins."""
    return min(int(path.name) for path in (store / "commitlog").iterdir())


def test_a_store_that_was_stopped(judge: Judge, tmp_path: Path) -> None:
    """There and back: OrbitMQ writes, RocketMQ serves and appends, OrbitMQ serves and appends, RocketMQ serves it all."""
    rng = random.Random(4)
    store = tmp_path / "store"
    sent: list[Letter] = []
    with broker_on(store, SMALL) as broker:
        for topic, queues in TOPICS.items():
            broker.create_topic(topic, queues=queues)
            # An empty body is a message to OrbitMQ and to RocketMQ's broker; RocketMQ's push consumer never gets past one.
            empty = topic != "orders"
            letters = random_letters(rng, topic, 2400 // len(TOPICS), queues, empty=empty, prefix=topic[:3])
            send_to_orbitmq(rng, broker, letters, sent)
        indexed(broker)  # a batch has what is in the queues, so it may be smaller before
        with broker.consumer("billing", topics=["orders"]) as member:
            early = {(letter.queue, letter.offset) for letter in member.poll_batch(300, timeout=240)}
            member.commit()
    assert len(list((store / "commitlog").iterdir())) > 8
    assert len(list((store / "index").iterdir())) > 1

    judge.start(store, SMALL)
    assert judge.topics().items() >= TOPICS.items()
    for topic in TOPICS:
        served.by_rocketmq(judge, of(sent, topic), rng)
    assert sum(judge.committed("orders", "billing").values()) == len(early) == 300
    rest = [letter for letter in of(sent, "orders") if letter.place not in early]
    served.assert_same(map(of_rocketmq, judge.ask("consume", topic="orders", group="billing", count=len(rest))), rest)
    until(lambda: sum(judge.committed("orders", "billing").values()) == len(of(sent, "orders")), "the group's offsets")
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 300, 4, empty=False, prefix="java"), sent)
    judge.stop()

    with broker_on(store, SMALL) as broker:
        for topic in TOPICS:
            served.by_orbitmq(broker, of(sent, topic), rng)
        with broker.consumer("billing", topics=["orders"]) as member:
            assert sum(member.lag().values()) == 300
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="again"), sent)

    judge.start(store, SMALL)
    for topic in TOPICS:
        served.by_rocketmq(judge, of(sent, topic), rng, times=topic != "orders")
        served.assert_dense(served.pulled(judge, topic))
    judge.stop()

    # Retention removes the oldest files of the log, and what of queues and index is about them alone; both brokers see the same
    # rest.
    before = {folder: files_in(store / folder) for folder in FOLDERS}
    with broker_on(store, SMALL, retention_bytes=6 * SMALL.log_file_size, allow_deletion=True) as broker:
        # Fields that RocketMQ does not know.
        broker.create_topic("orders", queues=4, retention_hours=10_000, durability="flushed")
        until(lambda: 0 < broker.status().positions.min_offset == oldest(store), "files to go")
        # Those of queues and index are removed after the log's, and a stop would leave them to the next start.
        until(lambda: all(files_in(store / folder) < before[folder] for folder in FOLDERS), "those of queues and index to go")
    judge.start(store, SMALL)
    left = {topic: served.pulled(judge, topic) for topic in TOPICS}
    bounds = {topic: judge.bounds(topic) for topic in TOPICS}
    judge.stop()
    # RocketMQ may have made another file of the log, for which the limit would take the oldest.
    with broker_on(store, SMALL, retention_bytes=0) as broker:
        for topic in TOPICS:
            known = next(found for found in broker.status().topics if found.name == topic)
            for queue in known.queues:
                # RocketMQ looks for the first message that exists; if there is none, it says 0 after a start.
                emptied = queue.min_offset == queue.max_offset
                assert bounds[topic][queue.queue] == (0 if emptied else queue.min_offset, queue.max_offset)
            served.assert_same(served.stored(broker, topic), left[topic])
            served.assert_among(left[topic], of(sent, topic))
    assert 0 < sum(map(len, left.values())) < len(sent)


@pytest.mark.parametrize(("after", "index_safe"), [("a moment", False), ("a while", False), ("a while", True)])
def test_a_store_whose_broker_was_killed(judge: Judge, tmp_path: Path, after: str, index_safe: bool) -> None:
    """SIGKILL to OrbitMQ's whole tree under load: RocketMQ recovers the store and serves every acknowledged message, appends,
    and is stopped, or killed in turn where it made only a part of the index; OrbitMQ opens that.

    after: if the kill comes after a while, there is a checkpoint. RocketMQ then reads only the newest file of the log, and
        makes only that part of the index, as with its own stores, unless its setting messageIndexSafe is true. OrbitMQ makes
        the index whole again.
    """
    rng = random.Random(5)
    store, files = tmp_path / "store", Files()
    acknowledged: list[Letter] = []
    offered: list[Letter] = []

    def letters() -> Iterator[Letter]:
        for letter in random_letters(rng, "orders", 100_000, 4, empty=False, prefix="kill"):
            offered.append(letter)
            yield letter

    broker = broker_on(store, files)
    broker.create_topic("orders", queues=4)

    def send() -> None:
        with suppress(OrbitError):
            send_to_orbitmq(rng, broker, letters(), acknowledged)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: len(acknowledged) > 2500, "some load")
    # A checkpoint vouches for the queues, so it must not be later than reput, which a loaded machine can hold back by files.
    vouched_ms, wrote = time.time_ns() // 1_000_000, broker.status().positions.wrote
    until(lambda: broker.status().positions.reput >= wrote, "the queues of what was written")
    kill_tree(broker)
    sender.join()
    assert (store / "abort").exists()
    if after == "a while":
        Checkpoint(vouched_ms + SAFETY_MS, vouched_ms + SAFETY_MS, 0).store(StoreLayout.at(store))

    judge.start(store, files, index_safe=index_safe)
    found = served.pulled(judge, "orders")
    served.assert_dense(found)
    assert len(found) >= len(acknowledged) > 2500
    served.assert_among(acknowledged, found)
    # Messages in flight may be there or not; nothing else may.
    bodies = {letter.body for letter in offered}
    assert all(letter.body in bodies for letter in found)
    served.by_rocketmq(judge, found, rng, keys=after == "a moment" or index_safe)
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 300, 4, empty=False, prefix="java"), found)
    if after == "a while" and not index_safe:
        judge.kill()
    else:
        judge.stop()  # another judge would take as long to start as the rest of the test

    with broker_on(store, files) as broker:
        served.by_orbitmq(broker, found, rng)
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="again"), found)
        served.by_orbitmq(broker, found, rng)
        served.assert_dense(found)


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_store_that_was_repaired(judge: Judge, tmp_path: Path, made_anew: bool) -> None:
    """Records damaged in two files, a blank marker and a queue's file: RocketMQ serves every other message in its old place.
    The places of lost messages have messages that say so, and that no consumer of a tag gets.

    made_anew: RocketMQ has to make the queues from the log itself.
    """
    rng = random.Random(6)
    store = tmp_path / "store"
    sent: list[Letter] = []
    with broker_on(store, SMALL) as broker:
        broker.create_topic("orders", queues=4)
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 1200, 4, empty=False, prefix="ours"), sent)
    size = SMALL.log_file_size
    lost = [sent[number] for number in (7, 500, 501, 502, 1100)]
    for letter in lost:
        place = int(letter.id[16:], 16)
        with (store / "commitlog" / f"{place - place % size:020d}").open("r+b") as file:
            file.seek(place % size + 20)
            file.write(rng.randbytes(40))
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:
        marker = file.read().rfind(bytes.fromhex("cbd43194"))
        file.seek(marker - 4)
        file.write(b"no marker")
    sorted((store / "consumequeue/orders/2").iterdir())[0].unlink()
    layout = StoreLayout.at(store)
    lock = StoreLock.acquire(layout, "repair")
    job = Repair(layout, layout.settings(), Choice.SKIP)
    job.survey()
    assert job.carry_out().whole
    lock.release()
    if made_anew:
        shutil.rmtree(store / "consumequeue")
        shutil.rmtree(store / "index")

    left = [letter for letter in sent if letter not in lost]
    judge.start(store, SMALL)
    found = served.pulled(judge, "orders")
    served.assert_dense(found)
    gone = {letter.place for letter in lost}
    served.assert_same((letter for letter in found if letter.place not in gone), left)
    told = [letter for letter in found if letter.place in gone]
    assert len(told) == len(lost) and all(b"a repair gave it up" in letter.body for letter in told)
    tagged = served.pulled(judge, "orders", tags="paid || 日本")
    served.assert_same(tagged, [letter for letter in left if letter.tags in ("paid", "日本")])
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 100, 4, empty=False, prefix="java"), left)
    judge.stop()
    with broker_on(store, SMALL) as broker:
        served.assert_same(served.stored(broker, "orders"), left)
