"""Goal: consumers read what was published, from the position they asked for, share it in groups without losing a message, and
end with a named error if they cannot continue. Method: real consumers over a composed broker, which the tests move.
Also of client/consumer/positions.py."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import (
    BrokerStopped,
    Closed,
    CorruptRecord,
    Fenced,
    NoPermission,
    OffsetOutOfRange,
    SettingError,
    UnknownQueue,
    UnknownTopic,
    UsageError,
)
from orbitmq.native._core import ffi, lib
from tests.client.composed_broker import ComposedBroker


@pytest.fixture
def broker(tmp_path: Path) -> ComposedBroker:
    return ComposedBroker(tmp_path / "store")


def fill(broker: ComposedBroker, topic: str, queues: int, messages: int) -> int:
    """A topic with this many messages in each queue: bodies "queue.number"."""
    slot = broker.add_topic(topic, queues)
    for number in range(messages):
        for queue in range(queues):
            broker.append(topic, slot + queue, b"%d.%d" % (queue, number))
    broker.publish()
    return slot


def drain(consumer: Consumer) -> list[bytes]:
    bodies: list[bytes] = []
    while found := consumer.poll_bodies(7, 0):
        bodies += found
    return bodies


def test_without_a_group_all_queues_are_read(broker: ComposedBroker) -> None:
    fill(broker, "t", 3, 10)
    with Consumer(broker, None, ["t"]) as consumer:
        assert consumer.assignment == [("t", 0), ("t", 1), ("t", 2)]
        assert consumer.lag() == {("t", 0): 10, ("t", 1): 10, ("t", 2): 10}
        assert sorted(drain(consumer)) == sorted(b"%d.%d" % (q, n) for q in range(3) for n in range(10))
        assert set(consumer.position().values()) == {10}
        assert set(consumer.lag().values()) == {0}
        assert consumer.committed() == {}
        assert consumer.poll(0) is None
        assert consumer.poll_batch(5, 0) == []
    assert broker.closed == [0]


def test_start_at_the_end(broker: ComposedBroker) -> None:
    slot = fill(broker, "t", 1, 3)
    consumer = Consumer(broker, None, ["t"], start="latest")
    broker.append("t", slot, b"new")
    broker.publish()
    assert drain(consumer) == [b"new"]


def test_positions_count_delivered_messages_only(broker: ComposedBroker) -> None:
    """`poll` and iteration fetch ahead; what was not delivered is not counted."""
    fill(broker, "t", 1, 10)
    consumer = Consumer(broker, None, ["t"], batch=8)
    assert consumer.poll() is not None
    assert consumer.position() == {("t", 0): 1}
    for message in consumer:
        if message.offset == 4:
            break
    assert consumer.position() == {("t", 0): 5}
    assert consumer.poll_bodies(2) == [b"0.5", b"0.6"]
    consumer.seek("t", 0, 9)
    assert drain(consumer) == [b"0.9"]


def test_tag_filters(broker: ComposedBroker) -> None:
    slot = broker.add_topic("t", 1)
    for tag in ["a", "b", "c", "a"]:
        broker.append("t", slot, tag.encode(), properties={"TAGS": tag})
    broker.publish()
    expected: dict[str | None, list[bytes]] = {
        None: [b"a", b"b", b"c", b"a"],
        "*": [b"a", b"b", b"c", b"a"],
        "a || c": [b"a", b"c", b"a"],
        "b": [b"b"],
        "x": [],
    }
    for expression, bodies in expected.items():
        assert drain(Consumer(broker, None, ["t"], tags=expression)) == bodies
    for wrong in ("a ||", "", " || ".join(map(str, range(5000)))):
        with pytest.raises(SettingError):
            Consumer(broker, None, ["t"], tags=wrong)


def test_seek_and_its_limits(broker: ComposedBroker) -> None:
    fill(broker, "t", 1, 10)
    broker.min[0] = 4
    broker.publish()
    consumer = Consumer(broker, None, ["t"])
    with pytest.raises(OffsetOutOfRange) as caught:
        consumer.seek("t", 0, 3)
    assert (caught.value.minimum, caught.value.maximum) == (4, 10)
    with pytest.raises(UnknownQueue):
        consumer.seek("t", 1, 4)
    consumer.seek("t", 0, 10)
    assert drain(consumer) == []
    consumer.seek("t", 0, 8)
    assert drain(consumer) == [b"0.8", b"0.9"]


def test_seek_to_time(broker: ComposedBroker) -> None:
    slot = broker.add_topic("t", 2)
    for ms in [100, 200, 300]:
        broker.append("t", slot, b"%d" % ms, store_ms=ms)
        broker.append("t", slot + 1, b"%d" % (ms + 7), store_ms=ms + 7)
    broker.publish()
    consumer = Consumer(broker, None, ["t"])
    for ms, since, nearest in ((0, (0, 0), (0, 0)), (207, (2, 1), (1, 1)), (1 << 70, (3, 3), (2, 2))):
        consumer.seek_to_time(ms)
        assert consumer.position() == {("t", 0): since[0], ("t", 1): since[1]}
        consumer.seek_to_time(ms, nearest=True)
        assert consumer.position() == {("t", 0): nearest[0], ("t", 1): nearest[1]}
    with pytest.raises(SettingError, match="nearest='yes'"):
        consumer.seek_to_time(1, nearest="yes")  # type: ignore[arg-type]


def test_seek_to_a_datetime(broker: ComposedBroker) -> None:
    """Exactly to its millisecond, or to the next one if it lies between two."""
    slot, noon_ms = broker.add_topic("t", 1), 1_714_564_800_000
    for ms in range(2000):
        broker.append("t", slot, b"", store_ms=noon_ms + ms)
    broker.publish()
    consumer = Consumer(broker, None, ["t"])
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    for ms in range(2000):
        consumer.seek_to_time(noon + timedelta(milliseconds=ms))
        assert consumer.position() == {("t", 0): ms}
    moments: list[tuple[float | datetime, int]] = [
        (noon + timedelta(microseconds=6001), 7), (noon_ms + 6.5, 7), (noon.astimezone(timezone(timedelta(hours=9))), 0),
        (datetime.fromtimestamp(noon_ms / 1000), 0), (float("inf"), 2000), (float("-inf"), 0), (-1, 0),
    ]  # fmt: skip
    for moment, position in moments:
        consumer.seek_to_time(moment)
        assert consumer.position() == {("t", 0): position}, moment


@pytest.mark.parametrize("moment", ["2024", "2024-05-01T12:00", None, float("nan"), True, date(2024, 5, 1)])
def test_seek_to_what_is_no_time(broker: ComposedBroker, moment: Any) -> None:
    broker.add_topic("t", 1)
    with pytest.raises(SettingError, match="a number of milliseconds since 1970, or a datetime") as caught:
        Consumer(broker, None, ["t"]).seek_to_time(moment)
    assert caught.value.value is moment


def test_damage_is_named_and_can_be_passed(broker: ComposedBroker) -> None:
    slot = broker.add_topic("t", 1)
    physical = broker.append("t", slot, b"bad")
    broker.append("t", slot, b"good")
    broker.write(physical + 88, b"BAD")
    broker.publish()
    consumer = Consumer(broker, None, ["t"])
    with pytest.raises(CorruptRecord) as caught:
        consumer.poll(0)
    assert caught.value.offset == physical
    consumer.seek(caught.value.topic, caught.value.queue, caught.value.queue_offset + 1)
    assert drain(consumer) == [b"good"]
    with Consumer(broker, None, ["t"], verify=False) as careless:
        assert drain(careless) == [b"BAD", b"good"], "an explicit choice"


def test_new_queues_of_a_topic_are_found(broker: ComposedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the refresh is set to "always"."""
    index = ffi.new("uint32_t *")
    assert lib.topics_add(broker.topics, b"t", 1, 1, 4, 6, index) == 0
    monkeypatch.setattr("orbitmq.client.consumer.session.REFRESH_S", 0.0)
    consumer = Consumer(broker, None, ["t"], start="latest")
    assert drain(consumer) == []
    lib.topic_set_queues(broker.topics, index[0], 3)
    broker.append("t", 2, b"in the third")
    broker.publish()
    assert drain(consumer) == [b"in the third"]
    assert len(consumer.assignment) == 3


# ---- groups


def test_a_group_goes_on_where_it_committed(broker: ComposedBroker) -> None:
    fill(broker, "t", 2, 10)
    with Consumer(broker, "g", ["t"]) as first:
        assert len(first.poll_bodies(10)) == 10
        first.commit()
        first.poll_bodies(5)
        done = first.committed()
    assert sum(done.values()) == 10
    broker.members["g"].clear()
    with Consumer(broker, "g", ["t"]) as second:
        assert second.position() == done
        assert len(drain(second)) == 10


def test_members_share_and_take_over(broker: ComposedBroker) -> None:
    """A second member takes half; the first notices at its next poll; when the second leaves, everything comes back."""
    fill(broker, "t", 4, 5)
    first = Consumer(broker, "g", ["t"])
    got = [first.poll_bodies(5)]
    first.commit()
    second = Consumer(broker, "g", ["t"])
    got.append(drain(first))
    assert (len(first.assignment), len(second.assignment)) == (2, 2)
    assert first.rebalances == 1
    first.commit()
    got.append(second.poll_bodies(5))
    second.commit()
    del broker.members["g"][1]
    broker.rebalance("g")
    got.append(drain(first))
    assert len(first.assignment) == 4
    bodies = [body for batch in got for body in batch]
    assert sorted(bodies) == sorted(b"%d.%d" % (q, n) for q in range(4) for n in range(5))
    with pytest.raises(KeyError):
        broker.members["g"][1]


def test_a_commit_for_queues_that_went_is_fenced(broker: ComposedBroker) -> None:
    """Messages of queues that stayed are committed all the same. The others come again, to the member that has their queues
    now."""
    fill(broker, "t", 2, 5)
    consumer = Consumer(broker, "g", ["t"])
    assert len(drain(consumer)) == 10
    other = broker.open_session(queue_capacity=8).slot
    os.close(broker.ask_for_file("join_group", slot=other, group="g", topics=["t"])[1])
    with pytest.raises(Fenced, match="'t' 1") as caught:
        consumer.commit()
    assert caught.value.queues == [("t", 1)]
    broker.collect("g")
    assert broker.offsets["g"] == {("t", 0): 5}
    consumer.commit()  # told once
    del broker.members["g"][other]
    broker.rebalance("g")
    assert drain(consumer) == [b"1.%d" % number for number in range(5)]
    consumer.commit()
    assert set(consumer.committed().values()) == {5}


def test_a_queue_that_stays_goes_on_where_it_was(broker: ComposedBroker) -> None:
    """Nothing comes twice, committed or not, and the commit counts. Messages that were fetched and not delivered come."""
    fill(broker, "t", 2, 10)
    consumer = Consumer(broker, "g", ["t"])
    got = [consumer.poll(), *consumer.poll_batch(9)]
    for _ in range(3):
        broker.rebalance("g")
        got += [message for message in (consumer.poll(), *consumer.poll_batch(2)) if message]
    bodies = [bytes(message) for message in got if message] + drain(consumer)
    assert sorted(bodies) == sorted(b"%d.%d" % (q, n) for q in range(2) for n in range(10))
    broker.rebalance("g")
    consumer.commit()
    assert set(consumer.committed().values()) == {10}


def test_a_forgotten_member_joins_again(broker: ComposedBroker) -> None:
    fill(broker, "t", 1, 1)
    consumer = Consumer(broker, "g", ["t"])
    broker.members["g"].clear()
    lib.group_raise_epoch(broker.control, 0)
    assert drain(consumer) == [b"0.0"]
    assert list(broker.members["g"]) == [0]


def test_commit_needs_a_group(broker: ComposedBroker) -> None:
    fill(broker, "t", 1, 1)
    with pytest.raises(UsageError):
        Consumer(broker, None, ["t"]).commit()


# ---- waiting


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def finish(thread: threading.Thread) -> None:
    thread.join(30)
    assert not thread.is_alive()


def test_a_wait_ends_with_a_message(broker: ComposedBroker) -> None:
    slot = broker.add_topic("t", 2)
    consumer = Consumer(broker, None, ["t"])
    thread, results = in_thread(lambda: consumer.poll_bodies(10, 30))
    broker.append("t", slot + 1, b"news")
    broker.publish()
    broker.ring()
    finish(thread)
    assert results == [[b"news"]]


def test_close_from_another_thread_ends_a_wait(broker: ComposedBroker) -> None:
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    thread, results = in_thread(lambda: list(consumer))
    consumer.close()
    finish(thread)
    assert results == [[]]
    assert broker.closed == [0]
    with pytest.raises(Closed):
        consumer.poll(0)


def test_a_signal_interrupts_a_wait(broker: ComposedBroker) -> None:
    """The handler raises; the wait has no end of its own."""
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])

    class Rung(Exception):
        pass

    def ring(*_: object) -> None:
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Rung):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            consumer.poll()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert consumer.poll(0) is None


def test_the_broker_stops_in_the_middle(broker: ComposedBroker) -> None:
    """While it is stopping, what is published is still delivered; then the stop is an error, also for a look."""
    fill(broker, "t", 1, 3)
    consumer = Consumer(broker, None, ["t"])
    lib.control_set_tree_state(broker.control, lib.TREE_STOPPING)
    assert len(consumer.poll_batch(10)) == 3
    with pytest.raises(BrokerStopped):
        consumer.poll(0)
    lib.control_set_tree_state(broker.control, lib.TREE_RUNNING)
    assert consumer.poll(0) is None  # attached anew
    assert consumer.position() == {("t", 0): 3}
    assert broker.opened == 2


def test_one_thread_at_a_time(broker: ComposedBroker) -> None:
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    thread, results = in_thread(consumer.poll)
    while not consumer._turns.locked():
        pass
    with pytest.raises(UsageError):
        consumer.poll(0)
    consumer.close()
    finish(thread)
    assert isinstance(results[0], Closed)


def test_a_forked_child_has_a_session_of_its_own(broker: ComposedBroker) -> None:
    fill(broker, "t", 1, 4)
    consumer = Consumer(broker, None, ["t"])
    message = consumer.poll()
    assert message is not None
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            says = b"%s %s %d" % (bytes(message), b" ".join(drain(consumer)), broker.opened)
            os.write(writer, says)
        finally:
            os._exit(0)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(reader, 100) == b"0.0 0.1 0.2 0.3 2"
    os.close(reader)
    assert drain(consumer) == [b"0.1", b"0.2", b"0.3"]
    assert broker.opened == 1


def test_a_fork_while_another_thread_waits(broker: ComposedBroker) -> None:
    """The child continues where the waiting thread was, although that thread does not exist there to release the consumer."""
    slot = fill(broker, "t", 1, 2)
    consumer = Consumer(broker, None, ["t"])
    assert len(drain(consumer)) == 2
    thread, _results = in_thread(lambda: consumer.poll_bodies(1, 30))
    while not consumer._turns.locked():
        pass
    with pytest.raises(UsageError):
        while True:
            consumer._reader.ready()  # until the wait has begun
    broker.append("t", slot, b"later")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            broker.publish()
            os.write(writer, b" ".join(drain(consumer)))
        finally:
            os._exit(0)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(reader, 100) == b"later"
    os.close(reader)
    consumer.close()
    finish(thread)


# ---- what cannot be


def refusals(broker: ComposedBroker) -> Iterator[tuple[Callable[[], object], type[Exception]]]:
    yield lambda: Consumer(broker, None, ["missing"]), UnknownTopic
    yield lambda: Consumer(broker, None, []), SettingError
    yield lambda: Consumer(broker, None, "t"), SettingError
    yield lambda: Consumer(broker, None, ["t"], start="middle"), SettingError  # type: ignore[arg-type]
    yield lambda: Consumer(broker, None, ["t"], batch=0), SettingError
    yield lambda: Consumer(broker, None, ["mute"]), NoPermission


def test_no_message_is_not_a_number_of_messages(broker: ComposedBroker) -> None:
    """Goal: a batch of no messages is refused, instead of waiting for ever. Method: while there is something to read."""
    fill(broker, "t", 1, 3)
    consumer = Consumer(broker, None, ["t"])
    for most in (0, -1):
        for poll in (consumer.poll_batch, consumer.poll_bodies, consumer.poll_arrow):
            with pytest.raises(SettingError, match=f"{most} messages"):
                poll(most)
    assert len(consumer.poll_batch(timeout=float("inf"))) == 3


def test_refusals(broker: ComposedBroker) -> None:
    broker.add_topic("t", 1)
    lib.topics_add(broker.topics, b"mute", 4, 1, 1, 2, ffi.new("uint32_t *"))
    for make, kind in refusals(broker):
        with pytest.raises(kind):
            make()
    assert sorted(broker.closed) == list(range(broker.opened))


def test_arrow(broker: ComposedBroker) -> None:
    """Every column equals what the messages say."""
    pa = pytest.importorskip("pyarrow")
    slot = broker.add_topic("t", 2)
    other = broker.add_topic("u", 1)
    for number in range(20):
        properties = {} if number % 3 else {"TAGS": f"t{number}", "KEYS": f"k{number} x"}
        place = [("t", slot), ("t", slot + 1), ("u", other)][number % 3]
        broker.append(*place, b"b" * number, properties=properties, born_ms=number, flag=number)
    broker.publish()
    consumer = Consumer(broker, None, ["t", "u"])
    messages = {(m.topic, m.queue, m.offset): m for m in Consumer(broker, None, ["t", "u"]).poll_batch(100)}
    messages |= {(m.topic, m.queue, m.offset): m for m in Consumer(broker, None, ["u", "t"]).poll_batch(100)}
    rows = []
    while (batch := consumer.poll_arrow(7, 0)).num_rows:
        batch.validate(full=True)
        rows += batch.to_pylist()
    assert len(rows) == 20
    for row in rows:
        message = messages[row["topic"], row["queue"], row["offset"]]
        assert row["body"] == bytes(message)
        assert (row["tags"], row["physical_offset"], row["flag"]) == (message.tags, message.physical_offset, message.flag)
        assert (row["keys"] or "").split() == message.keys
        assert row["born"].timestamp() * 1000 == message.born_ms
        assert round(row["stored"].timestamp() * 1000) == message.stored_ms
    consumer.seek("t", 0, 0)
    only = consumer.poll_arrow(3, columns=["body"])
    assert only.schema == pa.schema([("body", pa.binary())])
    with pytest.raises(SettingError):
        consumer.poll_arrow(1, 0, columns=["nothing"])
