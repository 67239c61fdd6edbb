"""What recovery passes to the supervisor, and tells the user and verify. Everything is frozen and can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from orbitmq.store.note import Note
from orbitmq.store.recovery.table import Ending


class QueueState(NamedTuple):
    """One queue. Units [min_offset, max_offset) are in its ConsumeQueue. The next message gets next_offset, which is larger
    while reput has not caught up. physical_end: end of the newest indexed record, 0 if there is none."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    next_offset: int
    physical_end: int


class Cut(NamedTuple):
    """Bytes taken out of the log. size: from offset to the last byte that was not zero. path: where they are now; None if they
    were not kept (beyond the limit) and `why` says so."""

    offset: int
    size: int
    why: str
    path: str | None


class Damage(NamedTuple):
    """Bytes below the recorded flushed position that are not what was written there."""

    offset: int
    fault: str
    path: str


class Lowered(NamedTuple):
    """A group's offset that pointed past the end of its queue."""

    topic: str
    group: str
    queue: int
    before: int
    after: int


class RecoveryReport(NamedTuple):
    """A store that is ready to be opened. Offsets and positions are physical, bytes.

    begin, end: of the log; everything in between is on disk (flushed == end) unless read_only.
    reput: where indexing starts; queues may be read below it. Always <= end.
    rising_from: no record at or behind this physical offset is followed by one with an earlier store timestamp.
    last_store_ms: no record has a later store timestamp; the writer continues from there.
    allocated: end of the last CommitLog file that exists.
    notes: other things a user should know.
    missing_topics: (topic, queues) that the log or the queues know and topics.json does not.
    """

    ending: Ending
    begin: int
    end: int
    flushed: int
    reput: int
    allocated: int
    last_store_ms: int
    rising_from: int
    scanned_from: int
    records: int
    queues: tuple[QueueState, ...]
    missing_topics: tuple[tuple[str, int], ...]
    cuts: tuple[Cut, ...]
    lowered: tuple[Lowered, ...]
    notes: tuple[Note, ...]
    removed_index_files: tuple[str, ...]
    damage: Damage | None
    read_only: bool
    took_ms: int

    def lines(self) -> list[str]:
        """What a user should know, a sentence each. The first one is always there."""
        said = [
            f"{self.ending.value}; read {self.records:,} records from {self.scanned_from:,} to {self.end:,} "
            f"in {self.took_ms:,} ms"
        ]
        if self.damage is not None:
            said.append(
                f"the log is damaged at {self.damage.offset:,}, where it was on disk already ({self.damage.path}): "
                f"the record there {self.damage.fault}; the store is open for reading only until it is repaired"
            )
        for cut in self.cuts:
            kept = f"kept in {cut.path}" if cut.path else "not kept"
            said.append(f"cut {cut.size:,} bytes at {cut.offset:,} out of the log: {cut.why}; {kept}")
        if self.removed_index_files:
            said.append(f"removed {len(self.removed_index_files)} index files that may be torn; they are built again")
        if self.missing_topics:
            names = ", ".join(topic for topic, _ in self.missing_topics[:5])
            said.append(f"found {len(self.missing_topics)} topics that topics.json does not know: {names}")
        said += [note.text for note in self.notes]
        for one in self.lowered:
            said.append(f"lowered the offset of {one.group} in {one.topic}/{one.queue} from {one.before:,} to {one.after:,}")
        return said


@dataclass(frozen=True, slots=True)
class NextStart:
    """The physical offset at which the next start will begin to index again, and the index files that it will keep (None:
    all)."""

    reput: int
    index: tuple[Path, ...] | None
