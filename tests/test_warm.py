"""Goal: a supervisor that was forked from a warm parent is one that Python started (warm.py), also where the tests run below
nohup. Method: both, one after the other, by what the kernel tells of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.trees import small_broker
from tests.waiting import until
from tests.warm import COLD, warm_starts

KEPT = (
    "PPid", "Umask", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed",
    "Groups", "Uid", "Gid", "Threads",
)  # fmt: skip


def told(pid: int) -> dict[str, object]:
    """What a process has from its start. A supervisor that is at work may have a file more open for a moment."""

    def rests() -> bool:
        return (proc / "stat").read_text().rpartition(")")[2].split()[0] == "S"

    def look() -> dict[str, object] | None:
        found = _told(proc) if rests() else None
        return found if rests() else None

    proc = Path(f"/proc/{pid}")
    return until(look, "a supervisor at rest")  # type: ignore[no-any-return]


def _told(proc: Path) -> dict[str, object]:
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    return {
        "status": {name: status[name] for name in KEPT},
        "limits": (proc / "limits").read_text(),
        "folder": (proc / "cwd").readlink(),
        "shown": (proc / "cmdline").read_bytes().rstrip(b"\0"),
        "leads its session": os.getsid(int(proc.name)) == int(proc.name),
        "standard files": [(proc / f"fd/{number}").readlink().name.partition(":")[0] for number in range(3)],
        "descriptors": len(list((proc / "fd").iterdir())),
    }


@pytest.mark.parametrize("hang_up", [signal.SIG_DFL, signal.SIG_IGN], ids=["usual", "nohup"])
def test_as_python_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang_up: Any) -> None:
    found = []
    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        with warm_starts():
            with small_broker(tmp_path / "first"):
                pass  # the parent runs, with another folder and environment
            monkeypatch.chdir(tmp_path)
            monkeypatch.setenv("ORBITMQ_FLUSH_INTERVAL_MS", "77")
            for cold in "", "1":
                monkeypatch.setenv(COLD, cold)
                with small_broker(tmp_path / "store", name="twin") as broker:
                    pid = broker.status().pid
                    begun_with = Path(f"/proc/{pid}/environ").read_bytes()
                    assert (b"ORBITMQ_FLUSH_INTERVAL_MS=77" in begun_with) == bool(cold), "once each way"
                    assert broker.status().flush_interval_ms == 77
                    found.append(told(pid))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found[0] == found[1]
