"""Goal: what was wrong while somebody watched can be read afterwards, and is told once. Method: looks made by hand
(Complaints of cli/top/complaints.py)."""

from __future__ import annotations

import errno
import os

from orbitmq.cli.top.complaints import KEPT, Complaints
from orbitmq.shm.death import Death
from tests.cli.made_status import actor, positions, status


def texts(complaints: Complaints) -> list[str]:
    return [each.text for each in complaints]


def test_what_goes_on_is_told_once() -> None:
    complaints = Complaints(lambda: 0.0)
    well, ill = status(), status(positions=positions(wrote_error=errno.ENOSPC), notes=("a copy was used",))
    complaints.compare(None, well)
    assert complaints.last is None
    complaints.compare(well, ill)
    complaints.compare(ill, ill)
    told = f"a write of the log failed: {os.strerror(errno.ENOSPC)}"
    assert sorted(texts(complaints)) == ["a copy was used", told]
    complaints.compare(ill, well)
    complaints.compare(well, ill)
    assert texts(complaints).count(told) == 2


def test_last_words() -> None:
    """Of the process that died, whichever of its actors one looks at; and of an actor that died more than once."""
    before = status(actors=(actor("reput", pid=5), actor("writer", pid=5), actor("flush", pid=6), actor("notifier", pid=7)))
    deaths = (
        Death("stages", 5, 1, 0.0, "SIGABRT", ("before", "x.c:7: Assertion failed.")),
        Death("flush", 66, 2, 0.0, "SIGKILL", ()),
    )
    lives = {"reput": 2, "writer": 2, "flush": 3, "notifier": 1}
    complaints = Complaints()
    complaints.compare(before, status(actors=tuple(actor(name, epoch=epoch) for name, epoch in lives.items()), deaths=deaths))
    said = "died of SIGABRT and was started again: life 2; its last words: x.c:7: Assertion failed."
    assert sorted(texts(complaints)) == [
        "flush died of SIGKILL and was started again: life 3", f"reput {said}", f"writer {said}",
    ]  # fmt: skip


def test_lives_of_actors() -> None:
    complaints = Complaints()
    first = status(actors=(actor("writer"), actor("reput")))
    second = status(actors=(actor("writer"), actor("reput", epoch=2), actor("handler 7")))
    failed = status(actors=(actor("writer", error=errno.EIO), actor("reput", epoch=2)))
    complaints.compare(first, second)
    assert texts(complaints) == ["reput died and was started again: life 2"]
    complaints.compare(second, failed)
    complaints.compare(failed, failed)
    assert texts(complaints)[0] == f"writer was stopped by {os.strerror(errno.EIO)}" and len(texts(complaints)) == 2


def test_another_broker() -> None:
    """Its actors begin to count their lives anew: that is no death."""
    complaints = Complaints()
    before = status(actors=(actor("writer", epoch=3),))
    complaints.lost("no broker 'default' runs")
    complaints.lost("no broker 'default' runs")
    complaints.compare(before, status(generation=8, actors=(actor("writer", epoch=4),)))
    assert texts(complaints) == ["the broker was started again", "no broker 'default' runs"]


def test_old_ones_go() -> None:
    complaints = Complaints(lambda: 3.0)
    for number in range(KEPT + 5):
        complaints.lost(f"{number}")
    assert len(texts(complaints)) == KEPT and complaints.last is not None and complaints.last.text == f"{KEPT + 4}"
    assert str(complaints.last).endswith(f":03  {KEPT + 4}")
