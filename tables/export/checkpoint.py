"""The checkpoint of an export: the sum of its runs up to one of them, so that the next run need not read their manifests.

The first line says what the others are, the second has the state, and each further line has a file:

    {"version":1,"crc":<CRC-32 of all further bytes>}
    {"run":<number>,"manifest":<CRC-32 of that run's manifest>,"ends":...,"gaps":...}
    {"path":...}

It is only a shortcut. If it is missing, damaged or belongs to other manifests, the manifests are read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from orbitmq.shm import finite_json
from orbitmq.tables.export import manifest as export_manifest
from orbitmq.tables.export.manifest import End, ExportFile, Gap
from orbitmq.tables.export.state import State

VERSION = 1


class CheckpointError(Exception):
    """Says why. Never leaves the package: the manifests are read instead."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """run: number of the newest run in it. manifest: CRC-32 of that run's manifest. files: reads them, which takes longer than
    all the rest."""

    run: int
    manifest: int
    ends: Mapping[str, Mapping[int, End]]
    gaps: Sequence[Gap]
    files: Callable[[], list[ExportFile]]


def encoded(state: State, manifest: bytes) -> bytes:
    """manifest: content of the newest run's, which is complete."""
    assert state.run is not None
    head = {
        "run": state.run.number,
        "manifest": zlib.crc32(manifest),
        "ends": export_manifest.plain_ends(state.ends),
        "gaps": [asdict(gap) for gap in state.gaps],
    }
    rest = b"".join(export_manifest.line(each) for each in [head, *map(export_manifest.plain_file, state.files)])
    return export_manifest.line({"version": VERSION, "crc": zlib.crc32(rest)}) + rest


def decoded(content: bytes) -> Checkpoint:
    """Raises: CheckpointError."""
    first, _, rest = content.partition(b"\n")
    try:
        told = finite_json.loads(first)
        if told["version"] != VERSION:
            raise CheckpointError(f"it is of version {told['version']}, and {VERSION} is known")
        if told["crc"] != zlib.crc32(rest):
            raise CheckpointError("its checksum is wrong")
        head = finite_json.loads(rest.partition(b"\n")[0])
        ends, gaps = export_manifest.read_ends(head["ends"]), [Gap(**gap) for gap in head["gaps"]]
        return Checkpoint(int(head["run"]), int(head["manifest"]), ends, gaps, partial(_files, rest))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"it is not what an export writes: {error}") from None


def _files(rest: bytes) -> list[ExportFile]:
    return [export_manifest.read_file(json.loads(each)) for each in rest.split(b"\n")[1:-1]]
