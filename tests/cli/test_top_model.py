"""Goal: the live view's numbers are true: no rate where none was measured, none of a broker that was another. Method: looks
made by hand (made_status.py), and series, filters and sorts of any kind against what they mean (cli/top: model.py, series.py,
columns.py, head.py)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.cli.looks import Look
from orbitmq.cli.top.columns import ACTORS, GROUPS, TOPICS, chosen, sortable
from orbitmq.cli.top.head import LINES, head
from orbitmq.cli.top.model import GAP_S, Life, Model, Seen
from orbitmq.cli.top.series import BARS, SAMPLES, Series
from orbitmq.cli.top.source import processor_s
from orbitmq.client.admin.status import GroupQueueStatus
from tests.cli.made_status import actor, group, positions, status, topic

NUMBERS = st.lists(st.none() | st.floats(0, 1e12), max_size=2 * SAMPLES)


def seen(at: float, busy: dict[Life, float] | None = None, **changed: Any) -> Seen:
    return Seen(Look(status(**changed), at), busy or {})


@given(NUMBERS, st.integers(0, 2 * SAMPLES))
def test_bars(values: list[float | None], width: int) -> None:
    bars = Series(values).bars(width)
    assert len(bars) == width
    shown = values[-min(width, SAMPLES) :] if width else []
    known = [value for value in shown if value is not None]
    assert bars[: width - len(shown)].strip() == ""
    for value, bar in zip(shown, bars[width - len(shown) :], strict=True):
        if value is None:
            assert bar == " "
        else:
            assert (bar == BARS[0]) == (value == 0)
            assert value < max(known) or value == 0 or bar == BARS[-1]


def test_rates_of_two_looks() -> None:
    model = Model()
    before = {"actors": (actor("writer", counters={"messages": 10}),), "positions": positions(wrote=100)}
    model.take(seen(5, topics=(topic("orders", (0, 4)),), **before))
    assert model.messages.last is None and model.topics()[0].rates.last is None
    model.take(
        seen(
            7,
            actors=(actor("writer", counters={"messages": 30}),),
            positions=positions(wrote=300),
            topics=(topic("orders", (0, 10)), topic("new", (0, 1000))),
            groups=(group("g", GroupQueueStatus("orders", 0, 3, 7, 0)),),
        )
    )
    assert (model.messages.last, model.bytes.last, model.lag.last) == (10, 100, 7)
    orders, new = model.topics()
    assert orders.rates.last == 3 and orders.held == 10
    assert new.rates.last is None  # nobody knows in which time its messages came
    assert model.groups()[0].lags.last == 7 and model.groups()[0].rates.last is None
    assert model.actors()[0].rates.last == 10


@pytest.mark.parametrize(
    ("at", "generation"), [(6.0, 8), (5 + GAP_S + 1, 7), (5.0, 7)], ids=["restarted", "long ago", "at once"]
)
def test_looks_that_cannot_be_compared(at: float, generation: int) -> None:
    model = Model()
    model.take(seen(5, actors=(actor("writer", counters={"messages": 10}),), topics=(topic("t", (0, 1)),)))
    model.take(
        seen(at, generation=generation, actors=(actor("writer", counters={"messages": 99}),), topics=(topic("t", (0, 9)),))
    )
    assert model.messages.last is None and model.bytes.last is None
    assert model.topics()[0].rates.last is None and model.actors()[0].share is None


def test_processor_time_is_of_one_life() -> None:
    model = Model()
    lives = (actor("writer", pid=1), actor("reput", pid=2), actor("flush", pid=3))
    model.take(seen(5, {(1, 1): 10.0, (2, 1): 10.0, (3, 1): 7.0}, actors=lives))
    again = (actor("writer", pid=1), actor("reput", pid=2, epoch=2), actor("flush", pid=0))
    model.take(seen(7, {(1, 1): 11.0, (2, 2): 50.0}, actors=again))
    assert {row.name: row.share for row in model.actors()} == {"writer": 0.5, "reput": None, "flush": None}


def test_processor_time_of_a_process() -> None:
    before = processor_s(os.getpid())
    assert before is not None and before <= sum(os.times()[:2]) + 0.1
    assert processor_s(2**22 + 1) is None


def test_a_broker_that_goes_and_comes() -> None:
    model = Model()
    model.take(seen(5, topics=(topic("t", (0, 1)),)))
    model.lost("broker 'default' was stopped")
    assert model.topics()[0].name == "t" and "broker 'default' was stopped" in head(model, 200).plain
    assert "● not seen" in head(model, 200).plain and "seen last" in head(model, 200).plain
    model.take(seen(6, topics=(), generation=8))
    assert not model.away and not model.topics() and "● running" in head(model, 200).plain
    assert model.lag.bars(3) == f"{BARS[0]} {BARS[0]}"


def test_before_the_first_look() -> None:
    model = Model()
    assert not model.actors() and not model.topics() and not model.groups()
    assert "looking for the broker" in head(model, 80).plain
    model.lost("no broker 'x' runs")
    assert "no broker 'x' runs" in head(model, 80).plain and "seen last" not in head(model, 200).plain


@given(st.integers(1, 250))
def test_the_head_fits(width: int) -> None:
    model = Model()
    model.take(seen(5, name="n" * 300, store="/s" * 300))
    model.complaints.lost("y" * 300)
    lines = head(model, width).plain.split("\n")
    assert len(lines) == LINES and all(len(line) <= width for line in lines)


@given(
    st.dictionaries(st.text(max_size=4), st.integers(0, 3), max_size=8),
    st.text(max_size=2),
    st.sampled_from(sortable(TOPICS)),
    st.booleans(),
)
def test_sorts_and_filters(topics: dict[str, int], wanted: str, column: Any, backwards: bool) -> None:
    model = Model()
    model.take(seen(5, topics=tuple(topic(name, (0, held)) for name, held in topics.items())))
    rows = chosen(model.topics(), wanted, column, backwards)
    assert {row.name for row in rows} == {name for name in topics if wanted.casefold() in name.casefold()}
    values = [column.by(row) for row in rows]
    assert values == sorted(values, reverse=column.rising == backwards)


def test_every_cell_of_every_table() -> None:
    """Names that somebody chose are shown as they are, and nothing in them moves the cursor."""
    model = Model()
    name = "[red]a\x1b[2J"
    model.take(
        seen(
            5,
            actors=(actor("writer", counters={"messages": 3}, epoch=2, heartbeat_age_ms=9000),),
            topics=(topic(name, (0, 1234)),),
            groups=(group(name, GroupQueueStatus(name, 0, 3, 7, 2)),),
        )
    )
    told = [[column.show(row).plain for column in ACTORS] for row in model.actors()]
    told += [[column.show(row).plain for column in TOPICS] for row in model.topics()]
    told += [[column.show(row).plain for column in GROUPS] for row in model.groups()]
    assert told[0][:6] == ["writer", "running", "42", "2", "", "9.0 s"]
    assert told[1][0] == told[2][0] == told[2][-1] == "[red]a\\x1b[2J" and "1,234" in told[1]
    assert told[2][1] == "7" and told[2][4:6] == ["none", "2"]
