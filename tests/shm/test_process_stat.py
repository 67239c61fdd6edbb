"""Goal: what the kernel says of a process is read right, whatever the process is called. Method: threads that name themselves,
which have such a file too, and children in each state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orbitmq.shm.process_stat import ProcessStat, process_stat

NOBODY = 2**22 + 1  # larger than any pid


def named(name: bytes) -> ProcessStat | None:
    """What is read of a thread with this name."""
    found: list[ProcessStat | None] = []

    def look() -> None:
        Path("/proc/thread-self/comm").write_bytes(name)
        found.append(process_stat(threading.get_native_id()))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    [stat] = found
    return stat


@pytest.mark.parametrize("name", [b"java", b"two words", b"a) Z 1 (b", b"((", b") X 1 1", b"caf\xe9 ) S"])
def test_any_name(name: bytes) -> None:
    stat = named(name)
    assert stat is not None
    assert os.fsencode(stat.command) == name
    assert (stat.parent, stat.ended, stat.exiting) == (os.getppid(), False, False)


def test_times() -> None:
    """used_ticks: as many as the kernel says by another call. start_ticks: a child started no earlier than its parent."""
    before = sum(os.times()[:2])
    stat = process_stat(os.getpid())
    after = sum(os.times()[:2])
    assert stat is not None
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert before - tick <= stat.used_ticks * tick <= after + 2 * tick
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        theirs = process_stat(child.pid)
        child.communicate(b"\n")
    assert theirs is not None and theirs.parent == os.getpid()
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 < stat.start_ticks <= theirs.start_ticks <= uptime / tick + 1


def test_a_process_that_has_ended() -> None:
    """A zombie until it is waited for; then there is none."""
    child = subprocess.Popen(["sleep", "600"])
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stat = process_stat(child.pid)
    assert stat is not None and stat.ended and stat.exiting
    child.wait()
    assert process_stat(child.pid) is None
    assert process_stat(NOBODY) is None


def test_a_process_that_has_begun_to_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """That state is too short to be met, so the flag is set in the text."""
    read = Path.read_bytes

    def reading(path: Path) -> bytes:
        before, bracket, after = read(path).rpartition(b")")
        fields = after.split()
        fields[6] = str(int(fields[6]) | 4).encode()
        return before + bracket + b" " + b" ".join(fields)

    monkeypatch.setattr(Path, "read_bytes", reading)
    stat = process_stat(os.getpid())
    assert stat is not None and stat.exiting and not stat.ended


def test_another_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(PermissionError):
        process_stat(os.getpid())
