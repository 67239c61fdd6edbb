"""Goal: a delayed message that was cancelled never comes, whatever dies after somebody was told so; one that was not comes
once. Method: the stages in this process (delay_life.py), whose clocks the test moves; test_scheduler_model.py does the same at
random."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from orbitmq.native._core import lib
from tests.actors.delay_life import TIMER, DelayLife, settings_of
from tests.waiting import until

DAY_MS, HOUR_MS = 86_400_000, 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def came(life: DelayLife) -> list[bytes]:
    return [bytes(record.body) for record in life.delivered()]


def send(life: DelayLife, count: int, *, apart_ms: int = 1000) -> list[int]:
    """Messages 0, 1, ... that are due from in a day on. Returns their queue offsets."""
    base = now_ms() + DAY_MS
    return [life.send_at("T", base + n * apart_ms, b"%d" % n)[0].queue_offset for n in range(count)]


def test_the_record_that_cancels(life: DelayLife) -> None:
    """It names the topic, so that its permission counts, and has no body; its unit says what it cancels."""
    send(life, 2)
    life.cancel("T", 1)
    waiting = [record for record in life.records() if record.topic == TIMER][2]
    assert (waiting.queue_id, waiting.queue_offset, waiting.prepared_offset) == (0, 2, 0x43 << 56 | 1)
    assert (waiting.properties, bytes(waiting.body)) == ({"REAL_TOPIC": "T", "REAL_QID": "0"}, b"")


def test_it_never_comes(life: DelayLife) -> None:
    """Of some messages, those that were cancelled; twice does no harm."""
    offsets = send(life, 5)
    life.settle()
    cancels = life.cancel("T", offsets[1], offsets[3], offsets[3])
    assert [life.outcome(each) for each in cancels] == [lib.CANCEL_OPEN] * 3
    life.settle()
    assert [life.outcome(each) for each in cancels] == [lib.CANCEL_NEVER] * 3
    life.pass_time(2 * DAY_MS)
    life.settle()
    assert came(life) == [b"0", b"2", b"4"]
    assert [life.outcome(each) for each in cancels] == [lib.CANCEL_NEVER] * 3


def test_too_late(life: DelayLife) -> None:
    """Its time has come; or it is no message at all: one that cancels, one to come, the record itself."""
    offsets = send(life, 2, apart_ms=HOUR_MS)
    life.pass_time(DAY_MS)
    life.settle()
    assert came(life) == [b"0"]
    cancels = life.cancel("T", offsets[0], 2, 4, 1 << 40, (1 << 64) - 1, (1 << 56) + offsets[1])
    life.settle()
    assert [life.outcome(each) for each in cancels] == [lib.CANCEL_LATE] * 6
    life.pass_time(DAY_MS)
    life.settle()
    assert came(life) == [b"0", b"1"]


def test_a_cancel_that_comes_while_its_message_is_on_its_way(life: DelayLife) -> None:
    """The message is in the lane when the cancel is stored: it is too late, also for a scheduler that begins then."""
    offsets = send(life, 1)
    life.pass_time(2 * DAY_MS)
    life.schedule()  # into the lane
    (cancel,) = life.cancel("T", *offsets)
    life.begin_scheduler()
    life.settle()
    assert life.outcome(cancel) == lib.CANCEL_LATE
    assert came(life) == [b"0"]


@pytest.mark.parametrize("room", [2, 3, 7])
@pytest.mark.parametrize("most", [1, 3, 50])
def test_more_than_fit_in_memory(in_memory: Path, room: int, most: int) -> None:
    """Messages that were cancelled fill the heap when the queue is read again; those behind them come all the same."""
    life = DelayLife(settings_of(in_memory), room=room, most=most)
    offsets = send(life, 60)
    life.settle()
    kept = [0, 31, 59]
    cancels = life.cancel("T", *(each for n, each in enumerate(offsets) if n not in kept))
    life.settle()
    assert {life.outcome(each) for each in cancels} == {lib.CANCEL_NEVER}
    life.pass_time(2 * DAY_MS)
    life.settle()
    assert came(life) == [b"%d" % n for n in kept]
    life.end()


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("death", ["scheduler", "writer", "tree", "tree without file"])
def test_deaths(in_memory: Path, death: str, told: bool) -> None:
    """A successor reads what was cancelled before it puts any message there."""
    settings = settings_of(in_memory)
    life = DelayLife(settings, most=3)
    offsets = send(life, 8, apart_ms=HOUR_MS)
    life.settle()
    life.keep()
    cancels = life.cancel("T", *offsets[1:7])
    if told:
        life.settle()
        assert {life.outcome(each) for each in cancels} == {lib.CANCEL_NEVER}
    life.pass_time(DAY_MS + 3 * HOUR_MS)
    if told:
        life.settle()
        assert came(life) == [b"0"]
    if death == "scheduler":
        life.begin_scheduler()
    elif death == "writer":
        life.begin_writer()
    else:
        life.end()
        if death == "tree without file":
            settings.layout.delayed.write_bytes(b"garbage")
        life = DelayLife(settings, most=3, ahead=life.ahead)
    life.pass_time(DAY_MS)
    life.settle()
    assert came(life) == [b"0", b"7"]
    life.end()


def test_a_death_after_later_messages_came(in_memory: Path) -> None:
    """The files are behind, and the log has messages that were due after those that were cancelled."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    offsets = send(life, 20)
    life.settle()
    life.keep()
    life.cancel("T", *offsets[3:17])
    life.settle()
    life.pass_time(2 * DAY_MS)
    life.settle()
    life.end()
    life = DelayLife(settings, most=3, ahead=life.ahead)
    life.settle()
    assert came(life) == [b"%d" % n for n in (0, 1, 2, 17, 18, 19)]
    life.end()


@pytest.mark.parametrize("dies", [False, True])
def test_a_full_log(life: DelayLife, dies: bool) -> None:
    """Of what was due, the log refused some: those may still be cancelled. What it took may not, and the rest is delivered."""
    base = now_ms() + DAY_MS
    bodies = [b"%d " % n + bytes(6000 if n % 2 == 0 else 10) for n in range(60)]
    offsets = [life.send_at("T", base + n, body)[0].queue_offset for n, body in enumerate(bodies)]
    life.pass_time(DAY_MS + 1000)
    lib.control_set_allocated(life.life.tree.control, life.life.tree.positions().allocated, errno.ENOSPC)
    while life.schedule() + life.life.writer.step():
        pass
    life.life.index()
    early = came(life)
    assert 0 < len(early) < 50
    life.life.make_file()
    cancels = dict(zip(life.cancel("T", *offsets[:50]), bodies, strict=False))
    if dies:
        life.begin_scheduler()

    def all_told() -> bool:
        life.settle()
        return lib.CANCEL_OPEN not in map(life.outcome, cancels)

    until(all_told, "the outcomes")
    late = {body for offset, body in cancels.items() if life.outcome(offset) == lib.CANCEL_LATE}
    assert late == set(early) & set(bodies[:50])
    assert sorted(came(life)) == sorted(set(early) | set(bodies[50:]))


def test_an_outcome_while_the_log_is_full(life: DelayLife, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log refuses what is due, again and again: whoever cancels another message is told so all the same."""
    base = now_ms() + DAY_MS
    life.send_at("T", base, bytes(7000))
    (offset,) = (verdict.queue_offset for verdict in life.send_at("T", base + DAY_MS, b"later"))
    tree = life.life.tree
    monkeypatch.setattr(life.life, "make_file", lambda: None)
    while tree.positions().allocated - tree.positions().wrote > 7000:
        life.send("T", 0, bytes(1500))
    life.settle()
    (cancel,) = life.cancel("T", offset)
    lib.control_set_allocated(tree.control, tree.positions().allocated, errno.ENOSPC)
    assert tree.positions().allocated - tree.positions().wrote < 7000
    life.pass_time(DAY_MS)

    def told() -> bool:
        life.schedule()
        life.life.writer.step()
        return life.outcome(cancel) != lib.CANCEL_OPEN

    until(told, "the outcome")
    assert life.outcome(cancel) == lib.CANCEL_NEVER


def test_what_is_kept_on_disk_goes(life: DelayLife) -> None:
    """The first that waits is the first that was not cancelled, once all others have gone."""
    offsets = send(life, 4)
    life.settle()
    life.cancel("T", *offsets)
    life.settle()
    life.flush()
    life.keep()
    assert life.scheduler._files.timer[3] == 8  # of 4 messages and 4 that cancel them


def test_notes_are_found_until_as_many_came_since(life: DelayLife) -> None:
    """One that was overwritten is decided, and says no more."""
    (offset,) = send(life, 1)
    life.settle()
    (first,) = life.cancel("T", offset)
    life.settle()
    assert life.outcome(first) == lib.CANCEL_NEVER
    assert life.outcome(first - lib.CANCEL_NOTES if first >= lib.CANCEL_NOTES else 0) == lib.CANCEL_FORGOTTEN


def test_what_is_kept_on_disk_goes_though_nothing_else_happens(life: DelayLife) -> None:
    """The first was cancelled, and one behind it waits: after ten minutes the queue has been read again."""
    offsets = send(life, 2)
    life.settle()
    life.cancel("T", offsets[0])
    life.settle()
    life.pass_time(601_000)
    life.settle()
    life.flush()
    life.keep()
    assert life.scheduler._files.timer[3] == 1


def test_retention_goes_beyond_a_message_that_was_cancelled(life: DelayLife) -> None:
    """A limit of bytes has removed where it waits, but not the log's file yet: it never comes all the same."""
    offsets = send(life, 4)
    life.settle()
    (cancel,) = life.cancel("T", offsets[1])
    life.settle()
    assert life.outcome(cancel) == lib.CANCEL_NEVER
    lib.queue_raise_min(life.life.tree.topics, life.life.registry.get(TIMER).first_slot, 2)
    life.settle()
    life.pass_time(2 * DAY_MS)
    life.settle()
    assert b"1" not in came(life)
