"""Goal: one holder at a time; the death of a holder is told to exactly one of those who come after; time and signals
count.

Method: real processes that increment a plain number under the lock, and holders killed
with SIGKILL inside.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import threading
from pathlib import Path

import pytest

from orbitmq.errors import TimedOut
from orbitmq.native._core import lib
from orbitmq.shm.lock import Lock, LockOutcome
from scripts.benchmark import locks
from tests.shm.children import children, die_quietly
from tests.waiting import until

NUMBER, STOLEN, READY = 64, 72, 80  # bytes in the mapping beside the lock


@pytest.fixture
def memory() -> mmap.mmap:
    return mmap.mmap(-1, mmap.PAGESIZE)


@pytest.fixture
def lock(memory: mmap.mmap) -> Lock:
    return Lock(memory)


def load(memory: mmap.mmap, at: int) -> int:
    return int(struct.unpack_from("<Q", memory, at)[0])


def store(memory: mmap.mmap, at: int, value: int) -> None:
    struct.pack_into("<Q", memory, at, value)


def dead_word(memory: mmap.mmap, lock: Lock) -> int:
    """Leaves the lock held by a process that was killed inside. Returns its word."""

    def hold() -> None:
        lock.acquire()
        signal.pause()

    with children() as family:
        pid = family.start(hold)
        until(lambda: lock.held)
        word = load(memory, 0)
        assert not lib.lock_holder_dead(word)
        family.kill(pid)
    return word


def test_one_holder_at_a_time(lock: Lock, memory: mmap.mmap) -> None:
    rounds, processes = 5000, 4

    def work() -> None:
        for _ in range(rounds):
            with lock as outcome:
                assert outcome is LockOutcome.TAKEN
                store(memory, NUMBER, load(memory, NUMBER) + 1)

    with children() as family:
        for _ in range(processes):
            family.start(work)
        family.finish()
    assert load(memory, NUMBER) == rounds * processes
    assert not lock.held


def test_threads_of_one_process_exclude_each_other(lock: Lock, memory: mmap.mmap) -> None:
    def work() -> None:
        for _ in range(2000):
            with lock:
                store(memory, NUMBER, load(memory, NUMBER) + 1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(memory, NUMBER) == 6000


def test_death_is_told_to_one(lock: Lock, memory: mmap.mmap) -> None:
    """Three wait while the holder dies inside: one steals, two take it afterwards."""
    counting = Lock(memory, 128)

    def hold() -> None:
        lock.acquire()
        store(memory, READY, 1)
        signal.pause()

    def wait() -> None:
        with counting:
            store(memory, READY, load(memory, READY) + 1)
        with lock as outcome:
            store(memory, NUMBER, load(memory, NUMBER) + 1)
            store(memory, STOLEN, load(memory, STOLEN) + (outcome is LockOutcome.STOLEN))

    with children() as family:
        holder = family.start(hold)
        until(lambda: load(memory, READY) == 1)
        for _ in range(3):
            family.start(wait)
        until(lambda: load(memory, READY) == 4)
        assert load(memory, NUMBER) == 0
        family.kill(holder)
        family.finish()
    assert (load(memory, NUMBER), load(memory, STOLEN)) == (3, 1)


def test_thief_that_dies_too(lock: Lock, memory: mmap.mmap) -> None:
    """A thief killed before it repaired leaves the same duty to the next."""
    first = dead_word(memory, lock)

    def steal() -> None:
        assert lock.acquire() is LockOutcome.STOLEN
        store(memory, READY, 1)
        signal.pause()

    with children() as family:
        thief = family.start(steal)
        until(lambda: load(memory, READY) == 1)
        assert load(memory, 0) != first
        family.kill(thief)
    assert lock.acquire() is LockOutcome.STOLEN
    lock.release()
    with lock as outcome:
        assert outcome is LockOutcome.TAKEN


def test_a_dead_thread_of_a_living_process_is_dead(lock: Lock) -> None:
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    assert lock.acquire() is LockOutcome.STOLEN
    lock.release()


def test_a_reused_id_is_not_the_holder(lock: Lock, memory: mmap.mmap) -> None:
    """A word with the id of a living thread and another start time names a dead one."""
    mine = int(lib.lock_self())
    assert mine & 0x7FFFFFFF == threading.get_native_id()
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert mine >> 32 == ticks & 0xFFFFFFFF
    assert not lib.lock_holder_dead(mine)
    forged = mine ^ 1 << 32
    assert lib.lock_holder_dead(forged)
    store(memory, 0, forged)
    assert lock.acquire() is LockOutcome.STOLEN
    assert load(memory, 0) & ~(1 << 31) == mine
    lock.release()


def test_a_forked_child_is_somebody_else(lock: Lock) -> None:
    parent = int(lib.lock_self())

    def child() -> None:
        mine = int(lib.lock_self())
        assert mine != parent and mine & 0x7FFFFFFF == os.getpid()

    with children() as family:
        family.start(child)
        family.finish()


def test_a_holder_without_descriptors(lock: Lock, memory: mmap.mmap) -> None:
    """A process that cannot read its start time takes the lock all the same, and counts as alive as long as it lives."""

    def hold() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        assert lock.acquire() is LockOutcome.TAKEN
        store(memory, READY, 1)
        signal.pause()

    with children() as family:
        pid = family.start(hold)
        until(lambda: load(memory, READY) == 1)
        word = load(memory, 0)
        assert word == pid and not lib.lock_holder_dead(word)
        family.kill(pid)
        assert lib.lock_holder_dead(word)
    assert lock.acquire() is LockOutcome.STOLEN
    lock.release()


def test_taking_it_twice_aborts(lock: Lock) -> None:
    def twice() -> None:
        die_quietly()
        lock.acquire()
        lock.acquire()

    with children() as family:
        assert family.wait(family.start(twice)) == -signal.SIGABRT


def test_releasing_anothers_aborts(lock: Lock) -> None:
    def release() -> None:
        die_quietly()
        lock.release()

    with lock, children() as family:
        assert family.wait(family.start(release)) == -signal.SIGABRT


def test_the_wait_times_out_while_the_holder_lives(lock: Lock, memory: mmap.mmap) -> None:
    def wait() -> None:
        for timeout in (0.0, 0.01, 0.12):
            with pytest.raises(TimedOut, match=f"within {timeout} s"):
                lock.acquire(timeout)
        store(memory, READY, 1)
        assert lock.acquire() is LockOutcome.TAKEN

    with children() as family:
        with lock:
            pid = family.start(wait)
            until(lambda: load(memory, READY) == 1)
        assert family.wait(pid) == 0


def test_a_signal_reaches_python_while_it_waits(lock: Lock, memory: mmap.mmap) -> None:
    """A handler that raises ends the wait, so Ctrl-C works; one that returns does not."""

    class Stop(Exception):
        pass

    def wait() -> None:
        def count(*_: object) -> None:
            store(memory, NUMBER, load(memory, NUMBER) + 1)

        def stop(*_: object) -> None:
            raise Stop

        signal.signal(signal.SIGUSR1, count)
        signal.signal(signal.SIGUSR2, stop)
        store(memory, READY, 1)
        with pytest.raises(Stop):
            lock.acquire()

    with children() as family, lock:
        pid = family.start(wait)
        until(lambda: load(memory, READY) == 1 and load(memory, 0) & 1 << 31)
        os.kill(pid, signal.SIGUSR1)
        until(lambda: load(memory, NUMBER) == 1)
        os.kill(pid, signal.SIGUSR2)
        assert family.wait(pid) == 0


@pytest.mark.xdist_group("locks")  # whose program one worker compiles
@pytest.mark.parametrize("kind", locks.KINDS)
def test_the_locks_that_are_measured_beside_it_are_locks(kind: str) -> None:
    """Goal: scripts/bench compares locks that exclude and survive their holders. Method: its program, which counts under the
    lock and aborts on a wrong sum, or where no waiter is told of the death."""
    assert locks.measured("round", kind, 2, 0, 5000)["processor_ns"] > 0
    assert locks.measured("killed", kind, 2)["stolen_us"] > 0
