"""Goal: every requested message is in exactly one partition, and none is larger than allowed. Method: any queues and limits;
and the ends that lie outside, one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import OffsetOutOfRange, UnknownQueue, UnknownTopic
from orbitmq.spark.source.options import parse
from orbitmq.tables.planning import RANGES, SHORT, Slice, partitions, slices

EXTENTS = {"orders": {0: (10, 20), 1: (0, 0), 2: (5, 5)}, "bills": {0: (0, 3)}}


@given(
    queues=st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 3000)), max_size=12),
    least=st.integers(0, 50),
    most=st.integers(0, 500),
)
@settings(deadline=None)
def test_every_message_in_one_partition(queues: list[tuple[int, int]], least: int, most: int) -> None:
    wanted = [Slice("t", number, begin, begin + count) for number, (begin, count) in enumerate(queues)]
    parts = partitions(wanted, least=least, most_records=most)
    found: Counter[tuple[int, int]] = Counter()
    for part in parts:
        assert part and all(piece.count > 0 for piece in part)
        assert not most or sum(piece.count for piece in part) <= most
        for piece in part:
            found.update((piece.queue, offset) for offset in range(piece.begin, piece.end))
    assert found == Counter((each.queue, offset) for each in wanted for offset in range(each.begin, each.end))
    total = sum(count for _, count in queues)
    assert len(parts) >= min(least, total)


def test_short_ranges_share_and_long_ones_are_divided() -> None:
    many = [Slice("t", queue, 0, 256) for queue in range(1000)]
    assert len(partitions(many)) == -(-1000 * 256 // SHORT)
    assert len(partitions([Slice("t", 0, 0, 50_000_000)])) > 40


def test_what_is_asked_for() -> None:
    def found(**options: str) -> list[Slice]:
        return slices(EXTENTS, parse({"path": "/s", "subscribe": "orders,bills", **options}))

    assert found() == [Slice("orders", 0, 10, 20), Slice("bills", 0, 0, 3)]
    assert found(startingOffsets='{"orders": {"0": 12}, "bills": {"0": 3}}', endingOffsets='{"orders": {"0": 20}}') == [
        Slice("orders", 0, 12, 20)
    ]


@pytest.mark.parametrize(
    ("option", "value", "minimum", "maximum"),
    [
        ("startingOffsets", '{"orders": {"0": 9}}', 10, 20),
        ("startingOffsets", '{"orders": {"1": 1}}', 0, 0),
        ("endingOffsets", '{"orders": {"0": 21}}', 10, 20),
    ],
)
def test_offsets_outside(option: str, value: str, minimum: int, maximum: int) -> None:
    with pytest.raises(OffsetOutOfRange, match=f"{minimum:,} to {maximum:,}") as caught:
        slices(EXTENTS, parse({"path": "/s", "subscribe": "orders", option: value}))
    assert (caught.value.option, caught.value.minimum, caught.value.maximum) == (option, minimum, maximum)


def test_an_end_before_the_start() -> None:
    ends = {"startingOffsets": '{"orders": {"0": 15}}', "endingOffsets": '{"orders": {"0": 14}}'}
    with pytest.raises(OffsetOutOfRange, match="15 to 20") as caught:
        slices(EXTENTS, parse({"path": "/s", "subscribe": "orders", **ends}))
    assert caught.value.option == "endingOffsets"


def test_unknown_names() -> None:
    with pytest.raises(UnknownTopic, match="bills, orders"):
        slices(EXTENTS, parse({"path": "/s", "subscribe": "nothing"}))
    with pytest.raises(UnknownQueue, match="0 to 2") as caught:
        slices(EXTENTS, parse({"path": "/s", "subscribe": "orders", "endingOffsets": '{"orders": {"3": 0}}'}))
    assert (caught.value.option, caught.value.queues) == ("endingOffsets", 3)


def test_many_short_queues_share_only_so_many_files() -> None:
    parts = partitions([Slice("t", queue, 0, 1) for queue in range(3 * RANGES)])
    assert [len(part) for part in parts] == [RANGES] * 3


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"startingOffsets": '{"orders": {"0": 9}}'}, (10, 20)),
        ({"startingOffsets": '{"orders": {"0": 25}}'}, None),
        ({"endingOffsets": '{"orders": {"0": 9}}'}, None),
        ({"endingOffsets": '{"orders": {"0": 21}}'}, (10, 20)),
        ({"startingOffsets": '{"orders": {"0": 3}}', "endingOffsets": '{"orders": {"0": 12}}'}, (10, 12)),
        ({"startingOffsets": '{"orders": {"0": 25}}', "endingOffsets": '{"orders": {"0": 12}}'}, None),
    ],
)
def test_lost_offsets_that_may_be_lost(
    options: dict[str, str], found: tuple[int, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    cut = slices(EXTENTS, parse({"path": "/s", "subscribe": "orders", "failOnDataLoss": "false", **options}))
    assert cut == ([Slice("orders", 0, *found)] if found else [])
    assert "failOnDataLoss is off" in caplog.text and "10 to 20 would do" in caplog.text
