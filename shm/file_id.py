"""The identity of a file, whatever its name is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileId:
    """Device and inode: no other file has both numbers while this file is open or has a name."""

    device: int
    inode: int

    @classmethod
    def of(cls, file: int | Path) -> FileId:
        """Raises: OSError."""
        status = os.fstat(file) if isinstance(file, int) else file.stat()
        return cls(status.st_dev, status.st_ino)
