"""Goal: one broker to a store, whatever kind of lock the other one takes, for as long as any heir of the descriptor
lives.

Method: child processes hold, inherit and probe the lock; pipes tell when they have got there.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.errors import StoreLocked
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock


def test_it_names_who_holds_the_store(tmp_path: Path) -> None:
    layout = StoreLayout.at(tmp_path)
    lock = StoreLock.acquire(layout, "first")
    assert layout.lock.read_bytes() == b"lock"
    with pytest.raises(StoreLocked) as caught:
        StoreLock.acquire(layout, "second")
    assert (caught.value.holder, caught.value.pid) == ("first", os.getpid())
    lock.release()
    lock.release()
    StoreLock.acquire(layout, "second").release()
    assert not layout.holder.exists()


def test_an_heir_keeps_it(tmp_path: Path) -> None:
    """A child that inherited the descriptor outlives its parent's release; the store stays held until the child is
    gone.
    """
    layout = StoreLayout.at(tmp_path)
    lock = StoreLock.acquire(layout, "tree")
    survivor = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    assert survivor.stdout is not None and survivor.stdout.readline() == b"up\n"
    lock.release()
    with pytest.raises(StoreLocked):
        StoreLock.acquire(layout, "next")
    survivor.send_signal(signal.SIGKILL)
    survivor.communicate()
    StoreLock.acquire(layout, "next").release()


def test_a_record_lock_excludes_us_and_is_excluded(tmp_path: Path) -> None:
    """RocketMQ's FileLock is a POSIX record lock on byte 0."""
    layout = StoreLayout.at(tmp_path)
    StoreLock.acquire(layout, "before").release()
    take = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{take}; print('held', flush=True); input()", str(layout.lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None and other.stdout.readline() == b"held\n"
    with pytest.raises(StoreLocked) as caught:
        StoreLock.acquire(layout, "ours")
    assert caught.value.pid == other.pid
    other.communicate(b"\n")
    lock = StoreLock.acquire(layout, "ours")
    with layout.lock.open("r+b") as file, pytest.raises(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    lock.release()
