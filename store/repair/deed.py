"""What a repair does about each finding, in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.config import ConfigDeed
from orbitmq.store.repair.log import is_log_file
from orbitmq.store.verify.findings import Finding, Kind

OF_LOG = frozenset({Kind.LOG_RECORD, Kind.LOG_UNREADABLE, Kind.LOG_SHORT})
_OF_INDEX = frozenset(kind for kind in Kind if kind.startswith("index-"))


@dataclass(frozen=True, slots=True)
class Deeds:
    """One repair, as it is planned.

    cut_at: where the log would end, or begins to be damaged. filling: an earlier repair has begun to fill.
    markers: places where only a blank marker is damaged. renumbered: right queue offsets by place.
    explained: gaps of queues that a renumbered record fills.
    """

    cut_folder: Path
    log_file_size: int
    choice: Choice
    undecided: bool
    cut_at: int | None
    filling: bool
    markers: Collection[int]
    renumbered: Mapping[int, int]
    explained: Sequence[Finding]
    config: Sequence[ConfigDeed]

    def of(self, finding: Finding) -> str:
        """What is done about one finding, in a sentence."""
        if finding.kind is Kind.COMMITS:
            return "groups go on where consumerOffset.json says" if finding.damage else "the next start removes it"
        if not finding.damage:
            return "recovery cuts it off and keeps it, as at the start of a broker"
        kind, path = finding.kind, Path(finding.path)
        if kind is Kind.CONFIG and not self.undecided:
            return next((deed.text for deed in self.config if deed.path == path), "is put right with the others")
        if kind is Kind.LOG_FILE:
            return self._deed_of_log_file(path)
        if kind in OF_LOG or kind in (Kind.MESSAGE_LOST, Kind.QUEUE_GAP, Kind.QUEUE_OFFSET):
            return self._deed_of_log(finding)
        if kind in _OF_INDEX:
            text = "the index is made anew from the log"
        elif kind is Kind.QUEUE_FILE and path.exists() and not path.name.isdecimal():
            text = f"goes to {self.cut_folder}"
        else:
            text = (
                "the queue is made anew from the log"
                if finding.topic is not None or kind is Kind.QUEUE_FILE
                else "is made anew"
            )
        return text + ("; not before the log is whole" if self.undecided else "")

    def _deed_of_log(self, finding: Finding) -> str:
        return self._deed_without_loss(finding) or self._deed_by_choice(finding)

    def _deed_without_loss(self, finding: Finding) -> str | None:
        if finding.kind is Kind.QUEUE_OFFSET and finding.offset in self.renumbered:
            return "the record gets the queue offset that is due"
        if finding in self.explained:
            return "a record gets this queue offset"
        if finding.kind in OF_LOG and finding.offset in self.markers:
            return "the blank marker at the end of the file is written anew; nothing is lost"
        return None

    def _deed_by_choice(self, finding: Finding) -> str:
        if self.filling:
            return "what an interrupted repair has begun to fill is finished first"
        lost = finding.kind is Kind.MESSAGE_LOST
        if self.choice is Choice.CUT:
            return "stays lost" if lost else f"the log ends at {self.cut_at:,}"
        if finding.kind is Kind.QUEUE_GAP:
            return "only a cut helps: the log has no bytes in which something could stand in for them"
        if self.choice is Choice.NONE:
            return "needs a choice: skip or cut"
        if lost:
            return "stand-ins keep their places in the queue, and consumers pass over them"
        return "kept under orbitmq/cut, and filled with records that nobody gets"

    def _deed_of_log_file(self, path: Path) -> str:
        if not is_log_file(path.name, self.log_file_size):
            return f"goes to {self.cut_folder}"
        if not path.exists():
            if self.choice is Choice.CUT and self.cut_at is not None:
                return f"the log ends at {self.cut_at:,}"
            if self.undecided:
                return "needs a choice: skip or cut"
            return "is made anew, without what was in it, if the log reaches so far"
        return "gets its size; what it had too much is kept" if self.choice is not Choice.CUT else "gets its size, if it stays"
