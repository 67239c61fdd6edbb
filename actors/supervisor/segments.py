"""The tree's segments: which there are, how large they are, and their first content. Only the supervisor makes and removes
them."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from orbitmq.actors.tree import Tree
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.file_id import FileId
from orbitmq.shm.memfd import create_memfd
from orbitmq.shm.segment import MOUNT, Segment, create_segment, require_room, segment_name
from orbitmq.shm.segment_owner import SegmentOwner
from orbitmq.store.settings.tree_settings import OWN_LANES, TreeSettings


def segment_sizes(settings: TreeSettings) -> dict[str, int]:
    """The bytes of each segment by its name's end, the lanes behind the others: what a broker takes of /dev/shm."""
    sizes = {
        "ctl": ffi.sizeof("struct control"),
        "top": lib.topics_size(settings.topic_capacity, settings.queue_capacity),
    }
    lane_parts = [f"l{lane:02}" for lane in range(settings.lanes + OWN_LANES)]
    return sizes | dict.fromkeys(lane_parts, lib.lane_size_of(settings.lane_capacity))


class Segments:
    """All segments of one generation, mapped into this process. A fork inherits the mappings.

    Clients may write the wake words, so these are a sealed memfd without a name. Any client could truncate a file in /dev/shm,
    and the next touch of it would kill every actor.

    Raises: StoreFull: /dev/shm has no room; whatever was made is removed again.
    """

    def __init__(self, settings: TreeSettings, generation: int, core_settings: Any, owner: SegmentOwner | None = None) -> None:
        self.generation = generation
        self._sign = None if owner is None else owner.sign
        self._made: list[tuple[Segment, FileId]] = []
        sizes = segment_sizes(settings)
        # The whole need at once: the first segments must not take what the last ones lack, and the error names all of it.
        require_room(sum(sizes.values()), "the broker's segments")
        try:
            # Clients map the first two; only the actors map lanes.
            groups = {"ctl": settings.group, "top": settings.group}
            memory = {part: self._make(part, size, groups.get(part)) for part, size in sizes.items()}
            self.wake_memfd = create_memfd("omq-wake", ffi.sizeof("struct wake"))
        except BaseException:
            self.remove()
            raise
        self._wake = mmap.mmap(self.wake_memfd, ffi.sizeof("struct wake"))
        self.control = ffi.cast("struct control *", memory["ctl"])
        self.topics = ffi.cast("struct topics *", memory["top"])
        self.wake = ffi.cast("struct wake *", ffi.from_buffer(self._wake, require_writable=True))
        self.lanes = [ffi.cast("struct lane *", memory[part]) for part in memory if part not in groups]
        lib.control_init(self.control, core_settings, generation)
        lib.topics_init(self.topics, settings.topic_capacity, settings.queue_capacity, generation)
        lib.wake_init(self.wake, generation)
        for lane in self.lanes:
            lib.lane_init(lane, settings.lane_capacity, generation)

    def tree(self, settings: TreeSettings, supervisor_pid: int) -> Tree:
        tree = Tree(settings, self.generation, self.control, self.topics, self.wake, self.lanes, supervisor_pid)
        tree.wake_memfd = self.wake_memfd
        return tree

    def missing(self) -> Path | None:
        """The path of a segment whose name is gone."""
        for segment, file in self._made:
            path = MOUNT / segment.name
            try:
                if FileId.of(path) != file:
                    return path
            except FileNotFoundError:
                return path
        return None

    def remove(self) -> None:
        """Unlinks the names. The mappings stay until the process ends, because pointers into them exist."""
        for segment, _ in self._made:
            segment.unlink()

    def _make(self, part: str, size: int, group: int | None) -> Any:
        segment = create_segment(segment_name(self.generation, part), size, group, self._sign)
        self._made.append((segment, FileId.of(MOUNT / segment.name)))
        crash_point("segments_made_one")
        return segment.pointer
