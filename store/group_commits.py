"""Where groups are whose offsets are committed with atomic batches: orbitmq/group_commits.

    0   magic "orbitcmt"   8  u32 layout version   12  u64 next   20  u32 count
    24  count times: u64 u64 the key of a group's queue (native/format/group_commit.h), u64 offset
    ..  u32 CRC-32 of all bytes before, big-endian as everything

The truth is in the log: the records of the topic rmq_sys_group_commits. The file says what those before `next`, a queue offset,
come to, so that a start reads only the others, and retention may remove the old ones. It is written now and then, so it may be
old: then more is read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

COMMITS_TOPIC = "rmq_sys_group_commits"
VERSION = 1
ENTRY_WORDS = 3
_HEAD = struct.Struct(">8sIQI")
_CRC = struct.Struct(">I")
_MAGIC = b"orbitcmt"


class GroupCommits(NamedTuple):
    """entries: ENTRY_WORDS numbers for each queue of a group."""

    next: int = 0
    entries: Sequence[int] = ()


def packed(commits: GroupCommits) -> bytes:
    count = len(commits.entries) // ENTRY_WORDS
    content = _HEAD.pack(_MAGIC, VERSION, commits.next, count) + struct.pack(f">{len(commits.entries)}Q", *commits.entries)
    return content + _CRC.pack(zlib.crc32(content))


def parse(content: bytes) -> GroupCommits | None:
    if len(content) < _HEAD.size + _CRC.size:
        return None
    magic, version, following, count = _HEAD.unpack_from(content)
    words = count * ENTRY_WORDS
    if (magic, version) != (_MAGIC, VERSION) or len(content) != _HEAD.size + 8 * words + _CRC.size:
        return None
    if _CRC.unpack_from(content, len(content) - _CRC.size)[0] != zlib.crc32(content[: -_CRC.size]):
        return None
    return GroupCommits(following, struct.unpack_from(f">{words}Q", content, _HEAD.size))


def load(layout: StoreLayout) -> GroupCommits:
    """A file that is missing or damaged says nothing: then all records that the log still has are read. Raises: OSError."""
    try:
        return parse(layout.group_commits.read_bytes()) or GroupCommits()
    except FileNotFoundError:
        return GroupCommits()


def store(layout: StoreLayout, commits: GroupCommits) -> None:
    """Durable on return. Raises: OSError."""
    atomic_file.replace(layout.group_commits, packed(commits))
    crash_point("group_commits_stored")
