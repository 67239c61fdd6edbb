"""Goal: one broker for each store, whatever kind of lock the other one takes, as long as any heir of the descriptor lives.

Method: child processes hold, inherit and probe the lock; pipes report their progress.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.errors import StoreLocked
from orbitmq.shm.lock_holder import holders, is_locked
from orbitmq.store import access
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock, is_held

READ_LOCKS = {
    "record": "fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)",
    "open file": "fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack('=hh4xqqi4x', fcntl.F_RDLCK, 0, 0, 1, 0))",
}


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


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o664])
def test_nobody_else_can_open_the_lock(tmp_path: Path, mode: int) -> None:
    """A store that RocketMQ made, and one that is open to a group: a user who may read the file could hold a lock on it."""
    layout = StoreLayout.at(tmp_path)
    layout.lock.write_bytes(b"lock")
    layout.lock.chmod(mode)
    lock = StoreLock.acquire(layout, "first")
    assert layout.lock.stat().st_mode & 0o777 == 0o600
    access.let(layout, os.getegid())
    assert layout.lock.stat().st_mode & 0o777 == 0o600
    lock.release()


@pytest.mark.parametrize("kind", READ_LOCKS)
def test_a_read_lock_of_somebody_who_opened_it_in_time(tmp_path: Path, kind: str) -> None:
    """It is refused at once, with the number of the process that holds it."""
    layout = StoreLayout.at(tmp_path)
    StoreLock.acquire(layout, "before").release()
    take = f"import fcntl, struct, sys; f = open(sys.argv[1], 'rb'); {READ_LOCKS[kind]}; print('held', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", take, str(layout.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline() == b"held\n"
    assert is_locked(layout.lock) and holders(layout.lock) == [other.pid]
    with pytest.raises(StoreLocked, match=f"process {other.pid} holds it") as caught:
        StoreLock.acquire(layout, "ours")
    assert (caught.value.pid, caught.value.values["dying"]) == (other.pid, False)
    other.communicate(b"\n")
    assert not is_locked(layout.lock)
    StoreLock.acquire(layout, "ours").release()


def test_a_survivor_is_told_from_a_stranger(tmp_path: Path) -> None:
    """dying: the process that took the lock is dead, and its child holds it. What a copy of the store says about that does not
    count."""
    layout, copy = StoreLayout.at(tmp_path / "store"), StoreLayout.at(tmp_path / "copy")
    program = (
        "import os, sys; from orbitmq.store.layout import StoreLayout; from orbitmq.store.lock import StoreLock\n"
        "StoreLock.acquire(StoreLayout.at(sys.argv[1]), 'tree')\n"
        "if os.fork() == 0: sys.stdin.read()\n"
        "else: print('held', flush=True); os._exit(0)"
    )
    arguments = [sys.executable, "-c", program, str(layout.root)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tree:
        assert tree.stdout is not None and tree.stdout.readline() == b"held\n"
        tree.wait()
        (heir,) = holders(layout.lock)
        with pytest.raises(StoreLocked) as caught:
            StoreLock.acquire(layout, "next")
        assert (caught.value.holder, caught.value.pid, caught.value.values["dying"]) == (None, heir, True)
        shutil.copytree(layout.root, copy.root)
        held = StoreLock.acquire(copy, "of the copy")
        shutil.copy(layout.holder, copy.holder)
        with pytest.raises(StoreLocked) as caught:
            StoreLock.acquire(copy, "next")
        assert not caught.value.values["dying"]
        held.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_whether_it_is_held_is_no_secret(tmp_path: Path) -> None:
    """A user who may look into the store may verify it, and has to know whether a broker runs."""

    def seen_by_a_stranger() -> bool:
        child = os.fork()
        if child == 0:
            told = 2
            try:
                os.chdir(tmp_path)
                os.setuid(65534)
                told = int(is_held(StoreLayout(Path())))
            finally:
                os._exit(told)
        return {0: False, 1: True}[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]

    layout = StoreLayout.at(tmp_path)
    tmp_path.chmod(0o755)
    lock = StoreLock.acquire(layout, "first")
    assert seen_by_a_stranger()
    lock.release()
    assert not seen_by_a_stranger()
