"""Goal: one process at a time has a folder, even if somebody removes its file meanwhile; and the next one is told who has
it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from orbitmq import errors
from orbitmq.shm.folder_lock import folder_lock


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_lock_of_a_folder(tmp_path: Path) -> None:
    """It belongs to its owner, names its holder, and is gone afterwards; a file that its holder has just removed belongs to
    nobody."""
    with folder_lock(tmp_path, patience_s=0):
        (file,) = tmp_path.iterdir()
        assert mode(file) == 0o600
        waiting = os.fork()
        if waiting == 0:
            told = 1
            with suppress(BaseException):
                try:
                    with folder_lock(tmp_path, patience_s=0):
                        pass
                except errors.SettingError as error:
                    told = 0 if error.values["pid"] == os.getppid() else 2
            os._exit(told)
        assert os.waitpid(waiting, 0)[1] == 0
    assert not list(tmp_path.iterdir())
    with folder_lock(tmp_path, patience_s=0):
        file.unlink()  # as a program does that cleans temporary folders
        with folder_lock(tmp_path, patience_s=0):
            pass
    with folder_lock(tmp_path, patience_s=0):
        pass
    assert not list(tmp_path.iterdir())
