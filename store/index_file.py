"""The index over message keys, from Python: look-ups in one IndexFile, and in all of them.

One file is drawn in docs/formats/indexfile.md. It stores only hashes of keys, so an answer names records that may carry the
key; the caller compares the keys of the records it reads. Any process may look while reput writes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from orbitmq.errors import NoMeans, StoreError, StoreSettingsError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm.means import lacking
from orbitmq.shm.text import utf8
from orbitmq.store.index_headers import IndexHeader, index_files

HITS_MAX = 64
TIME_END = (1 << 63) - 1


def key_hash(topic: str, key: str) -> int:
    """What the index stores for a key: |Java hash of "topic#key"|, 0 if that is negative. Raises: UsageError: the key is not
    valid text."""
    prefix = f"{topic}#".encode()
    data = utf8(key, "look for key")
    result: int = lib.index_key_hash(lib.java_hash(0, prefix, len(prefix)), data, len(data))
    return result


class IndexFile:
    """One file, mapped read-only until close().

    Args:
        slots, entries: the broker's settings index_slots and index_entries.
    Raises: FileNotFoundError; StoreSettingsError: it has another length; NoMeans, StoreError: it cannot be mapped.
    """

    def __init__(self, path: Path, slots: int, entries: int) -> None:
        self.path = path
        self._file = ffi.new("struct index_file *")
        error = lib.index_file_open(self._file, os.fsencode(path), slots, entries, False, False)
        if error == errno.ENOENT:
            raise FileNotFoundError(error, f"no index file {path}")
        if error == errno.EIO:
            raise StoreSettingsError(
                f"cannot read {path}: its length is not that of {slots} slots and {entries} entries",
                hint=hint(
                    "open the store with the {index_slots of broker} and {index_entries of broker} that it was made with"
                ),
                path=str(path),
            )
        if error:
            why = os.strerror(error)
            short = lacking(OSError(error, why), f"map {path}")
            raise short if isinstance(short, NoMeans) else StoreError(f"cannot map {path}: {why}", path=str(path), errno=error)

    @property
    def header(self) -> IndexHeader:
        """The header as it was when the file was opened."""
        found = self._file.header
        return IndexHeader(self.path, found.begin_ms, found.end_ms, found.begin_offset, found.end_offset, found.next_entry)

    def find(self, hash_: int, begin_ms: int = 0, end_ms: int = TIME_END, most: int = HITS_MAX) -> list[int]:
        """Physical offsets of records with a key of this hash, newest first. Times are ms, compared to the second."""
        offsets = ffi.new("uint64_t[]", most)
        found = lib.index_file_find(self._file, hash_, begin_ms, end_ms, offsets, most)
        return list(ffi.unpack(offsets, found)) if found else []

    def close(self) -> None:
        lib.index_file_close(self._file)

    def __enter__(self) -> IndexFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def candidates(
    folder: Path, slots: int, entries: int, hash_: int, *, begin_ms: int = 0, end_ms: int = TIME_END, most: int = HITS_MAX
) -> Iterator[int]:
    """Physical offsets of records that may carry a key of this hash, newest first, over all files of a store's index.

    Args:
        begin_ms, end_ms: store timestamps, both included; compared to the second, so there may be more results at the edges.
        most: at most this many from one file.
    Raises: NoMeans, StoreError: a file cannot be mapped.
    """
    for path in reversed(index_files(folder)):
        # A file that is just being made, or was just removed, holds nothing of interest.
        with suppress(FileNotFoundError, StoreSettingsError), IndexFile(path, slots, entries) as file:
            yield from file.find(hash_, begin_ms, end_ms, most)
            if 0 < file.header.begin_ms < begin_ms:
                return  # older files hold older records
