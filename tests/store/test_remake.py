"""Goal: what a repair has decided is carried out by the next process.

Method: orders given, or left by a repair that was killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbitmq.store import remake
from orbitmq.store.fill_plan import Stretch
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Recorded
from orbitmq.store.recovery import log_cut
from orbitmq.store.recovery.recover import recover
from orbitmq.store.repair import log as repair_log
from orbitmq.store.repair.choice import Choice
from orbitmq.store.stand_in import LostMessage
from tests.store.damage import SIZE, records, spoil_log, spoilt
from tests.store.repair_rig import account, repair
from tests.store.stored_by_broker import SETTINGS, Stored


def test_a_broker_that_carries_out_a_cut_keeps_all_of_it(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is. Method: a lower limit than this for what a crash can leave."""
    monkeypatch.setattr(log_cut, "KEEP_MAX", 1000)
    place = records(stored)[20][0]
    spoil_log(stored, place, b"\x7f" * 60)
    remake.give(stored.layout, remake.Order(cut=place))
    report = recover(stored.layout, SETTINGS, lambda line: None)
    assert report.end == place and len(report.cuts) > 1 and all(cut.path for cut in report.cuts)


KEYS = st.tuples(st.text(max_size=4), st.integers(0, 9))
STRETCHES = st.builds(
    Stretch, *[st.integers(0, 1 << 40)] * 3, st.booleans(), st.integers(0, 1 << 40), st.just((LostMessage("T", 1, 2),))
)
ORDERS = st.builds(
    remake.Order,
    st.dictionaries(KEYS, st.integers(0, 1 << 40), max_size=3),
    st.none() | st.integers(0, 1 << 40),
    st.lists(STRETCHES, max_size=2).map(tuple),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ORDERS)
def test_an_order_comes_back(tmp_path: Path, order: remake.Order) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    assert not remake.pending(layout) and remake.load(layout) is None
    remake.give(layout, order)
    assert remake.pending(layout) and remake.load(layout) == order
    remake.done(layout)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"queues": [], "cut": "x"}',
        b'{"queues": [["t", 0, 1e999]], "cut": null, "fill": []}',
        b'{"queues": [], "cut": Infinity, "fill": []}',
        b'{"queues": [], "cut": null, "fill": [5]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_an_order_that_cannot_be_read_is_still_one(tmp_path: Path, content: bytes) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    layout.remake.write_bytes(content)
    assert remake.pending(layout) and remake.load(layout) == remake.Order()


@pytest.mark.parametrize(("cut", "flushed", "wrote"), [(None, 500, 700), (600, 500, 600), (400, 400, 400), (900, 500, 700)])
def test_what_was_recorded_ends_at_the_cut(cut: int | None, flushed: int, wrote: int) -> None:
    recorded = Recorded(flushed=500, wrote=700, store_ms=1, clean=True, boot=b"")
    lowered = remake.Order(cut=cut).lower(recorded)
    assert lowered is not None and (lowered.flushed, lowered.wrote) == (flushed, wrote)
    assert remake.Order(cut=cut).lower(None) is None


def test_an_order_that_makes_no_sense(stored: Stored) -> None:
    stored.layout.remake.write_text('{"queues": [], "cut": "x"}')
    assert repair(stored)[1].whole
    account(stored, set())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("pieces", [1, 8, 25, 40])
@pytest.mark.parametrize("then", Choice)
def test_killed_in_the_midst_of_a_gap(stored: Stored, pieces: int, then: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before is carried out, whatever is chosen then: units that point into bytes which are good again say
    nothing about what was there."""
    offset, _, _ = records(stored)[550]
    last, size, _ = records(stored)[-1]
    spoil_log(stored, offset, b"\xa5" * min(last + size - offset, SIZE - offset % SIZE))
    lost = spoilt(stored)
    left = pieces

    def point(name: str) -> None:
        nonlocal left
        left -= name == "repair_log_written"
        if left == 0:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(repair_log, "crash_point", point)
        repair(stored, Choice.SKIP)
    assert not stored.verify()[0].whole
    _, verdict = repair(stored, then)
    assert verdict.whole and verdict.records >= 600, verdict.faults
    account(stored, lost)
