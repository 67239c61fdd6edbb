"""Goal: a plan is carried out by the next run as it was made by this one. Method: any plan, to JSON and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.store.fill_plan import Stretch
from orbitmq.store.stand_in import LostMessage

NUMBERS = st.integers(0, 1 << 62)
RUNS = st.tuples(st.text(max_size=5), st.integers(0, 3), st.integers(0, 9), st.integers(1, 4))
MESSAGES = st.lists(RUNS, max_size=6).map(
    lambda runs: tuple(LostMessage(topic, queue, first + n) for topic, queue, first, count in runs for n in range(count))
)


@settings(max_examples=40)
@given(st.builds(Stretch, NUMBERS, NUMBERS, NUMBERS, st.booleans(), NUMBERS, MESSAGES))
def test_a_plan_comes_back(stretch: Stretch) -> None:
    record = json.loads(json.dumps(stretch.as_record()))
    assert Stretch.of_record(record) == stretch


def test_neighbours_are_one_entry() -> None:
    messages = tuple(LostMessage("T", queue, number) for queue in (0, 1) for number in range(7, 1007))
    assert Stretch(0, 1, 1, False, 5, messages).as_record()[-1] == [["T", 0, 7, 1000], ["T", 1, 7, 1000]]


@pytest.mark.parametrize("record", [[], [1, 2, 3], ["x"] * 6, [1, 2, 3, True, 5, [["T", 0, 1]]], [1, 2, 3, True, 5, 6], 7])
def test_what_is_no_plan(record: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Stretch.of_record(record)  # type: ignore[arg-type]
