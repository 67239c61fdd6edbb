"""Goal: a rate is what happened between two looks, and never less than nothing."""

from __future__ import annotations

import pytest

from orbitmq.cli.looks import Between, Look
from orbitmq.client.admin.status import GroupQueueStatus
from tests.cli.made_status import actor, group, positions, status, topic

BEFORE = Look(
    status(
        actors=(actor("writer", counters={"messages": 1000}),),
        topics=(topic("t", (0, 10), (5, 20)),),
        groups=(group("g", GroupQueueStatus("t", 0, 4, 6, 0), GroupQueueStatus("t", 1, 8, 12, 0)),),
        positions=positions(wrote=1000, flushed=500),
    ),
    at=10.0,
)
NOW = Look(
    status(
        actors=(actor("writer", counters={"messages": 1600}), actor("reput")),
        topics=(topic("t", (0, 40), (15, 20)), topic("new", (0, 8))),
        groups=(group("g", GroupQueueStatus("t", 0, 2, 8, 0), GroupQueueStatus("t", 1, 20, 0, 0)),),
        positions=positions(wrote=5000, flushed=100),
    ),
    at=12.0,
)
BETWEEN = Between(BEFORE, NOW)


def test_rates() -> None:
    assert BETWEEN.of_actor("writer", "messages") == 300
    assert BETWEEN.of_topic("t") == 15 and BETWEEN.of_group("g") == 5 and BETWEEN.of_position("wrote") == 2000


def test_what_went_back_stands_still() -> None:
    """Offsets of a group, say, that somebody has set."""
    assert BETWEEN.of_position("flushed") == 0 and Between(NOW, Look(BEFORE.status, at=20)).of_group("g") == 0


def test_what_came_or_went_meanwhile() -> None:
    assert BETWEEN.of_topic("new") == 4 and BETWEEN.of_topic("gone") == 0 == BETWEEN.of_group("gone")
    assert BETWEEN.of_actor("reput", "messages") == 0 == BETWEEN.of_actor("nobody", "messages")


@pytest.mark.parametrize("at", [12.0, 11.0])
def test_no_time_has_passed(at: float) -> None:
    assert Between(NOW, Look(NOW.status, at=at)).per_second(0, 100) == 0
