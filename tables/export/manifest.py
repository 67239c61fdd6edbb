"""The manifest of an export: what each run added, one JSON file a run. docs/export.md describes it.

A run's file appears as a whole, and with it the run has happened. Its Parquet files are in staging, and the next run puts them
in their places if the run itself did not. `state` says whether that is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from orbitmq.errors import ExportDamaged
from orbitmq.shm import finite_json

VERSIONS = (1, 2)  # 2: it removes files; earlier versions of OrbitMQ, which would count them twice, refuse it
PENDING, COMPLETE = "pending", "complete"


@dataclass(frozen=True, slots=True)
class Mark:
    """Identifies a message: its physical offset, bytes, and the CRC-32 of the head of its record."""

    physical: int
    crc: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of what was exported of a queue: the queue offset after the last message, and that message's mark if it could be
    read."""

    offset: int
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Range:
    """Messages [begin, end) of a queue, in queue offsets; the file has `rows` of them."""

    queue: int
    begin: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class Gap:
    """What retention removed before it was exported: `messages` of the queue offsets [begin, end)."""

    topic: str
    queue: int
    begin: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A Parquet file. path: relative to the export's folder; the file has the same name in staging. size: bytes."""

    path: str
    topic: str
    rows: int
    size: int
    offsets: tuple[Range, ...]


Ends = Mapping[str, Mapping[int, End]]  # by queue, by topic


@dataclass(frozen=True, slots=True)
class Run:
    """One run. began: ISO 8601. ends: of the queues that it moved. replaces: topics whose earlier files no longer count.
    removes: paths of earlier files whose rows its own have."""

    number: int
    state: str
    began: str
    store: str
    by: tuple[str, ...]
    columns: tuple[str, ...]
    replaces: tuple[str, ...]
    staging: str
    ends: Ends
    gaps: tuple[Gap, ...]
    files: tuple[ExportFile, ...]
    removes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def topics(self) -> set[str]:
        """Of which it says anything."""
        return {*self.ends, *self.replaces, *(file.topic for file in self.files), *(gap.topic for gap in self.gaps)}

    def voids(self, earlier: Run) -> bool:
        """True if the sum of the runs up to this one is the same without the earlier one."""
        return earlier.number < self.number and bool(self.replaces) and earlier.topics <= {*self.replaces}

    def completed(self) -> Run:
        return replace(self, state=COMPLETE)

    def encoded(self) -> bytes:
        content = {
            "version": 2 if self.removes else 1,
            "run": self.number,
            "state": self.state,
            "began": self.began,
            "store": self.store,
            "by": self.by,
            "columns": self.columns,
            "replaces": self.replaces,
            "staging": self.staging,
            "ends": plain_ends(self.ends),
            "gaps": [asdict(gap) for gap in self.gaps],
            "files": [plain_file(file) for file in self.files],
            **({"removes": self.removes} if self.removes else {}),
        }
        return line(content)


def decoded(path: Path, content: bytes) -> Run:
    """Raises: ExportDamaged: it cannot be understood; has .path."""
    try:
        plain = finite_json.loads(content)
        if plain["version"] not in VERSIONS:
            raise ExportDamaged(
                f"cannot read {path}: it is of version {plain['version']}, and {VERSIONS[-1]} is known",
                hint="use the OrbitMQ that wrote it, or a newer one",
                path=str(path),
            )
        return Run(
            number=int(plain["run"]),
            state=str(plain["state"]),
            began=str(plain["began"]),
            store=str(plain["store"]),
            by=tuple(plain["by"]),
            columns=tuple(plain["columns"]),
            replaces=tuple(plain["replaces"]),
            staging=str(plain["staging"]),
            ends=read_ends(plain["ends"]),
            gaps=tuple(Gap(**gap) for gap in plain["gaps"]),
            files=tuple(read_file(file) for file in plain["files"]),
            removes=tuple(plain["removes"] if plain["version"] > 1 else ()),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportDamaged(
            f"cannot read {path}: it is not what an export writes: {error}",
            hint="bring it back from a copy, or export into another folder",
            path=str(path),
        ) from None


def line(plain: object) -> bytes:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def plain_ends(ends: Ends) -> dict[str, dict[str, dict[str, int]]]:
    return {topic: {str(queue): _plain_end(end) for queue, end in each.items()} for topic, each in ends.items()}


def read_ends(plain: Mapping[str, Mapping[str, dict[str, Any]]]) -> dict[str, dict[int, End]]:
    return {topic: {int(queue): _read_end(end) for queue, end in each.items()} for topic, each in plain.items()}


def plain_file(file: ExportFile) -> dict[str, object]:
    return {
        "path": file.path,
        "topic": file.topic,
        "rows": file.rows,
        "bytes": file.size,
        "offsets": [asdict(part) for part in file.offsets],
    }


def read_file(plain: dict[str, Any]) -> ExportFile:
    offsets = tuple(Range(**part) for part in plain["offsets"])
    return ExportFile(plain["path"], plain["topic"], plain["rows"], plain["bytes"], offsets)


def _plain_end(end: End) -> dict[str, int]:
    return {"end": end.offset, **({} if end.mark is None else asdict(end.mark))}


def _read_end(plain: dict[str, Any]) -> End:
    return End(plain["end"], Mark(plain["physical"], plain["crc"]) if "physical" in plain else None)
