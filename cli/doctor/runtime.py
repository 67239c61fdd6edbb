"""The runtime folder, where clients find brokers."""

from __future__ import annotations

import os
from pathlib import Path

from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.errors import OrbitError
from orbitmq.shm.runtime import runtime_folder, socket_path

NOUN = "runtime folder"


def look(name: str) -> list[Finding]:
    """name: the broker whose socket has to fit."""
    try:
        folder = runtime_folder()
        socket_path(name)
    except OrbitError as error:
        return [Finding.of_error(NOUN, error)]
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        change = "set ORBITMQ_RUNTIME_DIR to a folder of the broker's user, for the broker and its clients"
        return [Finding(NOUN, f"{folder}: this user may not write in {there}", Level.WRONG, change)]
    if not folder.exists():
        return [Finding(NOUN, f"{folder}, which the first broker makes")]
    return [Finding(NOUN, f"{folder}, {_brokers(folder)}")]


def _brokers(folder: Path) -> str:
    names = sorted(path.stem for path in folder.glob("*.json"))
    return f"which knows {', '.join(names)}" if names else "which knows no broker"
