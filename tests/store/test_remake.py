"""Goal: what a repair has decided is carried out, by whoever comes next.

Method: orders given, or left by a repair that was killed.
"""

from __future__ import annotations

import pytest

from orbitmq.store import remake
from orbitmq.store.recovery import log_cut
from orbitmq.store.recovery.recover import recover
from orbitmq.store.repair import log as repair_log
from orbitmq.store.repair.choice import Choice
from tests.store.damage import SIZE, records, spoil_log, spoilt
from tests.store.repair_rig import account, repair
from tests.store.stored_by_broker import SETTINGS, Stored


def test_a_broker_that_carries_out_a_cut_keeps_all_of_it(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is. Method: a limit for what a crash leaves that is smaller than this."""
    monkeypatch.setattr(log_cut, "KEEP_MAX", 1000)
    place = records(stored)[20][0]
    spoil_log(stored, place, b"\x7f" * 60)
    remake.give(stored.layout, remake.Order(cut=place))
    report = recover(stored.layout, SETTINGS, lambda line: None)
    assert report.end == place and len(report.cuts) > 1 and all(cut.path for cut in report.cuts)


def test_an_order_that_makes_no_sense(stored: Stored) -> None:
    stored.layout.remake.write_text('{"queues": [], "cut": "x"}')
    assert repair(stored)[1].whole
    account(stored, set())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("pieces", [1, 8, 25, 40])
@pytest.mark.parametrize("then", Choice)
def test_killed_in_the_midst_of_a_gap(stored: Stored, pieces: int, then: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before is carried out, whatever is chosen then: units that point into the bytes
    that are good again say nothing of what was there."""
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
