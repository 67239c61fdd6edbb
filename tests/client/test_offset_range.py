"""Goal: an offset is refused exactly when the queue does not hold it, and the error has the numbers."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer.offset_range import check_commit, check_offset, log_removals
from orbitmq.errors import OffsetOutOfRange

NUMBERS = st.integers(0, 20)


@given(st.integers(-3, 25), NUMBERS, NUMBERS)
def test_seeking(offset: int, minimum: int, more: int) -> None:
    bounds = minimum, minimum + more
    if bounds[0] <= offset <= bounds[1]:
        check_offset("t", 1, offset, bounds)
    else:
        with pytest.raises(OffsetOutOfRange, match=f"seek to offset {offset} of 't', queue 1") as caught:
            check_offset("t", 1, offset, bounds)
        assert (caught.value.offset, caught.value.minimum, caught.value.maximum) == (offset, *bounds)


@given(st.integers(-3, 25), NUMBERS)
def test_committing(offset: int, maximum: int) -> None:
    """What retention has removed may be committed; what has not come may not."""
    if 0 <= offset <= maximum:
        check_commit("t", 1, offset, maximum)
    else:
        with pytest.raises(OffsetOutOfRange, match=f"the queue ends at {maximum}") as caught:
            check_commit("t", 1, offset, maximum)
        assert caught.value.hint


@pytest.mark.parametrize(("group", "who"), [(None, "this consumer"), ("g", "group 'g'")])
def test_what_was_removed_is_told(group: str | None, who: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "orbitmq"):
        log_removals(group, [("t", 0), ("u", 3)], [(1, 7, 12)])
    [record] = caplog.records
    assert record.getMessage() == (
        f"retention removed 7 messages of 'u', queue 3, before {who} read them; it goes on at offset 12"
    )
