"""The folder that a program fills with real data, and may empty when it runs again."""

from __future__ import annotations

import shutil
from pathlib import Path

from orbitmq.errors import SettingError


def mark(program: str) -> str:
    """Name of the file which says that a folder belongs to that program."""
    return f".orbitmq-{program}"


def prepare(folder: Path, program: str) -> None:
    """An empty folder of the program in scripts/. Raises: SettingError: it contains something that is not the program's."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / mark(program)).is_file():
            raise SettingError(
                f"cannot use the folder {folder}: it holds something that scripts/{program} has not made",
                hint="name an empty or a new one with --folder",
                name="folder",
                value=str(folder),
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / mark(program)).write_text(f"Made by scripts/{program}, which empties this folder when it runs again.\n")
