"""The ceilings of the design in bare C, built when they are needed and run beside each of OrbitMQ's runs. ceiling.c is the same
pipeline; crowd.c is processes that wait for one disk together."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CROWD = Path(__file__).with_name("crowd.c")
BODY_MAX = 60_000  # ceiling.c's rings have no room for more behind their end


def source() -> Path | None:
    """ceiling.c, from $ORBITMQ_CEILING or from shared/bench beside the checkout; None if there is none."""
    named = os.environ.get("ORBITMQ_CEILING")
    path = Path(named) if named else ROOT.parent / "shared" / "bench" / "ceiling.c"
    return path if path.exists() else None


@cache
def _program(path: Path) -> Path | None:
    program = Path(tempfile.mkdtemp(prefix="orbitmq-ceiling-")) / path.stem
    # ceiling.c uses x86's CRC instruction; on other processors there is no ceiling to compare with.
    machine = ("-msse4.2",) if path.stem == "ceiling" else ()
    built = subprocess.run(["gcc", "-O2", *machine, "-o", str(program), str(path)], capture_output=True, check=False)
    return program if built.returncode == 0 else None


def _run(path: Path | None, *arguments: object) -> dict[str, Any] | None:
    program = _program(path) if path else None
    if program is None:
        return None
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def throughput(messages: int, body: int, batch: int, folder: Path) -> float | None:
    """Messages a second, end to end, on warm pages: of two runs the second counts, which reuses the pages of the first.

    On pages that nobody touched before, the same program is six times slower, and a ratio to that would say nothing about
    OrbitMQ. None: there is no ceiling here, or it cannot have bodies of this size.
    """
    if body > BODY_MAX:
        return None
    arguments = ("throughput", messages, body, batch, folder)
    _run(source(), *arguments)
    found = _run(source(), *arguments)
    return float(found["messages_per_s"]) if found else None


def latency_us(messages: int, body: int, folder: Path) -> tuple[float, float] | tuple[None, None]:
    """p50 and p99 of send to verdict, microseconds."""
    found = _run(source(), "latency", messages, body, folder)
    return (float(found["p50_us"]), float(found["p99_us"])) if found else (None, None)


def crowd(processes: int, messages: int, user_ns: int, folder: Path) -> float | None:
    """Messages a second of so many processes together. Each waits for the disk with every message and spends user_ns
    nanoseconds of its own on it."""
    found = _run(CROWD, processes, messages, user_ns, folder)
    return float(found["messages_per_s"]) if found else None
