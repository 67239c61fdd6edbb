"""Goal: what fails in a group is neither lost nor in anybody's way if it cannot be put into retries and dead letters as usual:
no room for topics, no file, too large, a deleted topic, a worker that writes nonsense, an acknowledgement that comes too late.
Method: workers on real brokers, of which something is taken away."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.work.session import WorkSession
from orbitmq.native._core import ffi, lib
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from tests.client.test_retries import letters, scheduled, send
from tests.client.work_takes import collect, lag
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    sizes = {"topic_capacity": 256, "queue_capacity": 8192}
    with small_broker(tmp_path_factory.mktemp("store"), offsets_interval_s=0.05, **sizes) as made:
        yield made


def test_topics_that_cannot_be_made(tmp_path: Path) -> None:
    """What failed waits, and holds up neither the other messages of its group nor other groups, whose reasons are kept as
    long as there is room for them. With room for topics, all of it goes where it belongs."""
    with small_broker(tmp_path / "store", topic_capacity=16, offsets_interval_s=0.05) as broker:
        send(broker, "orders", 400)
        with broker.work_session("able", ["orders"], max_tries=1) as able, pytest.raises(errors.Full):
            able.nack(collect(able, 1)[0], reason="the first")
            letters(broker, "able", 1)
            for number in range(20):
                broker.create_topic(f"spare-{number}", queues=1)
        with (
            broker.work_session("unable", ["orders"], max_tries=1) as unable,
            broker.work_session("able", ["orders"], max_tries=1) as able,
        ):
            failed = collect(unable, 350)
            for each in failed[:300]:
                unable.nack(each, reason="no topics")
            assert unable.settled(WATCHDOG_S) == []
            unable.ack(failed[300:])
            unable.ack(collect(unable, 50))
            assert unable.settled(WATCHDOG_S) == []
            for each in collect(able, 399):
                able.nack(each, reason="failed")
            assert able.settled(WATCHDOG_S) == []
            letters(broker, "able", 400)
            assert broker.dead_letter_groups() == ["able"]
            assert unable.take(1, 0.1) == []
            kill(broker, "dispatcher")
            assert unable.take(1, 0.1) == []
    with small_broker(tmp_path / "store", topic_capacity=64) as broker, broker.work_session("unable", ["orders"]) as unable:
        found = letters(broker, "unable", 300)
        assert {each.body for each in found} == {b"%d" % number for number in range(300)}
        assert {each.reason for each in found} <= {"no topics", ""}
        assert unable.take(1, 0.1) == []


def test_no_file(tmp_path: Path) -> None:
    """Without orbitmq/retries a message comes again in place. When the file can be made, it goes to the dead letters."""
    in_the_way = tmp_path / "store" / "orbitmq" / "retries"
    with small_broker(tmp_path / "store") as broker:
        send(broker, "orders", 1)
        worker = broker.work_session("g", ["orders"], max_tries=1)
        in_the_way.unlink()
        in_the_way.mkdir()
        kill(broker, "dispatcher")
        for delivery in (1, 2, 3):
            (each,) = collect(worker, 1)
            assert each.delivery == delivery
            worker.nack(each, delay=0, reason="in place")
        (each,) = collect(worker, 1)
        assert broker.dead_letter_groups() == []
        in_the_way.rmdir()
        until(in_the_way.is_file, "the file")
        until(lambda: in_the_way.read_bytes()[:8] != bytes(8), "the dispatcher to use it")
        worker.nack(each, delay=0, reason="at last")
        (letter,) = letters(broker, "g", 1)
        assert (letter.tries, letter.reason) == (4, "at last")


def test_a_name_without_room(broker: orbitmq.Broker) -> None:
    """%RETRY% and the group's name are longer than a topic's name may be."""
    group = "g" * 122
    send(broker, "for-a-long-name", 1)
    with broker.work_session(group, ["for-a-long-name"], max_tries=1) as worker:
        for delivery in (1, 2):
            (each,) = collect(worker, 1)
            assert each.delivery == delivery
            worker.nack(each, delay=0)
        worker.ack(collect(worker, 1))
        assert worker.settled(WATCHDOG_S) == []
    assert group not in broker.dead_letter_groups()


def test_a_broker_for_smaller_messages(tmp_path: Path) -> None:
    """What was sent to a broker for larger messages, and has no room for more properties now, comes again in place; the others
    of its queue do not wait for it."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", queues=1)
        with broker.producer(message_max=60_000) as producer:
            producer.send("orders", b"x" * 50_000)
            producer.send("orders", b"small")
    with (
        small_broker(tmp_path / "store", lane_capacity=1 << 16, message_max=20_000) as broker,
        broker.work_session("g", ["orders"], max_tries=1) as worker,
    ):
        for each in collect(worker, 2):
            worker.nack(each)
        (letter,) = letters(broker, "g", 1)
        assert letter.body == b"small"
        assert lag(broker, "g") == 2


def without(store: Path, topic: str) -> None:
    """Takes a topic out of a stopped broker's store, as RocketMQ does when somebody deletes it; its records stay in the log."""
    path = store / "config" / "topics.json"
    content = json.loads(path.read_text())
    del content["topicConfigTable"][topic]
    path.write_text(json.dumps(content))
    shutil.rmtree(store / "consumequeue" / topic, ignore_errors=True)


@pytest.mark.parametrize("which", ["%RETRY%g", "%DLQ%g"])
def test_a_topic_of_the_group_that_is_gone(tmp_path: Path, which: str) -> None:
    """Somebody has deleted it while RocketMQ had the store. It is made again when it is needed, and what comes there counts."""
    store = tmp_path / "store"
    with small_broker(store) as broker:
        send(broker, "orders", 4)
        with broker.work_session("g", ["orders"], in_hand=1, max_tries=2) as worker:
            worker.nack(collect(worker, 1)[0], delay=0)
            worker.nack(collect(worker, 1)[0], delay=0, reason="dead")
            letters(broker, "g", 1)
            worker.nack(collect(worker, 1)[0], reason="retried")
            scheduled(broker, "g", 1)
    without(store, which)
    with small_broker(store) as broker, broker.work_session("g", ["orders"], in_hand=1) as worker:
        worker.nack(collect(worker, 1)[0], reason="retried again")
        scheduled(broker, "g", 2)
        worker.nack(collect(worker, 1)[0], delay=0)
        worker.nack(collect(worker, 1)[0], reason="dead again")
        until(lambda: [letter.reason for letter in broker.dead_letters("g").list()][-1:] == ["dead again"], "the dead letter")
        assert {"%RETRY%g", "%DLQ%g"} <= {topic.name for topic in broker.topics()}
        assert "%RETRY%g" in {queue.topic for queue in broker.group("g").queues}


def test_a_source_that_is_deleted(tmp_path: Path) -> None:
    """Reasons of messages that are gone before they could be put elsewhere leave their places to others."""
    with small_broker(tmp_path / "store", topic_capacity=16, offsets_interval_s=0.05) as broker:
        send(broker, "gone", 300)
        send(broker, "stays", 1)
        with broker.work_session("able", ["stays"], max_tries=1) as able:
            able.nack(collect(able, 1)[0], reason="the first")
            letters(broker, "able", 1)
        with pytest.raises(errors.Full):
            for number in range(20):
                broker.create_topic(f"spare-{number}", queues=1)
        with (
            broker.work_session("unable", ["gone"], max_tries=1) as unable,
            broker.work_session("able", ["stays"], max_tries=1) as able,
        ):
            for each in collect(unable, 300):
                unable.nack(each, reason="no topics")
            assert unable.settled(WATCHDOG_S) == []
            broker.delete_topic("gone")

            def kept() -> bool:
                with broker.producer() as producer:
                    producer.send("stays", b"next")
                able.nack(collect(able, 1)[0], reason="kept")
                before = len(able_letters)
                able_letters[:] = until(lambda: more(before), "the next dead letter")
                return able_letters[-1].reason == "kept"

            def more(before: int) -> list[orbitmq.DeadLetter]:
                found = broker.dead_letters("able").list()
                return found if len(found) > before else []

            able_letters = broker.dead_letters("able").list()
            until(kept, "a place for a reason")


# ---- answers that come too late


@pytest.mark.parametrize("tries", [1, 16])
def test_a_late_acknowledgement(broker: orbitmq.Broker, name: str, tries: int) -> None:
    """Goal: an acknowledgement of a message that is a dead letter by then, or done by another worker, does not count as one
    that a dead dispatcher has applied, though the message is done, and below the floor."""
    send(broker, name, 1)
    with broker.work_session(name, [name], in_hand=1, max_tries=tries) as worker:
        late = collect(worker, 1)
        worker.extend(late[0], 0.01)
        if tries == 1:
            letters(broker, name, 1)
        else:
            with broker.work_session(name, [name]) as other:
                other.ack(collect(other, 1))
                assert other.settled(WATCHDOG_S) == []
        until(lambda: not lag(broker, name), "the floor above the message")
        os.kill(actors(broker)["dispatcher"].pid, signal.SIGSTOP)
        worker.ack(late)
        kill(broker, "dispatcher")
        assert worker.settled(WATCHDOG_S) == late


def test_a_late_acknowledgement_above_the_floor(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, 2)
    with (
        broker.work_session(name, [name], in_hand=1, visibility=3600, max_tries=1) as holder,
        broker.work_session(name, [name], in_hand=1) as worker,
    ):
        collect(holder, 1)
        late = collect(worker, 1)
        worker.extend(late[0], 0.01)
        letters(broker, name, 1)
        os.kill(actors(broker)["dispatcher"].pid, signal.SIGSTOP)
        worker.ack(late)
        kill(broker, "dispatcher")
        assert worker.settled(WATCHDOG_S) == late


# ---- hostile workers


def put_raw(worker: WorkSession, broker: orbitmq.Broker, records: list[tuple[int, int, int, int, int, int]]) -> None:
    """Writes answers as no library does: (first, queue, count, kind, tries, time_ms) each."""
    handle = worker._handle
    assert handle is not None
    parts, shape = ffi.new("struct session_parts *"), ffi.new("struct session_shape *", {"work_capacity": 1024})
    lib.session_parts(ffi.cast("struct session *", handle.address), shape, parts)
    line = ffi.cast("uint64_t *", parts.answers)
    tail = line[0]
    for number, (first, queue, count, kind, tries, time_ms) in enumerate(records, tail):
        at = 16 + 4 * (number % 1024)
        line[at], line[at + 1], line[at + 2], line[at + 3] = first, queue | count << 32, kind | tries << 32, time_ms
    line[0] = tail + len(records)
    lib.control_ring_dispatcher(broker.connection.attach_wake().wake)


BAD = (1 << 64) - 1  # eight bytes that are no UTF-8


@pytest.mark.parametrize("what", ["lengths", "endless", "unfinished", "elsewhere", "full"])
def test_a_worker_that_writes_nonsense(broker: orbitmq.Broker, name: str, what: str) -> None:
    send(broker, name, 20)
    dispatcher = actors(broker)["dispatcher"].pid
    text = (BAD, BAD >> 32, BAD >> 32, lib.WORK_TEXT, 24, BAD)
    with broker.work_session(name, [name], max_tries=1) as honest:
        hostile = broker.work_session(name, [name])
        mine = collect(hostile, 10)
        slot = mine[0].slot
        nack = (mine[0].offset, slot, 1, lib.WORK_NACK, 1, lib.WORK_BACK_OFF)
        if what == "lengths":
            put_raw(hostile, broker, [(*text[:4], 1 << 31, BAD), (*text[:4], 0, BAD), (*text[:4], 25, BAD), nack])
        elif what == "endless":
            put_raw(hostile, broker, [text] * 500)
        elif what == "unfinished":
            put_raw(hostile, broker, [text] * 22)
        elif what == "elsewhere":  # a text for other answers than a nack, and for many messages
            answers = [(each.offset, slot, 1, kind, 1, 1000) for each, kind in
                       zip(mine, (lib.WORK_ACK, lib.WORK_EXTEND, lib.WORK_GIVE_BACK), strict=False)]  # fmt: skip
            many = (mine[3].offset, slot, 7, lib.WORK_NACK, 1, lib.WORK_BACK_OFF)
            put_raw(hostile, broker, [each for answer in [*answers, many] for each in (text, answer)])
        else:
            put_raw(hostile, broker, [each for _ in range(40) for each in [*[text] * 23, nack]])
        honest.nack(collect(honest, 1)[0], reason="honest")
        assert honest.settled(WATCHDOG_S) == []

        def said() -> bool:
            found = broker.dead_letters(name).list() if name in broker.dead_letter_groups() else []
            return any(letter.reason == "honest" for letter in found)

        until(said, "the honest one's dead letter")
        hostile.close()
    for letter in broker.dead_letters(name).list():
        letter.reason.encode()
    assert actors(broker)["dispatcher"].pid == dispatcher


def test_a_nack_that_is_interrupted(broker: orbitmq.Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a nack waits for room in its ring leaves nothing of it there: it can be repeated, and the next one says its
    own reason."""
    send(broker, name, 4)
    with broker.work_session(name, [name], in_hand=4, max_tries=1) as worker:
        first, second, third, last = collect(worker, 4)
        dispatcher = actors(broker)["dispatcher"].pid
        os.kill(dispatcher, signal.SIGSTOP)
        try:
            worker.nack(first, reason="1" * 500)
            worker.nack(second, reason="2" * 500)
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(worker, "_make_room", interrupted)
                worker.nack(third, reason="3" * 500)
        finally:
            os.kill(dispatcher, signal.SIGCONT)
        worker.nack(last, reason="4" * 500)
        worker.nack(third, reason="3" * 500)
        assert worker.settled(WATCHDOG_S) == []
        assert {letter.body: letter.reason for letter in letters(broker, name, 4)} == {
            b"%d" % number: str(number + 1) * 500 for number in range(4)
        }


def interrupted() -> None:
    raise KeyboardInterrupt


def test_a_retry_that_cannot_be_read_now(tmp_path: Path) -> None:
    """Goal: its deliveries are counted on. Method: the dispatcher can open no more files."""
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    retry = "%RETRY%g"
    config.store_topics(layout, {each: TopicConfig(each, 1, 1, perm=6) for each in ("orders", retry)}, DataVersion())
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    log.append(retry, body=b"again", properties={}, reconsume_times=3, sealed=False)
    with small_broker(tmp_path) as broker, broker.work_session("g", ["orders"]) as worker:
        pid = actors(broker)["dispatcher"].pid
        maps = Path(f"/proc/{pid}/maps")
        until(lambda: f"workers/g/{retry}.0" in maps.read_text(), "the dispatcher to take the plan")
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
        try:
            assert worker.take(1, 0.3) == []
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        (found,) = collect(worker, 1)
        assert (bytes(found.message.body), found.delivery) == (b"again", 4)
        assert actors(broker)["dispatcher"].pid == pid
