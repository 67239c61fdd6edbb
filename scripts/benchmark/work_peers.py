"""The jobs of work.py done by workers of Redis Streams and of NATS JetStream: Python too, two processes, the same batches.

The Python clients are installed into a folder of their own, and so is NATS, by Go; redis-server is Debian's. What cannot be had
here is left out, with a note.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import scratch_root

PACKAGES = ("redis[hiredis]", "nats-py")
NATS = "github.com/nats-io/nats-server/v2@latest"
SECONDS = 300


@cache
def _home() -> Path:
    """A folder with a virtual environment that has the clients, until this process ends."""
    home = Path(tempfile.mkdtemp(prefix="orbitmq-work-peers-", dir=scratch_root()))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    subprocess.run([str(home / "venv/bin/pip"), "-q", "install", *PACKAGES], check=True)
    return home


@cache
def _redis() -> str | None:
    """The server program, or None, with a note."""
    found = shutil.which("redis-server")
    return found or _left_out("Redis", "redis-server is not installed (apt-get install redis-server)")


@cache
def _nats() -> str | None:
    if not shutil.which("go"):
        return _left_out("NATS", "go is not installed")
    folder = _home() / "bin"
    done = subprocess.run(
        ["go", "install", NATS], env=os.environ | {"GOBIN": str(folder)}, capture_output=True, text=True, check=False
    )
    return str(folder / "nats-server") if not done.returncode else _left_out("NATS", done.stderr.strip())


def _left_out(peer: str, why: str) -> None:
    print(f"peers: {peer} left out: {why}", file=sys.stderr)


def _work(server: Callable[[], str | None], module: str, how: str, messages: int) -> Callable[[], tuple[Sample | None, ...]]:
    def run() -> tuple[Sample | None, ...]:
        program = server()
        if program is None:
            return None, None, None
        command = [str(_home() / "venv/bin/python"), "-m", module, program, str(_home()), how, str(messages)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            _left_out(module, " ".join(done.stderr.strip().splitlines()[-1:]))
            return None, None, None
        return tuple(Sample(value) for value in json.loads(done.stdout))

    return run


MEASURES = tuple(
    Measure(
        (name, f"{name}_worker_ns", f"{name}_server_ns"), "jobs/s", _work(server, f"scripts.benchmark.{peer}", how, messages),
        durability=durability, runs=3, broker=False,
    )
    for peer, server, durability, sizes in (
        ("work_redis", _redis, "fsync every 1 s", {"batches": 500_000, "each": 100_000}),
        ("work_nats", _nats, "fsync every 120 s", {"batches": 100_000, "each": 50_000}),
    )
    for how, messages in sizes.items()
    for name in (f"{peer}_{how}",)
)  # fmt: skip
