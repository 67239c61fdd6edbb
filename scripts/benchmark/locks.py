"""The core's lock compared with two alternatives: one that only spins, and a robust pthread mutex (locks.c).

`lock_alone_*` is a round of one process, `lock_crowd_*` of eight that do nothing inside, `lock_long_*` of eight that stay
inside for some 10 us. All three are processor time, which hardly depends on what else runs on the machine. `lock_killed_*` is
the time from a holder's death until a waiter has the lock."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from scripts.benchmark.result import Measure, Sample

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-UNDEBUG", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}")

KINDS = ("core", "spin", "robust")
ROUNDS = {"alone": (1, 0, 3_000_000), "crowd": (8, 0, 300_000), "long": (8, 40_000, 2_000)}  # processes, work, rounds of each
WAITERS = 1


@cache
def _program() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-locks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "locks"
    sources = [Path(__file__).with_suffix(".c"), *sorted((NATIVE / "base").glob("*.c"))]
    subprocess.run(["gcc", *FLAGS, *map(str, sources), "-o", str(program)], check=True)
    return program


def measured(*arguments: object) -> dict[str, float]:
    done = subprocess.run([str(_program()), *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def rounds() -> tuple[Sample, ...]:
    """The kinds take turns."""
    return tuple(Sample(measured("round", kind, *shape)["processor_ns"]) for shape in ROUNDS.values() for kind in KINDS)


def killed() -> tuple[Sample, ...]:
    return tuple(Sample(measured("killed", kind, WAITERS)["stolen_us"]) for kind in KINDS)


MEASURES = (
    Measure(tuple(f"lock_{name}_{kind}" for name in ROUNDS for kind in KINDS), "ns", rounds, durability="-", broker=False),
    Measure(tuple(f"lock_killed_{kind}" for kind in KINDS), "us", killed, durability="-", runs=21, broker=False),
)
