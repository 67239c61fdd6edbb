"""The CommitLog's files on disk: complete and durable before any process sees them, and checked when a store is opened.

A file is reserved and synced under orbitmq/allocating/ and only then renamed into commitlog/. A crash in between leaves a file
there, which the next start removes, and never a short file in commitlog/, which a RocketMQ broker would refuse. Every byte is
reserved, so a full disk is an error here and not a SIGBUS in the writer.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from pathlib import Path

from orbitmq.errors import CorruptRecord, StoreSettingsError, StoreUnsupported
from orbitmq.errors.remedy import hint
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.file_system import LOG_KNOB, disk_error
from orbitmq.store.layout import StoreLayout

NAME_DIGITS = 20


def allocate(layout: StoreLayout, start: int, size: int) -> Path:
    """Makes the CommitLog file that begins at the physical offset `start`: `size` zero bytes, reserved and durable.

    Does nothing if it exists; see discard. Raises: StoreFull: no room; has .mount, .need and .free; StoreFailed: has .errno.
    """
    assert start % size == 0, f"a file of {size} bytes cannot begin at {start}"
    path = layout.log_file(start)
    if path.exists():
        return path
    temporary = layout.allocating / path.name
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            crash_point("mapped_file_made")
            os.posix_fallocate(descriptor, 0, size)
            crash_point("mapped_file_reserved")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        crash_point("mapped_file_synced")
        temporary.rename(path)
        crash_point("mapped_file_renamed")
        atomic_file.sync_folder(layout.commitlog)
    except OSError as error:
        # A leftover must not take up what room there is. A name whose sync has failed must not stay either: nobody has been
        # told about it, and the next attempt would find it and sync nothing.
        for leftover in (temporary, path):
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)
        if error.errno == errno.EXDEV:
            raise StoreUnsupported(
                f"cannot hold a store in {layout.root}: its folder commitlog lies on another file system",
                hint="keep commitlog and orbitmq on one file system",
                path=str(layout.commitlog),
            ) from error
        raise disk_error(error, layout.root, size, f"the log file {path}", LOG_KNOB) from error
    return path


def discard(layout: StoreLayout, start: int) -> None:
    """Removes the file that begins at `start`, if there is one. For a process that was killed before it could say that its file
    is ready: it is not known whether the file and its name are on disk, and nobody has written to it. Raises: OSError."""
    layout.log_file(start).unlink(missing_ok=True)


def list_starts(layout: StoreLayout, size: int) -> list[int]:
    """Physical offsets at which the CommitLog's files begin, ascending, without a gap; empty if there are none.

    Raises:
        StoreSettingsError: a file of another size or with a foreign name is in commitlog/; has .path.
        CorruptRecord: a file between two others is missing; has .offset, where it would begin.
    """
    starts: list[int] = []
    if not layout.commitlog.is_dir():
        return starts
    with os.scandir(layout.commitlog) as entries:
        for entry in entries:
            if len(entry.name) != NAME_DIGITS or not (entry.name.isascii() and entry.name.isdigit()):
                raise StoreSettingsError(
                    f"cannot open the CommitLog: {entry.path} is not one of its files",
                    hint="move it elsewhere",
                    path=entry.path,
                )
            length = entry.stat().st_size
            start = int(entry.name)
            if length != size or start % size:
                raise StoreSettingsError(
                    f"cannot open the CommitLog: {entry.path} has {length:,} bytes, and its files must have {size:,}",
                    hint=hint(
                        "open the store with the {log_file_size of broker} that it has || put the file back from a backup"
                    ),
                    name="log_file_size",
                    value=size,
                    stored=length,
                    path=entry.path,
                )
            starts.append(start)
    starts.sort()
    for earlier, later in itertools.pairwise(starts):
        if later != earlier + size:
            raise CorruptRecord(
                f"cannot open the CommitLog: the file {layout.log_file(earlier + size)} is missing",
                hint="put it back from a backup, or move the files before it elsewhere",
                offset=earlier + size,
                path=str(layout.log_file(earlier + size)),
            )
    return starts


def clear_leftovers(layout: StoreLayout) -> int:
    """Removes files that a crash left on their way into commitlog/. Returns how many."""
    leftovers = list(layout.allocating.iterdir()) if layout.allocating.is_dir() else []
    for path in leftovers:
        path.unlink()
    return len(leftovers)
