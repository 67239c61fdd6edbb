"""Goal: a stream reads every message once, or says which it cannot read; what it plans exists. Method: a store whose queues
grow, lose messages, and are created again, compared with a plain account of what was read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import OffsetOutOfRange, OrbitError, UnknownTopic
from orbitmq.spark.source.options import parse
from orbitmq.spark.stream.backlog import Backlog
from orbitmq.spark.stream.offsets import Offsets, Place

Held = dict[str, dict[int, tuple[int, int]]]


class Snapshot:
    def __init__(self, topics: Held) -> None:
        self.topics = topics


class Doubtful:
    """held: what is flushed; appended: what is there, if that is known."""

    def __init__(self, *, fails: bool = True, choice: dict[str, str] | None = None) -> None:
        given = {"path": "/store", **(choice or {"subscribe": "a,b"}), "failOnDataLoss": str(fails).lower()}
        self.appended: Held | None = None
        self.asked = 0
        ask: Any = self.ask
        self.backlog = Backlog(parse(given, streaming=True), ask)

    def ask(self) -> Snapshot | None:
        self.asked += 1
        return None if self.appended is None else Snapshot(self.appended)


HELD: Held = {"a": {0: (2, 10), 1: (0, 4)}, "b": {0: (0, 0)}}
BEGIN: Offsets = {("a", 0): 5, ("a", 1): 4, ("b", 0): 0}


def test_what_has_come() -> None:
    mine = Doubtful()
    ends = mine.backlog.ends(BEGIN, HELD)
    assert ends == {("a", 0): 10, ("a", 1): 4, ("b", 0): 0} and not mine.asked
    assert mine.backlog.starts(BEGIN, ends, HELD) == BEGIN
    [slice_] = mine.backlog.slices(BEGIN, ends, HELD, first=False)
    assert (slice_.topic, slice_.queue, slice_.begin, slice_.end) == ("a", 0, 5, 10)


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_has_removed(fails: bool) -> None:
    mine = Doubtful(fails=fails)
    begin = {("a", 0): 1}
    if fails:
        with pytest.raises(OffsetOutOfRange, match="retention has removed it") as caught:
            mine.backlog.slices(begin, {("a", 0): 10}, HELD, first=False)
        assert (caught.value.offset, caught.value.minimum, caught.value.maximum) == (1, 2, 10)
    else:
        [slice_] = mine.backlog.slices(begin, {("a", 0): 10}, HELD, first=False)
        assert (slice_.begin, slice_.end) == (2, 10)
    assert mine.backlog.starts(begin, {("a", 0): 10}, HELD) == {("a", 0): 2}


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_gone(fails: bool) -> None:
    """Named, or left out, so that it is new when it comes again; kept while it is not certain whether it is gone."""
    held: Held = {"a": {0: (2, 10), 1: (0, 4)}}
    if fails:
        mine = Doubtful()
        mine.appended = held
        with pytest.raises(UnknownTopic, match="the store does not have it any more"):
            mine.backlog.ends(BEGIN, held)
    mine = Doubtful(fails=False)
    assert ("b", 0) in mine.backlog.ends(BEGIN, held) and mine.asked == 1
    mine.appended = held
    assert ("b", 0) not in mine.backlog.ends(BEGIN, held)
    mine.appended = {**held, "b": {0: (0, 0)}}
    assert ("b", 0) in mine.backlog.ends(BEGIN, held), "it is there, and only not flushed yet"


@pytest.mark.parametrize("fails", [True, False])
def test_a_queue_that_was_made_anew(fails: bool) -> None:
    """It ends before the stream's position: not because it is not flushed, but because it is another queue."""
    mine, begin = Doubtful(fails=fails), {("a", 0): 50, ("a", 1): 4, ("b", 0): 0}
    assert mine.backlog.ends(begin, HELD)["a", 0] == 50, "nobody can say"
    mine.appended = {**HELD, "a": {0: (2, 60), 1: (0, 4)}}
    assert mine.backlog.ends(begin, HELD)["a", 0] == 50, "it is not flushed so far"
    mine.appended = HELD
    if fails:
        with pytest.raises(OffsetOutOfRange, match="made anew"):
            mine.backlog.ends(begin, HELD)
        return
    ends = mine.backlog.ends(begin, HELD)
    assert ends["a", 0] == 10
    assert mine.backlog.starts(begin, ends, HELD)["a", 0] == 2
    [slice_] = mine.backlog.slices(begin, ends, HELD, first=False)
    assert (slice_.begin, slice_.end) == (2, 10)


def test_a_queue_that_is_no_longer_chosen_keeps_its_place() -> None:
    mine = Doubtful(choice={"assign": '{"a": [1]}'})
    ends = mine.backlog.ends(BEGIN, HELD)
    assert ends == {("a", 0): 5, ("a", 1): 4, ("b", 0): 0}


def test_a_first_batch_that_is_read_again() -> None:
    """Its beginning was determined just now and may be after its former end."""
    mine = Doubtful()
    assert mine.backlog.slices({("a", 0): 8}, {("a", 0): 6}, HELD, first=True) == []


PLACES: list[Place] = [("a", 0), ("a", 1), ("b", 0)]
STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "remove", "anew"]), st.sampled_from(PLACES), st.integers(1, 5)), max_size=12
)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=6))
def test_every_message_once_or_named(rounds: list[list[tuple[str, Place, int]]]) -> None:
    """A message is (place, life of the queue, offset). Without failOnDataLoss, what is planned is there, nothing is read twice,
    and all is read that was not removed before. With it, it is the same until something is lost."""
    mine, strict = Doubtful(fails=False), Doubtful()
    bounds = dict.fromkeys(PLACES, (0, 0))
    lives = dict.fromkeys(PLACES, 0)
    at: Offsets = {}
    read: list[tuple[Place, int, int]] = []
    lost = False
    for steps in [*rounds, []]:
        for step, place, count in steps:
            first, end = bounds[place]
            if step == "send":
                bounds[place] = first, end + count
            elif step == "remove":
                bounds[place] = min(end, first + count), end
                lost |= bounds[place][0] > at.get(place, 0)
            else:
                lives[place] += 1
                lost |= at.get(place, 0) > 0
                bounds[place] = 0, 0
                if at.get(place, 0):
                    lost = True
        held: Held = {}
        for (topic, queue), found in bounds.items():
            held.setdefault(topic, {})[queue] = found
        mine.appended = strict.appended = held
        ends = mine.backlog.ends(at, held)
        slices = mine.backlog.slices(at, ends, held, first=False)
        if not lost:
            assert strict.backlog.ends(at, held) == ends and strict.backlog.slices(at, ends, held, first=False) == slices
        for each in slices:
            place = each.topic, each.queue
            assert bounds[place][0] <= each.begin < each.end <= bounds[place][1], "it is there"
            read += [(place, lives[place], offset) for offset in range(each.begin, each.end)]
        at = ends
    assert len(set(read)) == len(read), "nothing twice"
    for place, (first, end) in bounds.items():
        there = {(place, lives[place], offset) for offset in range(first, end)}
        if lives[place] == 0:
            assert there <= set(read), "nothing that is there is left out"


def test_a_loss_that_nobody_forbids_is_told(caplog: pytest.LogCaptureFixture) -> None:
    Doubtful(fails=False).backlog.slices({("a", 0): 1}, {("a", 0): 10}, HELD, first=False)
    assert "failOnDataLoss is off" in caplog.text
    with pytest.raises(OrbitError):
        Doubtful().backlog.ends({}, {"a": {0: (0, 1)}})
