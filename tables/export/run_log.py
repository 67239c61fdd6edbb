"""What an export keeps about its runs, in the order in which they happened:

    _orbitmq/runs/000001.json     a manifest for each run (export/manifest.py)
             checkpoint           their sum up to one of them (export/checkpoint.py)

A run reads the checkpoint and the manifests after it. Every EVERY manifests it writes a new checkpoint, in the place of the old
one. Manifests stay: without a checkpoint that is whole and belongs to them, they say the same.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from pathlib import Path

from orbitmq.errors import ExportDamaged
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.tables.export import checkpoint as export_checkpoint
from orbitmq.tables.export import manifest as export_manifest
from orbitmq.tables.export.checkpoint import CheckpointError
from orbitmq.tables.export.manifest import Run
from orbitmq.tables.export.state import Base, State

EVERY = 64  # most manifests that a run reads: a checkpoint costs as much as all files are long

_logger = logging.getLogger("orbitmq")


class RunLog:
    """own: the folder `_orbitmq`. Reading needs no lock."""

    def __init__(self, own: Path) -> None:
        self._runs = own / "runs"
        self._checkpoint = own / "checkpoint"

    def make(self) -> None:
        self._runs.mkdir(parents=True, exist_ok=True)

    def all(self) -> list[Run]:
        """Whatever the checkpoint says. Raises: ExportDamaged."""
        return [self._decoded(number, path.read_bytes()) for number, path in self._paths().items()]

    def state(self) -> State:
        """The sum of all runs. Raises: ExportDamaged."""
        while True:
            try:
                base = self._base()
                since = 0 if base is None else base.run.number
                paths = {number: path for number, path in self._paths().items() if number > since}
                return State.of([self._decoded(number, path.read_bytes()) for number, path in paths.items()], base)
            except FileNotFoundError:  # a run that replaces everything has removed manifests meanwhile
                continue

    def find(self, number: int) -> Run | None:
        """Raises: ExportDamaged."""
        try:
            return self._decoded(number, self._manifest(number).read_bytes())
        except FileNotFoundError:
            return None

    def put(self, run: Run) -> None:
        """Writes the run's manifest, durably. Raises: OSError."""
        atomic_file.replace(self._manifest(run.number), run.encoded())

    def drop(self, run: Run) -> None:
        self._manifest(run.number).unlink(missing_ok=True)

    def clean(self, state: State) -> None:
        """Removes what killed runs have left, and writes a checkpoint if it is time. state: the sum of all runs, which are
        complete. Needs the lock. Raises: OSError."""
        for stale in (*self._runs.glob("*.tmp"), self._checkpoint.with_name(self._checkpoint.name + ".tmp")):
            stale.unlink(missing_ok=True)
        useless = state.base is None and self._checkpoint.exists()
        if state.run is None or (len(state.since) < EVERY and not useless):
            return
        with contextlib.suppress(OSError):  # it only saves time; what is left of it the next run removes
            content = export_checkpoint.encoded(state, self._manifest(state.run.number).read_bytes())
            crash_point("export_run_log_summed")
            atomic_file.replace(self._checkpoint, content)

    def _base(self) -> Base | None:
        try:
            found = export_checkpoint.decoded(self._checkpoint.read_bytes())
            content = self._manifest(found.run).read_bytes()
            if zlib.crc32(content) != found.manifest:
                raise CheckpointError(f"the manifest of run {found.run} has changed since")
            return Base(self._decoded(found.run, content), found.ends, found.gaps, found.files)
        except FileNotFoundError:  # there is none, or a run that replaced everything has removed what is in it
            return None
        except (OSError, CheckpointError) as error:
            _logger.warning("cannot use %s: %s; the manifests of all runs are read instead", self._checkpoint, error)
            return None

    def _paths(self) -> dict[int, Path]:
        """The manifests, by the numbers of their runs, in order."""
        if not self._runs.is_dir():
            return {}
        found = {int(path.stem): path for path in self._runs.iterdir() if path.suffix == ".json" and path.stem.isdecimal()}
        return dict(sorted(found.items()))

    def _decoded(self, number: int, content: bytes) -> Run:
        path = self._manifest(number)
        run = export_manifest.decoded(path, content)
        if run.number != number:
            raise ExportDamaged(
                f"cannot read {path}: it is the manifest of run {run.number}",
                hint="bring it back from a copy, or export into another folder",
                path=str(path),
            )
        return run

    def _manifest(self, number: int) -> Path:
        return self._runs / f"{number:06d}.json"
