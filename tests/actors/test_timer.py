"""Goal: a message with a time of its own is put into the log once, never early, in the order of the times, whatever dies and
however many wait. Method: the stages in this process (delay_life.py), whose clocks the test moves; test_scheduler_model.py does
the same at random."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from orbitmq.actors import scheduler
from orbitmq.native._core import lib
from orbitmq.store import delays
from tests.actors.delay_life import TIMER, DelayLife, settings_of
from tests.native.pipeline import APPENDED, NO_PERMISSION, TOO_LARGE, UNKNOWN_QUEUE
from tests.waiting import until

DAY_MS = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def came(life: DelayLife) -> list[bytes]:
    return [bytes(record.body) for record in life.delivered()]


def test_what_is_kept_and_what_is_new(life: DelayLife) -> None:
    """The waiting record is as RocketMQ 5 makes it, and marked as ours; the delivered one names it."""
    at_ms = now_ms() + DAY_MS
    (verdict,) = life.send_at("T", at_ms, b"body", queue=1)
    (waiting,) = life.records()
    assert (verdict.code, verdict.queue_id, verdict.queue_offset) == (APPENDED, 0, 0)
    assert (waiting.topic, waiting.queue_id, waiting.prepared_offset) == (TIMER, 0, 0x50 << 56)
    assert waiting.properties == {"TIMER_OUT_MS": str(at_ms), "REAL_TOPIC": "T", "REAL_QID": "1"}
    life.pass_time(DAY_MS)
    life.settle()
    (record,) = life.delivered()
    same = ("flag", "sys_flag", "born_ms", "born_host", "store_host", "reconsume_times", "properties", "body", "body_crc")
    assert {name: getattr(record, name) for name in same} == {name: getattr(waiting, name) for name in same}
    assert (record.topic, record.queue_id, record.queue_offset, record.prepared_offset) == ("T", 1, 0, 0x54 << 56)


@pytest.mark.parametrize("wait_ms", [1000, DAY_MS, 365 * DAY_MS])
def test_never_early(life: DelayLife, wait_ms: int) -> None:
    at_ms = now_ms() + wait_ms
    life.send_at("T", at_ms, b"x")
    life.set_clocks(wait_ms - 500, 0)
    life.settle()
    if now_ms() + wait_ms - 500 < at_ms:  # a machine that hung says nothing
        assert came(life) == []
    life.set_clocks(wait_ms, 0)
    life.settle()
    assert came(life) == [b"x"]


def test_the_order_is_that_of_the_times(life: DelayLife) -> None:
    """Of one time: the order in which they were stored. One whose time is over when it comes does not wait for others."""
    base = now_ms() + DAY_MS
    for n in range(300):
        life.send_at("T", base + n * 7919 % 100, b"%d" % n)
    life.pass_time(DAY_MS + 1000)
    life.settle()
    assert [int(body) for body in came(life)] == sorted(range(300), key=lambda n: (n * 7919 % 100, n))
    life.send_at("T", base - DAY_MS, b"late")
    life.settle()
    assert came(life)[-1] == b"late"


@pytest.mark.parametrize("room", [2, 3, 7, 50])
def test_more_than_fit_in_memory(in_memory: Path, room: int) -> None:
    """What was left out is found again by reading the queue, in its order, beside what comes meanwhile."""
    life = DelayLife(settings_of(in_memory), room=room)
    base = now_ms() + DAY_MS
    for n in range(200):
        life.send_at("T", base + 10_000 * (n * 7919 % 100), b"%d" % n)
    times = sorted(range(200), key=lambda n: (n * 7919 % 100, n))
    life.pass_time(DAY_MS + 450_000)
    life.settle()
    assert [int(body) for body in came(life)] == [n for n in times if n * 7919 % 100 <= 45]
    life.send_at("T", base + 500_000, b"1000")
    life.pass_time(DAY_MS)
    life.settle()
    after = [int(body) for body in came(life)]
    assert sorted(after) == [*range(200), 1000]
    assert [n for n in after if n < 1000] == times
    life.end()


def test_what_waits_behind_many_that_are_done(in_memory: Path) -> None:
    """A reading that takes several steps begins with messages that are done. Meanwhile it must not count as done what is behind
    them: a scheduler that begins then would never look at it."""
    life = DelayLife(settings_of(in_memory), most=4)
    base = now_ms() + DAY_MS
    for n in range(4):
        life.send_at("T", base + n, b"%d" % n)
    life.send_at("T", base + 2 * DAY_MS, b"later")
    life.pass_time(DAY_MS + 1000)
    life.settle()
    life.begin_scheduler()
    life.send("T", 1, b"of a level")
    life.pass_time(2000)
    life.settle()
    life.begin_scheduler()
    life.pass_time(2 * DAY_MS)
    life.settle()
    assert came(life) == [b"0", b"1", b"2", b"3", b"of a level", b"later"]
    life.end()


@pytest.mark.parametrize("room", [0, 8])
def test_a_reading_of_many_that_wait_comes_to_its_end(in_memory: Path, room: int) -> None:
    """A reading that takes several steps, because a scheduler begins or the heap runs low, goes on where it stopped, although
    the first message waits for longer than all others, so that none before it is done."""
    life = DelayLife(settings_of(in_memory), room=room, most=4)
    base = now_ms() + DAY_MS
    life.send_at("T", base + 2 * DAY_MS, b"last")
    for n in range(40):
        life.send_at("T", base + 10_000 * n, b"%d" % n)
    life.settle()
    life.begin_scheduler()
    life.pass_time(DAY_MS + 1_000_000)
    life.settle()
    assert came(life) == [b"%d" % n for n in range(40)]
    life.end()


@pytest.mark.parametrize("waiting", [False, True])
def test_never_early_after_the_clock_was_set_back(life: DelayLife, waiting: bool) -> None:
    """What comes then is due before messages that were delivered, and waits for its time all the same."""
    base = now_ms()
    if waiting:
        life.send_at("T", base + 9 * DAY_MS, b"waits")
    life.send_at("T", base + DAY_MS, b"before")
    life.set_clocks(DAY_MS + 1000, 0)
    life.settle()
    life.set_clocks(0, 0)
    life.send_at("T", base + DAY_MS // 2, b"after")
    life.settle()
    life.begin_scheduler()
    life.settle()
    assert came(life) == [b"before"]
    life.set_clocks(DAY_MS // 2 + 1000, 0)
    life.settle()
    assert came(life) == [b"before", b"after"]
    life.set_clocks(9 * DAY_MS + 1000, 0)
    life.settle()
    assert came(life) == [b"before", b"after", b"waits"][: 2 + waiting]


def test_many_deaths_with_a_full_portion(life: DelayLife) -> None:
    """Each scheduler dies when its portion is in the log and not counted; meanwhile something has
    come that is due before all of it."""
    base = now_ms() + DAY_MS
    for n in range(600):
        life.send_at("T", base + 1000 + n, b"%d" % n)
    life.pass_time(DAY_MS + 5000)
    for n in range(4):
        while not life.schedule():
            life.life.index()
        while life.life.writer.step():
            life.life.make_file()
        life.send_at("T", base + 10 - n, b"sooner %d" % n)
        life.begin_scheduler()
        life.schedule()  # counts
    life.settle()
    assert sorted(came(life)) == sorted([b"%d" % n for n in range(600)] + [b"sooner %d" % n for n in range(4)])


def test_the_longest_wait(life: DelayLife) -> None:
    """A sender that is not our library could ask for more; its message comes after 366 days."""
    life.send_at("T", 2**64 - 1, b"x")
    life.set_clocks(366 * DAY_MS + 1000, 0)
    life.settle()
    assert came(life) == [b"x"]


def test_refusals_come_at_once(life: DelayLife) -> None:
    at_ms = now_ms() + DAY_MS
    assert life.send_at("T", at_ms, b"x", queue=9)[0].code == UNKNOWN_QUEUE
    assert life.send_at("T", at_ms, bytes(life.settings.files.message_max - 150))[0].code == TOO_LARGE
    life.life.topics[TIMER] = life.life.registry.get(TIMER)
    life.life._hashes[TIMER] = lib.topic_hash(TIMER.encode(), len(TIMER))
    assert life.send_at(TIMER, at_ms, b"x")[0].code == NO_PERMISSION
    assert life.records() == []


def test_clocks_that_jump(life: DelayLife) -> None:
    """The clock decides: what is due by it comes; if it is set back, a message waits until it shows the time."""
    at_ms = now_ms() + DAY_MS
    life.send_at("T", at_ms, b"x")
    life.set_clocks(-DAY_MS, 2 * DAY_MS)
    life.settle()
    assert came(life) == []
    life.set_clocks(DAY_MS, 0)
    life.settle()
    assert came(life) == [b"x"]


def test_the_log_is_full(life: DelayLife) -> None:
    """What the log refuses is tried again. What it took meanwhile, though it is due later, is not put there twice, even by a
    successor."""
    base = now_ms() + DAY_MS
    bodies = [b"%d " % n + bytes(6000 if n % 2 == 0 else 10) for n in range(60)]
    for n, body in enumerate(bodies):
        life.send_at("T", base + n, body)
    life.pass_time(DAY_MS + 1000)
    control, seen = life.life.tree.control, life.life.tree.positions()
    lib.control_set_allocated(control, seen.allocated, errno.ENOSPC)
    while life.schedule() + life.life.writer.step():
        pass
    life.life.index()
    early = came(life)
    assert 0 < len(early) < 60
    assert early != bodies[: len(early)], "none was passed by a later one"
    assert scheduler.now(life.life.tree) is None
    life.begin_scheduler()

    def all_there() -> bool:
        life.settle()
        return len(life.delivered()) >= 60

    until(all_there, "the rest")
    assert sorted(came(life)) == sorted(bodies)
    assert scheduler.now(life.life.tree) is None or life.keep() is None


def test_a_full_log_does_not_have_the_queue_read_again(in_memory: Path) -> None:
    """What is refused is tried again as it is, however many wait behind it."""
    life = DelayLife(settings_of(in_memory), most=4)
    base = now_ms() + DAY_MS
    for n in range(40):
        life.send_at("T", base + n, b"%d " % n + bytes(6000))
    for _ in range(100):
        life.send_at("T", base + 9 * DAY_MS, b"later")
    life.pass_time(DAY_MS + 1000)
    control, seen = life.life.tree.control, life.life.tree.positions()
    lib.control_set_allocated(control, seen.allocated, errno.ENOSPC)
    while life.schedule() + life.life.writer.step():
        pass
    early, refusals, steps = len(came(life)), 0, 0

    def refused_often() -> bool:
        nonlocal refusals, steps
        steps += life.schedule() > 0
        if life.life.writer.step():
            refusals += 1
            steps = steps if refusals > 1 else 0  # what was taken before the first has the queue read once
        return refusals == 6

    until(refused_often, "refusals")
    assert len(came(life)) == early
    assert steps <= 3 * refusals, "a step reads four of the queue, and 135 wait"

    def all_there() -> bool:
        life.settle()
        return len(came(life)) >= 40

    until(all_there, "the rest")
    assert sorted(int(body.split()[0]) for body in came(life)) == list(range(40))
    life.end()


@pytest.mark.parametrize("file", ["old", "damaged"])
def test_a_death_of_the_tree(in_memory: Path, file: str) -> None:
    """What was delivered since the file was written does not come again; what had come late meanwhile is not left out."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    base = now_ms() + DAY_MS
    for n in range(40):
        life.send_at("T", base + n, b"%d" % n)
    life.keep()
    life.pass_time(DAY_MS + 1000)
    life.settle()
    life.send_at("T", base, b"late")
    life.send_at("T", base + 2 * DAY_MS, b"later")
    assert len(came(life)) == 40
    life.end()
    if file == "damaged":
        settings.layout.delayed.write_bytes(b"garbage")
    life = DelayLife(settings, ahead=(DAY_MS + 2000, DAY_MS + 2000))
    life.settle()
    assert came(life) == [*(b"%d" % n for n in range(40)), b"late"]
    assert life.stop()
    life.end()
    assert delays.load(settings.layout).timer[0] == 42
    life = DelayLife(settings, ahead=(4 * DAY_MS, 4 * DAY_MS))
    life.settle()
    assert came(life)[40:] == [b"late", b"later"]
    life.end()


@pytest.mark.parametrize("file", ["old", "damaged"])
def test_a_death_of_the_tree_with_many_that_wait(in_memory: Path, file: str) -> None:
    """A step of the next start looks at so many messages only, although none of them is to be put there. What is remembered of
    the log has its bound too: beyond that it is read again. Nothing comes twice, or is left out."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    base = now_ms() + DAY_MS
    for n in range(150):
        life.send_at("T", base + n * 7919 % 150, b"%d" % n)
    life.keep()
    life.pass_time(DAY_MS + 1000)
    life.settle()
    for n in range(0, 150, 10):
        life.send_at("T", base + n, b"late %d" % n)
    before = came(life)
    assert len(before) == 150
    life.end()
    if file == "damaged":
        settings.layout.delayed.write_bytes(b"garbage")
    life = DelayLife(settings, most=5, rounds=20, ahead=(DAY_MS + 2000, DAY_MS + 2000))
    assert not lib.scheduler_knows(life.scheduler.handle), "all of it was looked at in a few steps"
    life.settle()
    assert came(life) == before + [b"late %d" % n for n in range(0, 150, 10)]
    life.end()


def test_the_order_of_many_that_nobody_has_read(in_memory: Path) -> None:
    """A step reads only some of what has come; one that is due before those is perhaps behind them."""
    life = DelayLife(settings_of(in_memory), most=4)
    base = now_ms() + DAY_MS
    for n in range(40):
        life.send_at("T", base - n, b"%d" % n)
    life.pass_time(DAY_MS + 1000)
    life.settle()
    assert [int(body) for body in came(life)] == list(reversed(range(40)))
    life.end()


def test_never_early_after_a_death_of_the_tree_and_a_clock_set_back(in_memory: Path) -> None:
    """One that came after the clock was set back is due before one that was delivered. The next start takes it for passed over;
    it waits for its time, and then everything goes on."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    base = now_ms()
    life.send_at("T", base + DAY_MS, b"before")
    life.set_clocks(DAY_MS + 1000, 0)
    life.settle()
    life.set_clocks(0, 0)
    life.send_at("T", base + DAY_MS // 2, b"after")
    life.settle()
    assert came(life) == [b"before"]
    life.end()
    life = DelayLife(settings, rounds=20)
    assert came(life) == [b"before"]
    life.set_clocks(DAY_MS // 2 + 1000, 0)

    def both_came() -> bool:
        life.settle()
        return came(life) == [b"before", b"after"]

    until(both_came, "the other one")
    life.send_at("T", base, b"next")
    life.settle()
    assert came(life) == [b"before", b"after", b"next"]
    life.end()
