"""The identity of a file, whatever its name is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileId(NamedTuple):
    """Device and inode: no other file has both numbers while this file is open or has a name."""

    device: int
    inode: int

    @classmethod
    def of(cls, file: int | Path) -> FileId:
        """Raises: OSError."""
        status = os.fstat(file) if isinstance(file, int) else file.stat()
        return cls(status.st_dev, status.st_ino)
