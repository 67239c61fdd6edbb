"""Builds the shim and becomes a process that has it preloaded, running program.py with the same arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "build" / "power" / "shim.so"
PROGRAM = ROOT / "tests" / "power" / "program.py"


def build() -> None:
    SHIM.parent.mkdir(parents=True, exist_ok=True)
    fresh = SHIM.with_suffix(f".{os.getpid()}")  # two runs may build at once
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, str(ROOT / "tests/power/shim.c"), "-o", str(fresh), "-ldl"], check=True)
    fresh.rename(SHIM)


def environment() -> dict[str, str]:
    """Of a process that runs the program."""
    return {**os.environ, "LD_PRELOAD": str(SHIM), "PYTHONPATH": str(ROOT)}


def main(arguments: list[str]) -> None:
    build()
    os.execve(sys.executable, [sys.executable, str(PROGRAM), *arguments], environment())


if __name__ == "__main__":
    main(sys.argv[1:])
