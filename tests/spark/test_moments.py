"""Goal: a moment means the first message that was stored then or later, in every queue. Method: a store made by hand whose
messages are one millisecond apart, or many in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import OffsetOutOfRange, UnknownQueue
from orbitmq.spark.source.options import parse
from orbitmq.spark.source.snapshot import of_options
from orbitmq.tables import moments, planning
from tests.tables.stored_topics import StoredTopics

FIRST = 1_000_001  # store ms of the first message


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("moments") / "store")
    stored.add("t", 2)
    stored.add("empty", 1)
    for number in range(400):
        stored.send("t", b"%d" % number, store_ms=FIRST + number // 10 * 10)
    return stored


def found(stored: StoredTopics, topics: str = "t", **options: str) -> list[tuple[int, int, int]]:
    asked = parse({"path": str(stored.root), "subscribe": topics, **options})
    snapshot = of_options(asked)
    cut = planning.slices(snapshot.topics, moments.settled(snapshot, asked))
    return [(each.queue, each.begin, each.end) for each in cut]


@pytest.mark.parametrize("ms", [0, FIRST - 1, FIRST, FIRST + 1, FIRST + 200, FIRST + 205, FIRST + 390])
def test_from_a_moment_on(stored: StoredTopics, ms: int) -> None:
    begins = [min(row[2] for row in stored.rows if row[1] == queue and row[6] >= ms) for queue in (0, 1)]
    assert found(stored, startingTimestamp=str(ms)) == [(0, begins[0], 200), (1, begins[1], 200)]


def test_up_to_a_moment(stored: StoredTopics) -> None:
    assert found(stored, endingTimestamp=str(FIRST + 100)) == [(0, 0, 50), (1, 0, 50)]
    assert found(stored, endingTimestamp=str(FIRST + 10_000)) == [(0, 0, 200), (1, 0, 200)]
    assert found(stored, endingTimestamp=str(FIRST)) == []
    assert found(stored, startingTimestamp="1970-01-01T00:16:40.101Z", endingTimestamp=str(FIRST + 200)) == [
        (0, 50, 100),
        (1, 50, 100),
    ]


def test_by_queue(stored: StoredTopics) -> None:
    one = f'{{"t": {{"1": {FIRST + 300}}}}}'
    assert found(stored, startingOffsetsByTimestamp=one) == [(0, 0, 200), (1, 150, 200)]
    assert found(stored, endingOffsetsByTimestamp=one) == [(0, 0, 200), (1, 0, 150)]
    with pytest.raises(UnknownQueue, match="0 to 1") as caught:
        found(stored, startingOffsetsByTimestamp='{"t": {"2": 1}}')
    assert caught.value.option == "startingOffsetsByTimestamp"


def test_behind_the_last_message(stored: StoredTopics) -> None:
    late = str(FIRST + 391)
    with pytest.raises(OffsetOutOfRange, match="startingOffsetsByTimestampStrategy") as caught:
        found(stored, startingTimestamp=late)
    assert (caught.value.option, caught.value.minimum, caught.value.maximum) == ("startingTimestamp", 0, 200)
    assert found(stored, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(OffsetOutOfRange, match="it holds none"):
        found(stored, "empty", startingTimestamp="1")


def test_where_times_went_back(tmp_path: Path) -> None:
    """As Kafka's: the first offset whose message is that late or later, whatever follows it."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for ms in (10, 20, 30, 5, 15, 25, 35, 36):
        stored.send("t", b"", store_ms=FIRST + ms)
    for vouched in (False, True):
        if vouched:
            stored.vouch(stored.rows[3][8])
        for ms, first in ((5, 0), (11, 1), (20, 1), (25, 2), (31, 6), (36, 7)):
            assert found(stored, startingTimestamp=str(FIRST + ms)) == [(0, first, 8)]
            assert found(stored, endingTimestamp=str(FIRST + ms)) == [(0, 0, first)] * (first > 0)
        with pytest.raises(OffsetOutOfRange):
            found(stored, startingTimestamp=str(FIRST + 37))


def test_more_queues_than_are_searched_at_once(tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    queues = moments.QUEUES_AT_ONCE + 10
    stored.add("t", queues)
    for _ in range(2 * queues):
        stored.send("t", b"")
    assert found(stored, startingTimestamp=str(FIRST + queues)) == [(queue, 1, 2) for queue in range(queues)]
