"""What people use instead of OrbitMQ, measured by the peer scripts beside the checkout, one JSON line a result.

Each script runs in a virtual environment of its own. If a peer's server or package is missing, the script says so and is left
out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.benchmark.ceiling import ROOT

PACKAGES = ("setuptools", "redis[hiredis]", "pyzmq", "lmdb", "litequeue", "faster-fifo", "iceoryx2")
# script -> the server program it needs
SCRIPTS = {
    "nondurable": None,
    "embedded": None,
    "iceoryx": None,
    "redis_streams": "redis-server",
    "redis_lists": "redis-server",
}
SECONDS = 600


def folder() -> Path | None:
    path = ROOT.parent / "shared" / "bench" / "peers"
    return path if path.is_dir() else None


def measure(log: Any) -> list[dict[str, Any]]:
    """Runs every peer that can run here, with 100-byte bodies. Returns the scripts' own result lines."""
    scripts = folder()
    if scripts is None:
        log("peers: no peer scripts beside the checkout (shared/bench/peers)")
        return []
    home = Path(tempfile.mkdtemp(prefix="orbitmq-peers-"))
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        subprocess.run([str(home / "venv/bin/pip"), "-q", "install", *PACKAGES], check=True)
        found: list[dict[str, Any]] = []
        for name, server in SCRIPTS.items():
            if server and not shutil.which(server):
                log(f"peers: {name} left out, {server} is not installed")
                continue
            log(f"peers: {name}")
            command = [str(home / "venv/bin/python"), str(scripts / f"{name}.py"), "--size", "100"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                log(f"peers: {name} left out, not done after {SECONDS} s")
                continue
            found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            if done.returncode:
                log(f"peers: {name} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        return found
    finally:
        shutil.rmtree(home, ignore_errors=True)
