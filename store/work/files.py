"""What workers have done: the files orbitmq/workers/<group>/<topic>.<queue> (native/shared/work_file.h draws one). The
coordinator makes them, the dispatcher writes them, and both the coordinator and a start read their floors.

The floor is the group's offset, so it is written to consumerOffset.json from time to time; `told` is the newest floor that the
file is certain to have had. If an offset there lies between the two, it is only behind. If it is lower, somebody else has set
the group back, and if it is higher, somebody else has consumed, or the machine was started again: then the offset counts, and
not the file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import config, positions
from orbitmq.store.layout import StoreLayout

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MAGIC = lib.WORK_MAGIC
_HEAD: int = ffi.offsetof("struct work_file", "told") + 8
_TOLD: int = ffi.offsetof("struct work_file", "told")
_OPENING: int = ffi.offsetof("struct work_file", "opening")
_LOOKS = 3


class Floor(NamedTuple):
    """floor, frontier: queue offsets; told: see above. boot: of the machine, when the file was used last."""

    floor: int
    frontier: int
    told: int
    boot: bytes


class Left(NamedTuple):
    """floor: the first message that is not done, which the file's own floor may not have reached yet; unsettled: messages are
    in hand still, or on their way to be retries or dead letters."""

    floor: int
    unsettled: bool


def path_of(layout: StoreLayout, group: str, queue: QueueKey) -> Path:
    return layout.work / group / f"{queue[0]}.{queue[1]}"


def make(layout: StoreLayout, group: str, queues: Collection[QueueKey]) -> None:
    """Makes sure that each queue has its file, reserved whole. Raises: OSError: some have none; those that were made stay,
    unused."""
    (layout.work / group).mkdir(exist_ok=True)
    for queue in queues:
        _reserve(path_of(layout, group, queue), lib.WORK_FILE_SIZE)
        crash_point("work_files_made")


def renew(layout: StoreLayout, group: str, queue: QueueKey, opening: int) -> None:
    """Another file in the place of the queue's, which says nothing but its opening. Raises: OSError: nothing has changed."""
    path = path_of(layout, group, queue)
    fresh = path.with_name(f"{path.name}.new")
    try:
        _reserve(fresh, lib.WORK_FILE_SIZE)
        _write(fresh, _OPENING, opening)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
    crash_point("work_files_renewed")


def renewed(path: Path) -> int:
    """The opening of a file that was renewed, and that the dispatcher has not opened; else 0."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        data = file.read(_HEAD)
        if len(data) == _HEAD and not any(data[: ffi.sizeof("uint64_t")]):
            return int.from_bytes(data[_OPENING : _OPENING + 8], "little")
    return 0


def make_retries(layout: StoreLayout) -> None:
    """Makes sure of the file orbitmq/retries (native/shared/work_partings.h), reserved whole. Raises: OSError."""
    _reserve(layout.retries, lib.WORK_PARTINGS_SIZE)
    crash_point("work_files_retries_made")


def _reserve(path: Path, size: int) -> None:
    descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o666)
    try:
        if os.fstat(descriptor).st_size < size:
            os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


def read(path: Path) -> Floor | None:
    """None: the file is gone, or was not used yet."""
    try:
        with path.open("rb") as file:
            data = file.read(_HEAD)
    except FileNotFoundError:
        return None
    if len(data) < _HEAD:
        return None
    head = ffi.new("struct work_file *")
    ffi.memmove(head, data, _HEAD)
    if head.magic != _MAGIC:
        return None
    return Floor(int(lib.work_file_floor(head)), int(lib.work_file_frontier(head)), int(head.told), bytes(head.boot))


def left(path: Path, looks: int = _LOOKS) -> Left | None:
    """What a group whose workers have all ended has left. looks: how often, at a file that changes. None: as `read`."""
    found = read(path)
    if found is None:
        return None
    if found.floor >= found.frontier:
        return Left(found.floor, False)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) >= lib.WORK_FILE_SIZE and read(path) == found:  # the words below a floor that has risen say nothing
        return Left(int(lib.work_file_reached(ffi.from_buffer(data))), bool(lib.work_file_unsettled(ffi.from_buffer(data))))
    return left(path, looks - 1) if looks > 1 else Left(found.floor, True)


def tell(path: Path, floor: int) -> None:
    """consumerOffset.json has had this floor. Raises: OSError."""
    _write(path, _TOLD, floor)
    crash_point("work_files_told")


def _write(path: Path, at: int, number: int) -> None:
    descriptor = os.open(path, _FLAGS)
    try:
        os.pwrite(descriptor, number.to_bytes(8, "little"), at)
    finally:
        os.close(descriptor)


def groups(layout: StoreLayout) -> list[str]:
    return sorted(path.name for path in layout.work.iterdir() if path.is_dir()) if layout.work.is_dir() else []


def of_group(layout: StoreLayout, group: str) -> Iterator[tuple[QueueKey, Path]]:
    folder = layout.work / group
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        topic, _, queue = path.name.rpartition(".")
        if topic and queue.isdigit():
            yield (topic, int(queue)), path


def remove(layout: StoreLayout, group: str) -> None:
    """The group goes on where its offsets say. Raises: OSError."""
    if (layout.work / group).is_dir():
        import shutil  # here: it brings compressors with it

        shutil.rmtree(layout.work / group)
        crash_point("work_files_removed")


def trim(layout: StoreLayout, ends: Mapping[QueueKey, int]) -> None:
    """After a recovery that has cut the log: a file that knows of messages behind its queue's end does not count. Raises:
    OSError."""
    for name in groups(layout):
        for queue, path in of_group(layout, name):
            found = read(path)
            if found is not None and found.frontier > ends.get(queue, 0):
                path.unlink()


def keep_only(layout: StoreLayout, topics: Collection[str]) -> None:
    """Removes the files of topics that do not exist any more. Called while no dispatcher runs. Raises: OSError."""
    for name in groups(layout):
        for (topic, _), path in of_group(layout, name):
            if topic not in topics:
                path.unlink()
        with suppress(OSError):  # it is not empty
            (layout.work / name).rmdir()


def floors(layout: StoreLayout, group: str, offsets: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
    """For each of the group's queues whose file counts: where the group is. offsets: where consumerOffset.json says it is."""
    boot = positions.boot_id()
    found = {}
    for queue, path in of_group(layout, group):
        floor, before = read(path), offsets.get(queue)
        # An offset that was never written counts as 0; if it had been written, somebody has removed the group.
        known = floor is not None and floor.boot == boot and (before is not None or not floor.told)
        if floor is not None and known and floor.told <= (before or 0) <= floor.floor:
            found[queue] = floor.floor
    return found


def settle(layout: StoreLayout) -> int:
    """Brings the offsets in consumerOffset.json up to the floors. Called while no dispatcher runs. Returns how many changed.

    Raises: OSError: the file could not be written; StoreFailed: it cannot be read.
    """
    names = groups(layout)
    if not names:
        return 0
    offsets = config.load_offsets(layout)
    found: dict[Path, int] = {}
    taken = 0
    for name in names:
        mine = {topic: queues for (topic, group), queues in offsets.items() if group == name}
        before = {(topic, queue): offset for topic, queues in mine.items() for queue, offset in queues.items()}
        for (topic, queue), floor in floors(layout, name, before).items():
            found[path_of(layout, name, (topic, queue))] = floor
            if before.get((topic, queue)) != floor:
                offsets.setdefault((topic, name), {})[queue] = floor
                taken += 1
    if taken:
        config.store_offsets(layout, offsets)
        crash_point("work_files_settled")
    for path, floor in found.items():
        tell(path, floor)
    return taken


def tell_all(layout: StoreLayout, stored: Mapping[tuple[str, str], Mapping[int, int]], names: Collection[str]) -> None:
    """consumerOffset.json has this content now, as far as it is about these groups."""
    for (topic, group), queues in stored.items():
        for queue, offset in queues.items() if group in names else ():
            path = path_of(layout, group, (topic, queue))
            found = read(path)
            if found is not None and found.told < offset <= found.floor:
                tell(path, offset)
