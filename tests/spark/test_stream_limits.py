"""Goal: a micro-batch takes what the limits say. Method: the rules alone, with a clock that the test controls."""

from __future__ import annotations

import random

import pytest

from orbitmq.errors import SettingError
from orbitmq.spark.stream.limits import Hold, share
from orbitmq.spark.stream.offsets import Offsets, from_json, to_json


def begins(*counts: int) -> Offsets:
    return {("t", queue): count for queue, count in enumerate(counts)}


def test_shares_follow_the_backlog() -> None:
    assert share(begins(0, 100, 7), begins(300, 200, 7), 40) == begins(30, 110, 7)
    assert share(begins(0, 0), begins(3, 4), 7) == begins(3, 4)


def test_no_queue_starves() -> None:
    assert share(begins(0, 0), begins(1_000_000, 1), 10) == begins(9, 1)
    assert share(begins(0, 0, 0), begins(5, 5, 5), 1) == begins(1, 1, 1)


def test_shares_lead_to_the_end() -> None:
    """Any backlog is processed in steps that are within the limit, except for one message a queue."""
    rng = random.Random(1)
    for _ in range(200):
        queues = rng.randrange(1, 8)
        most = rng.randrange(1, 50)
        now, end = begins(*(0,) * queues), begins(*(rng.randrange(200) for _ in range(queues)))
        while now != end:
            after = share(now, end, most)
            took = sum(after.values()) - sum(now.values())
            assert 0 < took <= most + queues and all(now[place] <= after[place] <= end[place] for place in end)
            now = after


def test_messages_wait_for_company_but_not_for_ever() -> None:
    now = [0.0]
    hold = Hold(10, 60.0, lambda: now[0])
    assert not hold.holds(1), "the first batch waits for nothing"
    assert hold.holds(9) and not hold.holds(10)
    now[0] = 59.0
    assert hold.holds(1)
    now[0] = 60.0
    assert not hold.holds(1)
    assert hold.holds(1), "the delay begins anew with each batch"


def test_offsets_are_written_in_one_order() -> None:
    """Spark compares them as text."""
    content = {"b": {"10": 1, "2": 0}, "a": {"0": 3}}
    assert str(to_json(from_json(content))) == "{'a': {'0': 3}, 'b': {'2': 0, '10': 1}}"


@pytest.mark.parametrize("content", [[], {"a": 3}, {"a": {"x": 1}}, None])
def test_a_checkpoint_of_something_else_is_refused(content: object) -> None:
    with pytest.raises(SettingError, match="checkpointLocation"):
        from_json(content)
