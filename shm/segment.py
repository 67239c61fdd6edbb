"""Named segments in /dev/shm: made once, reserved whole, attached by name, removed by their maker.

Everybody but the maker attaches through posix_ipc, read-only by default, and believes nothing before the header line
(native/shared/segment.h) says that this is the kind of segment it wants.

Names are omq.<generation, 8 hex digits>.<part>, 16 bytes. A generation is one life of the broker tree, so a segment with an old
one is a leftover.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import posix_ipc

from orbitmq.errors import BrokerNotRunning, NoPermission, ProtocolError, StoreFull
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm.disk_fault import shortage

MOUNT = Path("/dev/shm")
NAME_MAX = 30  # macOS and other systems allow 31 with the slash


class SegmentKind(IntEnum):
    """The kind of segment that a header names."""

    CONTROL = lib.SEGMENT_CONTROL
    TOPICS = lib.SEGMENT_TOPICS
    LANE = lib.SEGMENT_LANE
    WAKE = lib.SEGMENT_WAKE
    SESSION = lib.SEGMENT_SESSION


FAULTS = {
    lib.SEGMENT_BAD_MAGIC: "it does not begin as a segment does",
    lib.SEGMENT_BAD_LAYOUT: "it was made by another version",
    lib.SEGMENT_BAD_KIND: "it is of another kind",
    lib.SEGMENT_BAD_SIZE: "it is shorter than its header says",
}


def segment_prefix(generation: int) -> str:
    """The beginning of the names of all segments of one generation."""
    return f"omq.{generation & 0xFFFFFFFF:08x}."


def segment_name(generation: int, part: str) -> str:
    """Name of one segment; part is ctl, top, wak, or l00 to l15."""
    return segment_prefix(generation) + part


class Segment:
    """A mapped segment. The mapping lives as long as this object or any pointer taken from it. A fork inherits it."""

    def __init__(self, name: str, memory: mmap.mmap, *, writable: bool) -> None:
        self.name = name
        self.size = len(memory)
        self.writable = writable
        self.memory = memory
        self._held = ffi.from_buffer("uint8_t[]", memory, require_writable=writable)

    @property
    def pointer(self) -> Any:
        """void * to the first byte. Keep the segment as long as you use it."""
        return ffi.cast("void *", self._held)

    @property
    def address(self) -> int:
        """The same as a number."""
        return int(ffi.cast("uintptr_t", self._held))

    @property
    def generation(self) -> int:
        """The generation of the tree that made it, as its header says."""
        return int(ffi.cast("struct segment_header *", self._held).generation)

    def close(self) -> None:
        """Unmaps the segment. No pointer or view into it may be used any more.

        Raises: BufferError: Python still holds a view of `memory`.
        """
        ffi.release(self._held)
        self.memory.close()

    def unlink(self) -> None:
        """Removes the name. Mappings stay. A name that is gone already is no error."""
        remove_segment(self.name)


def create_segment(name: str, size: int, group: int | None = None, sign: Callable[[Any], None] | None = None) -> Segment:
    """A fresh, zeroed segment of `size` bytes, every page of it reserved, so that touching it can never cause SIGBUS.

    group: id of the unix group that may map it read-only. Without a group nobody else may map it at all.
    sign: writes its maker into it (segment_owner.py), before anything else happens with it.

    The caller fills it, and writes its header (segment_init, or an init function that calls it) before the name becomes known.

    Raises:
        StoreFull: /dev/shm has no room; nothing is left behind.
        FileExistsError: the name is taken.
    """
    assert len(name) <= NAME_MAX and size > 0
    # Checked first: reserving page by page until nothing is left would leave all other processes without memory for a moment.
    require_room(size, name)
    descriptor = os.open(MOUNT / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        if group is not None:
            os.fchown(descriptor, -1, group)
            os.fchmod(descriptor, 0o640)
        memory = mmap.mmap(descriptor, size)
    except BaseException as error:
        remove_segment(name)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.ENOMEM):
            raise _full(name, size, shared_memory_free()) from None
        raise
    finally:
        os.close(descriptor)
    segment = Segment(name, memory, writable=True)
    if sign is not None:
        sign(segment.pointer)
    return segment


def attach_segment(name: str, kind: SegmentKind, *, owner: int | None = None, writable: bool = False) -> Segment:
    """Maps a segment that somebody else made, read-only unless asked otherwise.

    owner: uid that it must belong to. Anybody may make files in /dev/shm: a file of the right name and form is the broker's
        only if the broker's user made it.

    Raises:
        BrokerNotRunning: no segment has this name.
        NoPermission: it belongs to another user and is not open to a group of this one; or it does not belong to the owner.
        ProtocolError: it is another kind of segment; `.fault` says why.
    """
    try:
        shared = posix_ipc.SharedMemory("/" + name, read_only=not writable)
    except posix_ipc.ExistentialError:
        raise BrokerNotRunning(
            f"could not attach to the segment {name}: no shared memory has this name",
            hint="the broker has ended, or runs in another container: start it again, or share its /dev/shm",
            segment=name,
        ) from None
    except posix_ipc.PermissionsError:
        raise NoPermission(
            f"could not attach to the segment {name}: this user may not read it",
            hint=hint("ask its operator to set {group of broker} to a group of yours"),
            segment=name,
        ) from None
    try:
        status = os.fstat(shared.fd)
        size = status.st_size
        if owner is not None and status.st_uid != owner:
            raise NoPermission(
                f"could not attach to the segment {name}: it belongs to uid {status.st_uid} and the broker to uid {owner}",
                hint=f"somebody has put it there; have the broker's operator look at {MOUNT / name}",
                segment=name,
            )
        if size < lib.SEGMENT_LINE:
            raise _fault(name, kind, lib.SEGMENT_BAD_SIZE)
        memory = mmap.mmap(shared.fd, size, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
    finally:
        shared.close_fd()
    segment = Segment(name, memory, writable=writable)
    fault = lib.segment_check(segment.pointer, kind, size)
    if fault != lib.SEGMENT_GOOD:
        segment.close()
        raise _fault(name, kind, fault)
    return segment


def remove_segment(name: str) -> bool:
    """Unlinks a segment's name. False if it was gone already. Only the maker may do this, or a process that cleans up after
    it."""
    with suppress(posix_ipc.ExistentialError):
        posix_ipc.unlink_shared_memory("/" + name)
        return True
    return False


def remove_leftovers(prefix: str) -> list[str]:
    """Unlinks every segment whose name begins with the prefix, and returns their names. The caller knows that their tree is
    dead.

    Raises: ValueError: the prefix names no generation, and could match the segments of a living tree.
    """
    if len(prefix) < len(segment_prefix(0)):
        raise ValueError(f"cannot remove segments by the prefix {prefix!r}, it is shorter than that of a generation")
    names = sorted(entry.name for entry in os.scandir(MOUNT) if entry.name.startswith(prefix))
    return [name for name in names if remove_segment(name)]


def shared_memory_free() -> int:
    """Free bytes of /dev/shm."""
    status = os.statvfs(MOUNT)
    return status.f_bavail * status.f_frsize


def require_room(need: int, what: str) -> None:
    """Raises: StoreFull: /dev/shm has fewer than `need` bytes for `what`; has .mount, .need and .free."""
    free = shared_memory_free()
    if need > free:
        raise _full(what, need, free)


def _full(what: str, need: int, free: int) -> StoreFull:
    return StoreFull(
        f"could not make {what}: {MOUNT} is full ({shortage(free, need)})",
        hint=hint(
            "enlarge {} (of a container: --shm-size) || lower {handlers of broker} || lower {lane_capacity of broker}",
            MOUNT,
        ),
        mount=str(MOUNT),
        need=need,
        free=free,
    )


def _fault(name: str, kind: SegmentKind, fault: int) -> ProtocolError:
    return ProtocolError(
        f"could not use the segment {name} as {kind.name.lower()}: {FAULTS[fault]}",
        hint="run client and broker from one version of orbitmq",
        segment=name,
        fault=fault,
    )
