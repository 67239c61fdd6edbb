"""Goal: a consumer that retention overtakes is told, and continues. Method: a composed broker whose oldest files are removed in
the order of retention: the queues' minima, the log's beginning, the files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import OffsetOutOfRange, SettingError, StoreError
from orbitmq.native._core import lib
from tests.client.composed_broker import ComposedBroker

FILE = 1 << 12
TOTAL = 200


class Trimmed(ComposedBroker):
    """Topic "t" has two queues of 200 messages, about 28 in a log file; bodies are "queue.number"."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, log_file_size=FILE)
        self.slot = self.add_topic("t", 2)
        self.places: list[list[int]] = [[], []]
        for number in range(TOTAL):
            for queue in range(2):
                body = b"%d.%d" % (queue, number)
                place = self.append("t", self.slot + queue, body, store_ms=1000 + number)
                self.places[queue].append(place)
        self.publish()

    def first(self, queue: int, files: int) -> int:
        """The first message after so many files."""
        return next(number for number, place in enumerate(self.places[queue]) if place >= files * FILE)

    def trim(self, files: int, *, queues: tuple[int, ...] = (0, 1), unlink: bool = True) -> None:
        for queue in queues:
            lib.queue_raise_min(self.topics, self.slot + queue, self.first(queue, files))
        lib.control_raise_min_offset(self.control, files * FILE)
        for number in range(files if unlink else 0):
            (self.root / "commitlog" / f"{number * FILE:020d}").unlink(missing_ok=True)


@pytest.fixture
def broker(tmp_path: Path) -> Trimmed:
    return Trimmed(tmp_path / "store")


def drain(consumer: Consumer) -> list[bytes]:
    bodies: list[bytes] = []
    while found := consumer.poll_bodies(7, 0):
        bodies += found
    return bodies


def rest(queue: int, first: int) -> list[bytes]:
    return [b"%d.%d" % (queue, number) for number in range(first, TOTAL)]


def test_it_goes_on_at_the_first_that_is_left(broker: Trimmed, caplog: pytest.LogCaptureFixture) -> None:
    """Counted and logged, by queue; position and lag refer to what exists."""
    consumer = Consumer(broker, "G", ["t"])
    assert len(consumer.poll_bodies(4, 0)) == 4
    before = consumer.position()
    broker.trim(5)
    left = {("t", queue): broker.first(queue, 5) for queue in (0, 1)}
    assert consumer.position() == left
    assert consumer.lag() == {key: TOTAL - first for key, first in left.items()}
    with caplog.at_level(logging.WARNING, "orbitmq"):
        bodies = drain(consumer)
    assert sorted(bodies) == sorted(rest(0, left["t", 0]) + rest(1, left["t", 1]))
    missed = {key: left[key] - before[key] for key in left}
    assert consumer.skipped == sum(missed.values()) > 100
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"retention removed {missed['t', queue]} messages of 't', queue {queue}, before group 'G' read them; it goes on at "
        f"offset {left['t', queue]}"
        for queue in (0, 1)
    ]


def test_what_is_in_hand_stays(broker: Trimmed) -> None:
    """Messages of a removed file stay valid, and those that were fetched with them are still delivered."""
    consumer = Consumer(broker, None, ["t"], batch=10)
    first = consumer.poll(0)
    broker.trim(5)
    following = [consumer.poll(0) for _ in range(9)]
    assert [bytes(each) for each in [first, *following] if each is not None] == [b"0.%d" % number for number in range(10)]
    assert consumer.skipped == 0
    assert sorted(drain(consumer)) == sorted(rest(0, broker.first(0, 5)) + rest(1, broker.first(1, 5)))
    assert consumer.skipped == broker.first(0, 5) - 10 + broker.first(1, 5)


def test_raised_first(broker: Trimmed, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each queue, with the range, before anything that follows the gap; then the consumer continues."""
    consumer = Consumer(broker, None, ["t"], removed="raise")
    assert len(consumer.poll_bodies(4, 0)) == 4
    stood = consumer.position()
    broker.trim(5)
    raised = []
    bodies: list[bytes] = []
    while True:
        try:
            found = consumer.poll_bodies(7, 0)
        except OffsetOutOfRange as error:
            assert not any(body.startswith(b"%d." % error.queue) for body in bodies)
            raised.append((error.topic, error.queue, error.offset, error.minimum, error.maximum, error.removed))
            continue
        bodies += found
        if not found:
            break
    lefts = [broker.first(queue, 5) for queue in (0, 1)]
    assert sorted(raised) == [
        ("t", queue, stood["t", queue], lefts[queue], TOTAL, lefts[queue] - stood["t", queue]) for queue in (0, 1)
    ]
    assert sorted(bodies) == sorted(rest(0, lefts[0]) + rest(1, lefts[1]))
    assert not caplog.records
    with pytest.raises(SettingError, match="with 'hide' for removed messages"):
        Consumer(broker, None, ["t"], removed="hide")  # type: ignore[arg-type]


def test_raised_for_columns(broker: Trimmed) -> None:
    consumer = Consumer(broker, None, ["t"], removed="raise")
    broker.trim(5)
    rows = []
    raised = 0
    while True:
        try:
            batch = consumer.poll_arrow(64, 0, columns=["queue", "offset"])
        except OffsetOutOfRange:
            raised += 1
            continue
        if batch.num_rows == 0:
            break
        rows += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    assert raised == 2
    assert sorted(rows) == [(queue, number) for queue in (0, 1) for number in range(broker.first(queue, 5), TOTAL)]


def test_a_file_that_went_under_the_reader(broker: Trimmed) -> None:
    """The log's beginning alone tells that a missing file is no fault of the disk."""
    consumer = Consumer(broker, None, ["t"])
    broker.trim(2, queues=())
    assert sorted(drain(consumer)) == sorted(rest(0, broker.first(0, 2)) + rest(1, broker.first(1, 2)))
    assert consumer.skipped == broker.first(0, 2) + broker.first(1, 2)
    (broker.root / "commitlog" / f"{3 * FILE:020d}").unlink()
    with pytest.raises(StoreError):
        drain(Consumer(broker, None, ["t"]))


def test_seek(broker: Trimmed) -> None:
    """What is gone is out of range, and the error has the range; the search by time stays in it."""
    consumer = Consumer(broker, None, ["t"])
    broker.trim(5)
    first = broker.first(0, 5)
    with pytest.raises(OffsetOutOfRange) as caught:
        consumer.seek("t", 0, first - 1)
    assert (caught.value.offset, caught.value.minimum, caught.value.maximum) == (first - 1, first, TOTAL)
    consumer.seek("t", 0, first)
    consumer.seek_to_time(0)
    assert consumer.position() == {("t", queue): broker.first(queue, 5) for queue in (0, 1)}


def test_the_room_of_a_file_is_given_back(broker: Trimmed) -> None:
    """An idle consumer releases a removed file at its next look, without news."""
    consumer = Consumer(broker, None, ["t"])
    drain(consumer)
    assert _mapped_and_gone(broker) == 0
    broker.trim(5)
    assert _mapped_and_gone(broker) == 5
    assert not consumer.wait(0)
    assert _mapped_and_gone(broker) == 0


def _mapped_and_gone(broker: Trimmed) -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(f"{broker.root}/commitlog" in line and line.endswith("(deleted)") for line in lines)
