"""Who owns a segment in /dev/shm. The maker signs the segment's header line (native/shared/segment.h), because a file that
names a generation can be a copy: of a store whose broker still runs, or of a store from another machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.shm.file_id import FileId
from orbitmq.shm.runtime import pid_namespace, start_ticks
from orbitmq.shm.segment import MOUNT, remove_segment, segment_prefix

_NAME = re.compile(r"omq\.[0-9a-f]{8}\.\w+")


class SegmentOwner(NamedTuple):
    """The supervisor that made a segment, and the lock file of the store that it runs on.

    namespace: the pid namespace, by the number of its inode. A pid has no meaning in another namespace.
    """

    pid: int
    namespace: int
    start_ticks: int
    lock: FileId

    @classmethod
    def here(cls, lock: FileId) -> SegmentOwner:
        """The identity of this process."""
        ticks = start_ticks(os.getpid())
        assert ticks is not None
        return cls(os.getpid(), _namespace(), ticks, lock)

    def lives(self) -> bool:
        """False only if it is known to be dead."""
        return self.namespace != _namespace() or start_ticks(self.pid) == self.start_ticks

    def sign(self, memory: Any) -> None:
        """memory: void * to the first byte of a segment that is being made."""
        owner = ffi.new("struct segment_owner *")
        owner.pid, owner.namespace, owner.start_ticks = self.pid, self.namespace, self.start_ticks
        owner.device, owner.inode = self.lock.device, self.lock.inode
        lib.segment_sign(memory, owner)


def owner_of(name: str) -> SegmentOwner | None:
    """The owner that signed the segment. None if it is not signed, or has another layout.

    Raises: OSError: it is gone, or another user's.
    """
    with (MOUNT / name).open("rb", buffering=0) as file:
        line = file.read(lib.SEGMENT_LINE)
    if len(line) < lib.SEGMENT_LINE:
        return None
    header = ffi.cast("struct segment_header *", ffi.from_buffer(line))
    # A segment is signed before it gets its magic, so one without a magic counts too. In another layout the owner is in another
    # place, if anywhere.
    owner, finished = header.owner, header.magic or header.layout
    if owner.pid == 0 or (finished and (header.magic, header.layout) != (lib.SEGMENT_MAGIC, lib.SEGMENT_LAYOUT)):
        return None
    return SegmentOwner(owner.pid, owner.namespace, owner.start_ticks, FileId(owner.device, owner.inode))


def remove_dead(lock: FileId, generation: int | None, *, is_own: bool) -> list[str]:
    """Unlinks the segments that dead trees have left, those of other stores too, and returns their names.

    Args:
        lock: the store's lock file, which the caller holds: no other tree of the store has a process left.
        generation: the one that a file of the store names; None: there is no such file.
        is_own: that file was written under this very lock, so it is not a copy. It is believed about segments that nobody has
            signed yet.
    """
    named = None if generation is None else segment_prefix(generation)
    removed = []
    lives = cache(SegmentOwner.lives)  # a tree has several segments
    for name in sorted(_names()):
        with suppress(OSError):
            owner = owner_of(name)
            if owner is None:
                dead = is_own and named is not None and name.startswith(named)
            else:  # a store may be gone with nobody left to start on it
                dead = owner.lock == lock or not lives(owner)
            if dead and remove_segment(name):
                removed.append(name)
    return removed


def dead_segments() -> list[str]:
    """Names of this user's segments whose owner is known to be dead; the next start of a broker removes them."""
    dead = []
    for name in sorted(_names()):
        with suppress(OSError):
            owner = owner_of(name)
            if owner is not None and not owner.lives() and (MOUNT / name).stat().st_uid == os.geteuid():
                dead.append(name)
    return dead


def _names() -> Iterator[str]:
    return (entry.name for entry in os.scandir(MOUNT) if _NAME.fullmatch(entry.name))


def _namespace() -> int:
    return pid_namespace() & 0xFFFFFFFF
