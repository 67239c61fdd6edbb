"""What people use instead, measured by the peer scripts beside the checkout, which print one JSON line a result. One of them
measures OrbitMQ by the same yardstick (orbit.py). The runs take turns on one machine, so one table can be read across.

Each script installs what it needs into a folder of its own: packages of PyPI, jars from Maven, programs of Go. A peer that
cannot be installed here is left out, with a note.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benchmark.ceiling import ROOT
from scripts.benchmark.stage import scratch_root

SHARED_MEMORY = Path("/dev/shm")
LEFT_BEHIND = "iox2_*"  # iceoryx2 keeps a segment of its own after its last process
PACKAGES = ("setuptools", "redis[hiredis]", "pyzmq", "lmdb", "litequeue", "faster-fifo", "iceoryx2")
SIZES = (100, 1024)
MEASURES = ("stream", "send_batched", "consume_backlog", "receipt", "latency")
SECONDS = 900


@dataclass(frozen=True)
class Peer:
    """One script.

    Attributes:
        variant: the one to run, of those that the script has; all of them, if it is empty.
        needs: programs without which it cannot run.
        at_home: it installs what else it needs by itself, into the folder that --home names.
    """

    script: str
    variant: str = ""
    needs: tuple[str, ...] = ()
    at_home: bool = False

    @property
    def name(self) -> str:
        return f"{self.script} {self.variant}".strip()


ORBIT = Peer("orbit", "appended")
PEERS = (
    Peer("chronicle", "spin", ("java", "mvn"), at_home=True),
    Peer("aeron", "archive_spin", ("java", "mvn"), at_home=True),
    ORBIT,
    Peer("kafka_broker", "python", ("java", "mvn"), at_home=True),
    Peer("nats_file", "go", ("go",), at_home=True),
    ORBIT,
    Peer("embedded", "nosync"),
    Peer("nondurable"),
    Peer("iceoryx"),
    Peer("redis_streams", "everysec", ("redis-server",)),
    Peer("redis_lists", "everysec", ("redis-server",)),
)


def folder() -> Path | None:
    path = ROOT.parent / "shared" / "bench" / "peers"
    return path if path.is_dir() else None


def measure(log: Any, sizes: Sequence[int] = SIZES, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Runs every peer that can run here, size after size. Gives the scripts' own result lines."""
    scripts = folder()
    if scripts is None:
        log("peers: no peer scripts beside the checkout (shared/bench/peers)")
        return
    home = Path(tempfile.mkdtemp(prefix="orbitmq-peers-", dir=scratch_root()))
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        subprocess.run([str(home / "venv/bin/pip"), "-q", "install", *PACKAGES], check=True)
        for size in sizes:
            for peer in PEERS:
                missing = [program for program in peer.needs if not shutil.which(program)]
                if missing:
                    log(f"peers: {peer.name} left out: not installed: {', '.join(missing)}")
                    continue
                log(f"peers: {peer.name}, {size} bytes")
                yield from _run(peer, scripts, home, size, quick, log)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(peer: Peer, scripts: Path, home: Path, size: int, quick: bool, log: Any) -> Iterator[dict[str, Any]]:
    # A peer at home goes on in that environment by itself, when it has installed there what it needs.
    python = sys.executable if peer is ORBIT or peer.at_home else home / "venv/bin/python"
    command = [str(python), str(scripts / f"{peer.script}.py"), "--size", str(size), "--only", ",".join(MEASURES)]
    command += ["--warm", str(scratch_root()), *(["--quick"] if quick else ["--reps", "3"])]
    command += ["--variant", peer.variant] if peer.variant else []
    command += ["--home", str(home)] if peer.at_home else []
    before = set(SHARED_MEMORY.glob(LEFT_BEHIND))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        log(f"peers: {peer.name} left out: not done after {SECONDS} s")
        return
    finally:
        for path in set(SHARED_MEMORY.glob(LEFT_BEHIND)) - before:
            path.unlink(missing_ok=True)
    # Some servers leave escape sequences of a terminal before a line.
    yield from (json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line)
    if done.returncode or (done.stderr and not done.stdout):
        log(f"peers: {peer.name} ended with {done.returncode}: {' '.join(done.stderr.strip().splitlines()[-1:])}")


# Columns of the table, with the name of the measure and the factor to the unit shown.
COLUMNS = {
    "stream, k/s": ("stream", 1e-3),
    "processor, us a message": ("stream_cpu_us", 1.0),
    "send, k/s": ("send_batched", 1e-3),
    "drain, k/s": ("consume_backlog", 1e-3),
    "receipt p50, us": ("receipt_p50", 1.0),
    "p99": ("receipt_p99", 1.0),
    "e2e at 1,000/s p50, us": ("latency_p50", 1.0),
    "p99 ": ("latency_p99", 1.0),
}


def rows(found: Sequence[dict[str, Any]], size: int) -> list[tuple[str, list[str]]]:
    """A row a peer, of the bodies of this size: its name, and its medians for COLUMNS; of several runs, the middle one."""
    names = dict.fromkeys((each["bench"], each.get("variant", "")) for each in found if each["size"] == size)
    table = []
    for bench, variant in names:
        cells = []
        for wanted, factor in COLUMNS.values():
            values = sorted(
                each["median"] * factor
                for each in found
                if (each["bench"], each.get("variant", ""), each["size"], each["measure"]) == (bench, variant, size, wanted)
            )
            cells.append(f"{values[len(values) // 2]:,.4g}" if values else "")
        table.append((f"{bench} {variant}".strip(), cells))
    return table
