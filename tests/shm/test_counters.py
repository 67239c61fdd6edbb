"""Goal: a reader sees what an actor counts, and the histogram keeps every value within 12.5 %.

Method: bucket bounds against plain arithmetic over the whole range; quantiles against the sorted values.
"""

from __future__ import annotations

import math
import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.native._core import lib
from orbitmq.shm.counters import ActorPage, ActorState, Counter, page_size

TOP = 1 << 43  # from here on everything is in the last bucket


def make_page() -> ActorPage:
    return ActorPage.in_buffer(mmap.mmap(-1, page_size()))


def test_a_fresh_page() -> None:
    seen = make_page().read()
    assert (seen.name, seen.pid, seen.epoch, seen.state, seen.error) == ("", 0, 0, ActorState.ABSENT, 0)
    assert set(seen.counters.values()) == {0}
    assert len(seen.counters) == len(Counter) == 17


def test_counters_by_name() -> None:
    page = make_page()
    page.add(Counter.MESSAGES, 5)
    page.add(Counter.MESSAGES)
    page.add(Counter.BYTES, 1 << 40)
    seen = page.read().counters
    assert (seen["messages"], seen["bytes"], seen["steps"]) == (6, 1 << 40, 0)


def test_buckets_follow_each_other() -> None:
    bounds = [lib.histogram_lowest(index) for index in range(lib.HISTOGRAM_BUCKETS)]
    assert bounds[:17] == [*range(16), 16] and bounds == sorted(set(bounds))
    for index, lowest in enumerate(bounds):
        assert lib.histogram_index(lowest) == index
        if lowest:
            assert lib.histogram_index(lowest - 1) == index - 1


@given(st.integers(0, 2**64 - 1))
def test_a_value_is_in_its_bucket(value: int) -> None:
    index = lib.histogram_index(value)
    lowest = lib.histogram_lowest(index)
    assert lowest <= value
    if value < TOP:
        assert value < lib.histogram_lowest(index + 1)
        assert lib.histogram_lowest(index + 1) - lowest <= max(1, lowest / 8)
    else:
        assert index == lib.HISTOGRAM_BUCKETS - 1


@given(st.lists(st.integers(0, TOP - 1), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles(values: list[int], q: float) -> None:
    page = make_page()
    for value in values:
        page.record(value)
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert exact <= page.quantile(q) <= exact * 1.125
    assert page.samples() == len(values)


@given(st.lists(st.integers(0, TOP - 1), max_size=50), st.integers(0, 40))
def test_a_histogram(values: list[int], power: int) -> None:
    page = make_page()
    for value in values:
        page.record(value)
    seen = page.histogram()
    assert seen.count == len(values) and seen.below(power) == sum(value < 1 << power for value in values)
    assert seen.total == pytest.approx(sum(values), rel=0.0625)


def test_no_values_no_quantile() -> None:
    page = make_page()
    assert page.quantile(0.99) == 0
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="quantile"):
            page.quantile(q)
