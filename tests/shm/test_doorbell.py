"""Goal: no ring is lost between processes, no sleeper is silenced by another, every sleep ends, and signals end it too.

Method: one suite over the futex and the semaphore kind, on one shared mapping, with real processes. The word of the bell says
how many have announced, which is what the tests wait for.
"""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import struct
from collections.abc import Callable, Iterator

import pytest

from orbitmq.shm.doorbell import Doorbell, FutexDoorbell, SemaphoreDoorbell, Wake, make_doorbell
from tests.shm.children import children
from tests.waiting import until

# A sleep that only a ring may end: far beyond the watchdog of a wait, so that a lost ring fails the test.
FOR_EVER = 1000.0
numbers = itertools.count()
MakeBell = Callable[[mmap.mmap, int], Doorbell]


@pytest.fixture(params=["futex", "semaphore"])
def make(request: pytest.FixtureRequest) -> Iterator[MakeBell]:
    made: list[SemaphoreDoorbell] = []

    def make_bell(memory: mmap.mmap, offset: int) -> Doorbell:
        if request.param == "futex":
            return FutexDoorbell(memory, offset)
        made.append(SemaphoreDoorbell(memory, f"/omq.test.{os.getpid()}.{next(numbers)}", offset))
        return made[-1]

    yield make_bell
    for bell in made:
        bell.unlink()
        bell.close()


@pytest.fixture
def memory() -> mmap.mmap:
    return mmap.mmap(-1, mmap.PAGESIZE)


def asleep(memory: mmap.mmap, offset: int = 0) -> int:
    return int(struct.unpack_from("<I", memory, offset + 4)[0])


def test_ring_without_announcement_costs_nothing(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    assert not bell.ring()
    assert memory[:8] == bytes(8)


def test_ring_between_announcement_and_sleep(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    ticket = bell.announce()
    assert bell.ring()
    assert not bell.ring(), "one ring answers every announcement"
    assert bell.sleep(ticket, FOR_EVER) is Wake.RUNG


def test_timeout_takes_the_announcement_back(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    for limit in (0.0, 0.001):
        assert bell.sleep(bell.announce(), limit) is Wake.TIMEOUT
        assert asleep(memory) == 0


def test_cancel_spares_the_others(make: MakeBell, memory: mmap.mmap) -> None:
    """Two announce; one takes its announcement back, before and after a ring; the other is still rung."""
    bell = make(memory, 0)
    first, second = bell.announce(), bell.announce()
    bell.cancel(first)
    assert asleep(memory) == 1
    assert bell.ring()
    late = bell.announce()
    bell.cancel(second)
    assert asleep(memory) == 1, "the ring had answered it: cancelling must not touch the later announcement"
    assert bell.ring()
    assert bell.sleep(late, FOR_EVER) is Wake.RUNG


def test_everybody_is_woken(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)

    def sleeper() -> None:
        assert bell.sleep(bell.announce(), FOR_EVER) is Wake.RUNG

    with children() as family:
        for _ in range(4):
            family.start(sleeper)
        until(lambda: asleep(memory) == 4)
        assert bell.ring()
        family.finish()
    assert asleep(memory) == 0


def test_ping_pong_loses_no_ring(make: MakeBell, memory: mmap.mmap) -> None:
    """Two processes pass a number to and fro, each asleep until the other rings; one lost ring would stop them for ever."""
    rounds = 4000
    bells = make(memory, 0), make(memory, 64)
    at = 128

    def play(me: int) -> None:
        mine, other = bells[me], bells[1 - me]
        for number in range(me, 2 * rounds, 2):
            while True:
                ticket = mine.announce()
                if struct.unpack_from("<Q", memory, at)[0] == number:
                    mine.cancel(ticket)
                    break
                # A wake-up of a ring that was seen already is one more look; the watchdog catches a lost ring.
                mine.sleep(ticket, FOR_EVER)
            struct.pack_into("<Q", memory, at, number + 1)
            other.ring()

    with children() as family:
        family.start(play, 0)
        family.start(play, 1)
        family.finish()
    assert struct.unpack_from("<Q", memory, at)[0] == 2 * rounds


def test_signal_ends_the_sleep(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)

    def sleeper() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        assert bell.sleep(bell.announce(), FOR_EVER) is Wake.SIGNAL
        assert asleep(memory) == 0

    with children() as family:
        pid = family.start(sleeper)
        until(lambda: asleep(memory) == 1)
        # Asleep for the kernel too, so that the signal comes while the child waits and not before.
        until(lambda: state(pid) == "S")
        os.kill(pid, signal.SIGUSR1)
        family.finish()


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0]


def test_dead_sleeper_costs_one_needless_wake(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    with children() as family:
        pid = family.start(lambda: bell.sleep(bell.announce(), FOR_EVER))
        until(lambda: asleep(memory) == 1)
        family.kill(pid)
    assert bell.ring()
    assert not bell.ring()
    # What the dead one never took must not count as a ring for the next sleeper.
    assert bell.sleep(bell.announce(), 0.001) is Wake.TIMEOUT


def test_forged_count_costs_the_ringer_little(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    struct.pack_into("<I", memory, 4, 0xFFFFFFFF)
    assert bell.ring()
    assert asleep(memory) == 0


def test_ticket_wraps(make: MakeBell, memory: mmap.mmap) -> None:
    bell = make(memory, 0)
    struct.pack_into("<I", memory, 0, 0xFFFFFFFF)
    ticket = bell.announce()
    assert bell.ring()
    assert struct.unpack_from("<II", memory) == (0, 0)
    assert bell.sleep(ticket, FOR_EVER) is Wake.RUNG


def test_the_futex_is_chosen_where_it_works(memory: mmap.mmap) -> None:
    assert isinstance(make_doorbell(memory, "/omq.test.unused"), FutexDoorbell)


def test_a_bell_needs_a_whole_line(memory: mmap.mmap) -> None:
    for offset in (8, mmap.PAGESIZE, -64):
        with pytest.raises(ValueError, match="cannot place struct bell"):
            FutexDoorbell(memory, offset)
