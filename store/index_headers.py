"""The IndexFiles of a store, and what their headers say. docs/formats/indexfile.md draws one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from orbitmq.store.layout import StoreLayout

NAME_DIGITS = 17  # yyyyMMddHHmmssSSS
_HEADER = struct.Struct(">qqqqii")


class IndexHeader(NamedTuple):
    """One file: store timestamps (ms) and physical offsets of the first and the last record that it indexes."""

    path: Path
    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    next_entry: int

    @property
    def empty(self) -> bool:
        """True if it is not known to hold anything: it was just made, or its header is not on disk."""
        return self.next_entry <= 1 or self.end_ms <= 0


def index_files(folder: Path) -> list[Path]:
    """The index files of a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdecimal() and len(path.name) == NAME_DIGITS)


def numbers(path: Path) -> tuple[int, ...]:
    """The six numbers of a file's header, in order; zeros if the file is too short."""
    with path.open("rb") as file:
        return _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))


def load(layout: StoreLayout) -> list[IndexHeader]:
    """Headers of all files, oldest first. Files too short for one count as empty."""
    headers: list[IndexHeader] = []
    for path in index_files(layout.index):
        begin_ms, end_ms, begin_offset, end_offset, _, next_entry = numbers(path)
        headers.append(IndexHeader(path, begin_ms, end_ms, begin_offset, end_offset, next_entry))
    return headers
