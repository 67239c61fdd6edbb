"""What a broker tree knows about its consumer groups: members, epochs, who has which queue, and the positions of members that
have left. It is in the files orbitmq/commits/groups-0 and groups-1; the newer intact one counts.

    magic "orbitgrp"   u64 version   u32 size of the rest   u32 CRC-32 of version, size and the rest   msgpack

The older file is overwritten in place, in space that was reserved before. So neither a full disk nor a death half-way can
destroy the newer one. The head is written last: if neither file has one, nothing was ever written down, and nobody's commit
depends on it. The files are not synced. The page cache keeps them whichever process dies, and after a power cut they have no
meaning, because they name the boot of the machine for which they hold.

    {"generation":, "boot": 16 bytes, "vouched": [CRC-32 of consumerOffset.json, ...], "groups": {name: {"offsets": [[topic,
     queue, offset], ...], "group": {"epoch":, "assigned": {"<slot>.<epoch>": [[topic, queue], ...]}, ...}}}}

Word i of the file <slot>.<epoch> (native/shared/commit_words.h) belongs to queue i of `assigned`. `vouched` names the versions
of consumerOffset.json with which this memory counts. If the file has another content, another program or a person has set the
offsets since."""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from orbitmq.shm.crash_point import crash_point
from orbitmq.store.layout import StoreLayout

MAGIC = b"orbitgrp"
_HEAD = struct.Struct("<8sQII")
_COVERED = struct.Struct("<QI")
_ROUND = 4096


class Remembered(NamedTuple):
    """The content. groups: as drawn above."""

    generation: int
    boot: bytes
    vouched: tuple[int, ...]
    groups: dict[str, dict[str, Any]]

    def assigned(self) -> dict[str, int]:
        """For each member's file, by its name: how many of its words count."""
        groups = (entry["group"] for entry in self.groups.values() if "group" in entry)
        return {member: len(queues) for group in groups for member, queues in group["assigned"].items()}


class GroupMemory:
    """Both files. Raises (from the methods that write): OSError."""

    def __init__(self, layout: StoreLayout) -> None:
        self._paths = [layout.commits / f"groups-{half}" for half in (0, 1)]
        self._version = 0

    def load(self) -> Remembered | None:
        """What was written last. None: nothing, or nothing intact."""
        found = [_read(path) for path in self._paths]
        whole = [each for each in found if each is not None]
        if not whole:
            return None
        self._version, content = max(whole, key=lambda each: each[0])
        with suppress(KeyError, TypeError, ValueError):
            return Remembered(content["generation"], content["boot"], tuple(content["vouched"]), dict(content["groups"]))
        return None

    def reserve(self, size: int) -> None:
        """Makes sure that a content of so many bytes can be written, even if the disk becomes full."""
        need = -(-(_HEAD.size + size) // _ROUND) * _ROUND
        for path in self._paths:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                if os.fstat(descriptor).st_size < need:
                    os.posix_fallocate(descriptor, 0, need)
            finally:
                os.close(descriptor)
            crash_point("group_memory_reserved")

    def write(self, content: Remembered) -> None:
        """The content counts from now on."""
        body = packed(content)
        self.reserve(len(body))
        version = self._version + 1
        crc = zlib.crc32(body, zlib.crc32(_COVERED.pack(version, len(body))))
        descriptor = os.open(self._paths[version % 2], os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _put(descriptor, body, _HEAD.size)
            crash_point("group_memory_half")
            _put(descriptor, _HEAD.pack(MAGIC, version, len(body), crc), 0)
        finally:
            os.close(descriptor)
        self._version = version
        crash_point("group_memory_written")

    def remove(self) -> None:
        """The older one first: alone it would count."""
        for half in ((self._version + 1) % 2, self._version % 2):
            self._paths[half].unlink(missing_ok=True)
            crash_point("group_memory_removed")

    def exists(self) -> bool:
        return any(path.exists() for path in self._paths)

    def begun(self) -> bool:
        """True if anything was ever written. Otherwise no member was let in, and nothing is missing."""
        return any(_head(path).strip(b"\0") for path in self._paths)


def packed(content: Remembered) -> bytes:
    names = ("generation", "boot", "vouched", "groups")
    return bytes(msgpack.packb({name: getattr(content, name) for name in names}))


def _put(descriptor: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD.size)
    except FileNotFoundError:
        return b""


def _read(path: Path) -> tuple[int, dict[str, Any]] | None:
    """(version, content) of an intact file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, version, size, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + size]
    if magic != MAGIC or len(body) != size or zlib.crc32(body, zlib.crc32(_COVERED.pack(version, size))) != crc:
        return None
    try:
        content = msgpack.unpackb(body)
    except (ValueError, msgpack.UnpackException):
        return None
    return (version, content) if isinstance(content, dict) else None
