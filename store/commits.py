"""Takes the commits of a tree that has ended into config/consumerOffset.json: after its stop, or at the start after its death.

    1  every member's words are closed     nobody's commit returns from here on
    2  words and memory are read, and the result is made durable in consumerOffset.json
    3  the memory is removed, then the words  as long as they exist, this is done again, with the same result

A word counts only with the epoch of the assignment that says which queue it belongs to, as while the tree runs. After another
boot of the machine nothing of it is believed: what was not synced may be old, or gone, file by file. In that case, and if
consumerOffset.json is not one that the tree has written, the groups continue where that file says.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import atomic_file, commit_words, config, positions
from orbitmq.store.group_memory import GroupMemory, Remembered
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note

Ends = Callable[[QueueKey], int | None]


class Settled(NamedTuple):
    """taken: group offsets that consumerOffset.json did not have. notes: what a user should know, a sentence each."""

    taken: int = 0
    notes: tuple[Note, ...] = ()


def settle(layout: StoreLayout, ends: Ends | None = None) -> Settled:
    """Called when only members can still write there. ends: of each queue, if they are known; a word past the end does not
    count. The caller, or the next recovery, lowers offsets that point past the log.

    Raises: OSError: consumerOffset.json could not be written; StoreFailed: it cannot be read.
    """
    files = commit_words.files(layout)
    memory = GroupMemory(layout)
    if not files and not memory.exists():
        return Settled()
    for path in files:
        with suppress(OSError):  # it is looked at below
            commit_words.close(path)
    crash_point("commits_closed")
    offsets, crc = config.load_offsets_with_crc(layout)
    notes: list[Note] = []
    taken = 0
    remembered = memory.load()
    # Words without a memory: either the removal was interrupted after the memory, or no group had begun yet.
    if memory.begun() and _counts(layout, remembered, crc, notes):
        assert remembered is not None
        taken = _take(layout, remembered, offsets, ends, notes)
        if taken:
            # A start that is killed after the next line finds a consumerOffset.json that it knows.
            after = config.offsets_crc(offsets)
            memory.write(Remembered(remembered.generation, remembered.boot, (*remembered.vouched, after), remembered.groups))
            config.store_offsets(layout, offsets)
    crash_point("commits_stored")
    memory.remove()
    for path in files:
        path.unlink(missing_ok=True)
        crash_point("commits_removed")
    atomic_file.sync_folder(layout.commits)
    return Settled(taken, tuple(notes))


def _counts(layout: StoreLayout, remembered: Remembered | None, crc: int, notes: list[Note]) -> bool:
    """True if the tree's memory says where its groups are; else a note says why not."""
    file = layout.config / config.OFFSETS
    why = None
    lost = ""
    if remembered is None:
        why = f"the files {layout.commits}/groups-* cannot be read"
        lost = f"{layout.commits.relative_to(layout.root)}/groups-*"
    elif remembered.boot != positions.boot_id():
        why = "the machine has been started since"
    elif crc not in remembered.vouched:
        why = "somebody else has changed the file since"
    if why is not None:
        text = f"commits that the last broker had not written to {file} do not count"
        notes.append(Note(f"{text}: {why}; groups go on where that file says", lost))
    return why is None


def _take(layout: StoreLayout, remembered: Remembered, offsets: config.Offsets, ends: Ends | None, notes: list[Note]) -> int:
    """Brings `offsets` up to date. Returns how many have changed."""
    taken = 0

    def put(group: str, topic: str, queue: int, offset: int) -> None:
        nonlocal taken
        queues = offsets.setdefault((topic, group), {})
        if queues.get(queue) != offset:
            queues[queue] = offset
            taken += 1

    for name, entry in remembered.groups.items():
        for topic, queue, offset in entry["offsets"]:
            put(name, topic, queue, offset)
        group = entry.get("group", {"epoch": 0, "assigned": {}})
        for member, queues in group["assigned"].items():
            try:
                words = commit_words.read(layout.commits / member, len(queues))
            except (OSError, ValueError) as error:
                text = f"the commits of a member of {name} cannot be read, {layout.commits / member} {error}"
                notes.append(Note(f"{text}; its queues go on where they were shared out last, or written"))
                continue
            for (topic, queue), (epoch, offset) in zip(queues, words, strict=True):
                end = ends((topic, queue)) if ends is not None else None
                if epoch == group["epoch"] & 0xFFFF and (end is None or offset <= end):
                    put(name, topic, queue, offset)
    return taken
