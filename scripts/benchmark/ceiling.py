"""The ceiling of the design: the same pipeline in bare C, built from ceiling.c and run beside each of our runs."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def source() -> Path | None:
    """ceiling.c, from $ORBITMQ_CEILING or from shared/bench beside the checkout; None where there is none."""
    named = os.environ.get("ORBITMQ_CEILING")
    path = Path(named) if named else ROOT.parent / "shared" / "bench" / "ceiling.c"
    return path if path.exists() else None


@cache
def _program() -> Path | None:
    path = source()
    if path is None:
        return None
    program = Path(tempfile.mkdtemp(prefix="orbitmq-ceiling-")) / "ceiling"
    # The CRC instruction it uses is x86's; elsewhere there is no ceiling to compare with.
    built = subprocess.run(["gcc", "-O2", "-msse4.2", "-o", str(program), str(path)], capture_output=True, check=False)
    return program if built.returncode == 0 else None


def _run(*arguments: str) -> dict[str, Any] | None:
    program = _program()
    if program is None:
        return None
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def throughput(messages: int, body: int, batch: int, folder: Path) -> float | None:
    """Messages a second, end to end, on warm pages: of two runs the second counts, which reuses the first one's pages.

    On pages that nobody touched before, the same program is six times slower, and a ratio to that says nothing about us.
    """
    arguments = ("throughput", str(messages), str(body), str(batch), str(folder))
    _run(*arguments)
    found = _run(*arguments)
    return float(found["messages_per_s"]) if found else None


def latency_us(messages: int, body: int, folder: Path) -> tuple[float, float] | tuple[None, None]:
    """p50 and p99 of send to verdict, microseconds."""
    found = _run("latency", str(messages), str(body), str(folder))
    return (float(found["p50_us"]), float(found["p99_us"])) if found else (None, None)
