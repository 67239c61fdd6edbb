"""Goal: every holder of a lock on a file is found, and no line of the kernel's list stops the search. Method: locks of
children; and a /proc of the test's, with the lines that a kernel may write (fs/locks.c). Stores' locks:
tests/store/test_lock.py."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from orbitmq.shm import lock_holder
from orbitmq.shm.lock_holder import holders, is_locked
from tests.shm.children import children
from tests.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    return path


def test_another_process(file: Path) -> None:
    """It is named while it has the lock; this process's own locks do not count."""
    release, let_go = os.pipe()

    def hold() -> None:
        os.close(let_go)
        with file.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            os.read(release, 1)

    assert not is_locked(file) and holders(file) == []
    with children() as family:
        pid = family.start(hold)
        until(lambda: is_locked(file), "the child's lock")
        assert holders(file) == [pid]
        os.close(let_go)
        family.finish()
    os.close(release)
    assert not is_locked(file)
    with file.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        assert is_locked(file) and holders(file) == []


def lines_of(file: Path) -> dict[str, str]:
    status = file.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return {
        "held": f"1: POSIX  ADVISORY  WRITE 4242 {place} 0 EOF",
        "waits": f"1: -> POSIX  ADVISORY  WRITE 4242 {place} 0 EOF",
        "open file": f"2: OFDLCK ADVISORY  READ -1 {place} 0 0",
        "lease": f"3: LEASE  ACTIVE    READ 4243 {place} 0 EOF",
        "another file": f"4: FLOCK  ADVISORY  WRITE 4244 {place}1 0 EOF",
        "no inode": "5: FLOCK  ADVISORY  WRITE 4245 <none>:0 0 EOF",
        "cut off": "6: FLOCK  ADVISORY",
    }


@pytest.mark.parametrize(
    ("lines", "locked", "by"),
    [
        (["held"], True, [4242]),
        (["waits"], False, []),
        (["open file"], True, []),
        (["held", "lease", "held"], True, [4242, 4243]),
        (["another file"], False, []),
        (["no inode", "cut off"], False, []),
        (["no inode", "cut off", "held"], True, [4242]),
        ([], False, []),
    ],
)
def test_every_line_that_a_kernel_writes(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], locked: bool, by: list[int]
) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "locks").write_text("".join(lines_of(file)[each] + "\n" for each in lines))
    monkeypatch.setattr(lock_holder, "PROC", proc)
    assert is_locked(file) is locked and holders(file) == by
