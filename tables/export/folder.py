"""The folder of an export. A run gets into it as a whole or not at all, whenever it is killed.

    <out>/topic=<t>/day=<d>/part-*.parquet     what readers see
          _orbitmq/lock                        held by the current run; released when its process dies
                   runs/, checkpoint           what the runs have done (export/run_log.py)
                   staging/<run>/              Parquet files of one run that are being written

Spark and Arrow ignore names that begin with an underscore. A run takes these steps:

| step | killed after it |
| --- | --- |
| tasks write and sync files in staging | no manifest names them: the next run removes them, and exports the same messages |
| the run's manifest is put in place, durably, as pending | the run has happened: the next one continues below |
| files of topics that it replaces are removed | done again; what is gone is gone |
| its files are renamed into their places | done again; a file that is no longer in staging is in its place |
| manifests of which it leaves nothing are removed | done again; the others have the same sum |
| the manifest says complete; the run's staging is removed | nothing, or the staging is left to remove |

A run that makes large files of small ones changes folders as a whole instead (export/swap.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from orbitmq.errors import ExportBusy, ExportDamaged, ExportDiffers, ExportFailed, SettingError
from orbitmq.errors.remedy import Hint, hint
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.disk_fault import said, way_out
from orbitmq.store import atomic_file
from orbitmq.tables.export import swap
from orbitmq.tables.export.manifest import COMPLETE, ExportFile, Run
from orbitmq.tables.export.run_log import RunLog
from orbitmq.tables.export.state import State

OWN = "_orbitmq"


class ExportFolder:
    """One export's folder. `State`, runs and files may be read without the lock; every change needs it."""

    def __init__(self, out: str | Path) -> None:
        """Raises: SettingError: not a path of this machine's file system."""
        text = str(out)
        if "://" in text:
            raise SettingError(
                f"cannot export to {text!r}: it is a URL",
                hint="give a folder that all machines of the cluster see under the same path",
                name="out",
                value=text,
            )
        self.root = Path(os.path.realpath(Path(text.removeprefix("file:")).expanduser()))
        self._own = self.root / OWN
        self._log = RunLog(self._own)
        self._staging = self._own / "staging"
        self._lock: int | None = None

    def check_apart(self, store: Path) -> None:
        """Raises: SettingError: the folder is the store, or is in it."""
        if store == self.root or store in self.root.parents:
            raise SettingError(
                f"cannot export to {self.root}: it lies in the store {store}",
                hint="choose a folder outside of the store",
                name="out",
                value=str(self.root),
            )

    def lock(self) -> None:
        """Makes the folder if need be, and keeps other exports out. Raises: ExportBusy: has .holder; ExportFailed."""
        try:
            self._log.make()
            self._staging.mkdir(exist_ok=True)
            descriptor = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise failed(f"cannot export to {self.root}", error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise ExportBusy(
                f"cannot export to {self.root}: another export is at work there{f', {holder}' if holder else ''}",
                hint="wait until it has ended",
                path=str(self.root),
                holder=holder,
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise failed(f"cannot lock {self._own / 'lock'}", error) from error
        os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):  # for people only
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def runs(self) -> list[Run]:
        """In their order. Raises: ExportDamaged."""
        return self._log.all()

    def state(self) -> State:
        """The sum of all runs. Raises: ExportDamaged."""
        return self._log.state()

    def settle(self) -> tuple[State, int]:
        """Completes the run that was killed in the middle, if there is one, and removes what others left behind. Returns the
        state after that, and how many messages were put in their places now. Raises: ExportDamaged, ExportDiffers,
        ExportFailed."""
        found = self.state()
        state, settled = State.of((), found.base), 0
        try:
            for run in found.since:
                if run.state != COMPLETE:
                    self._finish(run, state)
                    settled += 0 if run.removes else run.rows
                state.add(run)
            for stale in self._staging.iterdir():
                _remove(stale)
            self._log.clean(state)
        except OSError as error:
            raise failed(f"cannot finish the last export to {self.root}", error) from error
        if state.run is None:
            self._refuse_strangers()
        return state, settled

    def stage(self, name: str) -> Path:
        """A new folder for the files of a run. Raises: ExportFailed."""
        path = self._staging / name
        try:
            path.mkdir()
        except OSError as error:
            raise failed(f"cannot export to {self.root}", error) from error
        crash_point("export_folder_opened")
        return path

    def abandon(self, number: int, name: str) -> None:
        """Removes a run's staging unless its manifest exists: then the next run completes it."""
        with contextlib.suppress(OSError, ExportDamaged):
            run = self._log.find(number)
            if run is None or run.staging != name:
                _remove(self._staging / name)

    def commit(self, run: Run, before: State) -> None:
        """Makes a staged run happen. The files' contents are durable already. before: the earlier state. Raises:
        ExportFailed."""
        try:
            atomic_file.sync_folder(self._staging / run.staging)
            atomic_file.sync_folder(self._staging)
            crash_point("export_folder_staged")
            self._log.put(run)
            for folder in (self._own, self.root, self.root.parent):
                atomic_file.sync_folder(folder)
            crash_point("export_folder_committed")
            self._finish(run, before)
        except OSError as error:
            raise failed(f"cannot export to {self.root}", error) from error

    def _finish(self, run: Run, before: State) -> None:
        """Turns a pending run into a complete one; may begin in the middle."""
        if run.removes:
            self._swap(run)
        else:
            self._move_in(run, before)
        self._log.put(run.completed())
        crash_point("export_folder_completed")
        _remove(self._staging / run.staging)
        crash_point("export_folder_cleaned")

    def _swap(self, run: Run) -> None:
        """Puts the run's files into the places of those that it removes, folder by folder."""
        places = swap.places(self._staging / run.staging, [str(Path(file.path).parent) for file in run.files])
        for file in run.files:
            folder = str(Path(file.path).parent)
            if not swap.swap(self.root / folder, places[folder], Path(file.path).name):
                raise self._nowhere(run, file)

    def _move_in(self, run: Run, before: State) -> None:
        folders: set[Path] = set()
        for file in before.files if run.replaces else ():
            if file.topic in run.replaces:
                folders.add(self._take_out(file))
                crash_point("export_folder_removed")
        staging = self._staging / run.staging
        for file in run.files:
            target = self.root / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                (staging / target.name).rename(target)
            except FileNotFoundError:
                if not target.exists():
                    raise self._nowhere(run, file) from None
            crash_point("export_folder_renamed")
            folders.update(parent for parent in target.parents if parent == self.root or self.root in parent.parents)
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):  # the last file was taken out of it; the folder above is synced
                atomic_file.sync_folder(folder)
        self._drop_void(run)

    def _nowhere(self, run: Run, file: ExportFile) -> ExportDamaged:
        target = self.root / file.path
        return ExportDamaged(
            f"cannot finish run {run.number} of the export to {self.root}: {file.path} is neither in its place nor "
            f"in {self._staging / run.staging}",
            hint=hint("export again with {full=True}"),
            path=str(target),
        )

    def _take_out(self, file: ExportFile) -> Path:
        """Removes a file that readers see, and the folders that become empty. Returns the folder in which names went."""
        target = self.root / file.path
        target.unlink(missing_ok=True)
        for changed in target.parents:
            try:
                if changed == self.root:
                    break
                changed.rmdir()
            except FileNotFoundError:  # it went before a kill
                continue
            except OSError:
                break
        return changed

    def _drop_void(self, run: Run) -> None:
        """Removes the manifests of earlier runs of which nothing is left because this one replaces it."""
        for earlier in self.runs() if run.replaces else ():
            if run.voids(earlier):
                self._log.drop(earlier)
                crash_point("export_folder_dropped")

    def _refuse_strangers(self) -> None:
        """Readers would take other Parquet files for the export's."""
        for stranger in _visible_parquet(self.root):
            raise ExportDiffers(
                f"cannot export to {self.root}: it holds Parquet files that no manifest names, such as {stranger}",
                hint="choose another folder, or move them away",
                path=str(stranger),
            )


def failed(what: str, error: OSError) -> ExportFailed:
    """The error for a file that could not be written."""
    return ExportFailed(
        f"{what}: {said(error)}",
        hint=(way_out(error) or Hint(())).assuring("nothing of this run is seen, and exporting again is safe"),
        errno=error.errno,
        path=None if error.filename is None else os.fsdecode(error.filename),
    )


def _visible_parquet(root: Path) -> Iterable[Path]:
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith(("_", "."))]
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".parquet"))


def _remove(path: Path) -> None:
    """A stray folder or file. A task of a killed run may still be writing there; then the next run removes the rest."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
