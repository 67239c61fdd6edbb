"""The index over message keys as Python sees it: look-ups over all IndexFiles, and what reput has committed.

One file is drawn in docs/formats/indexfile.md. Only key hashes are stored, so an answer names records that may carry the
key: whoever asks compares the keys of what it reads. Any process may look while reput writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from orbitmq.errors import StoreFailed, StoreSettings
from orbitmq.native._core import ffi, lib

HITS_MAX = 64
TIME_END = (1 << 63) - 1
NAME_DIGITS = 17
_COMMIT_SIZE = 4096
_EIO, _ENOENT = 5, 2


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """Header of one file: store timestamps (ms) and physical offsets of its first and last entry's records."""

    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    slots_used: int
    next_entry: int


@dataclass(frozen=True, slots=True)
class IndexCommit:
    """What <store>/orbitmq/reput says.

    position: everything in the log below it is in the ConsumeQueues and in the index. indexed: keys of records below it
    are in the index. name: of the newest index file, None if there was none. header: of that file.
    """

    position: int
    indexed: int
    name: str | None
    header: IndexHeader


def key_hash(topic: str, key: str) -> int:
    """What the index stores for a key: |Java hash of "topic#key"|, 0 where that is negative."""
    prefix = f"{topic}#".encode()
    data = key.encode()
    result: int = lib.index_key_hash(lib.java_hash(0, prefix, len(prefix)), data, len(data))
    return result


def load_commit(path: Path) -> IndexCommit | None:
    """The newest whole commit in reput's commit file; None when there is no file or no commit in it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    commit = ffi.new("struct index_commit *")
    if len(content) < _COMMIT_SIZE or not lib.index_commit_load(content, commit):
        return None
    name = f"{commit.name:0{NAME_DIGITS}d}" if commit.name else None
    return IndexCommit(commit.position, commit.indexed, name, _header(commit.header))


def index_files(folder: Path) -> list[Path]:
    """The index files of a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdecimal() and len(path.name) == NAME_DIGITS)


class IndexFile:
    """One file, mapped read-only until close().

    Args:
        slots, entries: the broker's settings index_slots and index_entries.
    Raises: FileNotFoundError; StoreSettings: of another length; StoreFailed: cannot be mapped.
    """

    def __init__(self, path: Path, slots: int, entries: int) -> None:
        self.path = path
        self._file = ffi.new("struct index_file *")
        error = lib.index_file_open(self._file, str(path).encode(), slots, entries, False, False)
        if error == _ENOENT:
            raise FileNotFoundError(error, f"no index file {path}")
        if error == _EIO:
            raise StoreSettings(
                f"cannot read {path}, its length is not that of {slots} slots and {entries} entries",
                hint="open the store with the index_slots and index_entries it was made with",
                path=str(path),
            )
        if error:
            raise StoreFailed(f"cannot map {path}, errno {error}", path=str(path), errno=error)

    @property
    def header(self) -> IndexHeader:
        """The header as it was when the file was opened."""
        return _header(self._file.header)

    def find(self, hash_: int, begin_ms: int = 0, end_ms: int = TIME_END, most: int = HITS_MAX) -> list[int]:
        """Physical offsets of records with a key of this hash, newest first. Times are ms, matched to the second."""
        offsets = ffi.new("uint64_t[]", most)
        found = lib.index_file_find(self._file, hash_, begin_ms, end_ms, offsets, most)
        return list(ffi.unpack(offsets, found)) if found else []

    def close(self) -> None:
        lib.index_file_close(self._file)

    def __enter__(self) -> IndexFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Index:
    """All index files of a store; none is kept open between two questions."""

    def __init__(self, store: Path, slots: int, entries: int) -> None:
        self.folder = store / "index"
        self.slots = slots
        self.entries = entries

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = TIME_END, most: int = HITS_MAX) -> list[int]:
        """Physical offsets of records of a topic that may carry a key (one of KEYS, or UNIQ_KEY), newest first.

        Args:
            begin_ms, end_ms: store timestamps, both included; matched to the second, so the edges may bring more.
            most: at most this many, and never more than 64, as in RocketMQ.
        Raises: StoreSettings, StoreFailed.
        """
        most = min(most, HITS_MAX)
        wanted = key_hash(topic, key)
        found: list[int] = []
        for path in reversed(index_files(self.folder)):
            if len(found) >= most:
                break
            try:
                with IndexFile(path, self.slots, self.entries) as file:
                    found += file.find(wanted, begin_ms, end_ms, most - len(found))
                    begin = file.header.begin_ms
            except FileNotFoundError:
                continue  # retention took it meanwhile
            if 0 < begin < begin_ms:
                break  # older files hold older records
        return found


def _header(header: Any) -> IndexHeader:
    return IndexHeader(
        header.begin_ms,
        header.end_ms,
        header.begin_offset,
        header.end_offset,
        header.slots_used,
        header.next_entry,
    )
