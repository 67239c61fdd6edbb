"""A consistent copy of a store, whether a broker runs on it or not. A backup is itself a store.

What is copied is what a power cut could have left, and recovery makes a whole store of it before it gets its name. So the order
is that in which the store's own files come to be on disk:

    1  checkpoint and positions      what they vouch for is in everything that is copied later
    2  notes and group offsets       they speak of what is in the log already
    3  the log                       to the end; what is written meanwhile may be in it or not
    4  queues and index              what leads past the log's end is removed, what is behind the checkpoint made again
    5  deletions and topics          of one moment; each topic of which log or queues have anything is known there
    6  groups

Topics are made, deleted and made again meanwhile. topics.json names a topic before the log or a folder has anything of it,
and orbitmq/purged says that it is deleted before topics.json loses it (actors/topics/purges.py). So every topic of which
steps 3 and 4 have found anything is named by one of the two files at each later moment; if it was made again, orbitmq/purged
says where the numbers of the old one end. That holds for the two files of one moment only: an old note beside a new table
would make damage of a topic that was deleted, and give the messages of the old topic to the one that was made again. Hence
both are copied last, and the copy counts if nobody has replaced orbitmq/purged meanwhile. A note that is newer than the log
is what a power cut leaves, too: purges.py lowers what it says to what is there.

What belongs to the running broker alone is left out, reput's commit too: without it recovery counts the store's end as a power
cut. docs/backup.md has the promise.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.errors import CorruptRecord, StoreFailed, StoreUnsupported
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import abort, atomic_file, positions, remake, sparse
from orbitmq.store.backup import backup_note, file_copy
from orbitmq.store.backup.backup_note import BackupNote
from orbitmq.store.backup.backup_place import BackupPlace
from orbitmq.store.file_system import disk_error
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.recover import recover
from orbitmq.store.settings.settings import StoreSettings

Progress = Callable[[int, int], object]  # bytes of files done, and of all
_TOPICS, _GROUPS = "topics.json", "subscriptionGroup.json"  # with their .bak
_MOMENTS = 1000  # how often topics and deletions are copied at most until nobody has deleted, purged or made one meanwhile


@dataclass(frozen=True, slots=True)
class Backed:
    """What a backup holds. note: what it holds of the log. copied, kept: bytes of its files that are new, and
    from the last backup. took_s: seconds that it took."""

    note: BackupNote
    copied: int
    kept: int
    took_s: float


def back_up(source: StoreLayout, folder: str | os.PathLike[str], progress: Progress = lambda done, whole: None) -> Backed:
    """Backs the store up into `folder`: one that does not exist, that is empty, or the last backup of this store, which is
    replaced when the new one is whole.

    Holds each message that was acknowledged before this call. If it fails or is killed, the last backup is as it was.
    Raises: StoreUnsupported: this is no store, or no place for its backup; StoreLocked: another backup goes there; StoreFull;
        StoreFailed; CorruptRecord: the log is damaged; has .offset.
    """
    began = time.monotonic()
    if not source.commitlog.is_dir():
        raise StoreUnsupported(
            f"cannot back up {source.root}: there is no store", hint="name the folder of a store", path=str(source.root)
        )
    if remake.pending(source):
        raise StoreUnsupported(
            f"cannot back up {source.root}: its repair is not finished",
            hint="run orbitmq repair again, or start the broker, to finish it",
            path=str(source.root),
        )
    with BackupPlace.take(source, folder) as place:
        copy = _Copy(source, place.image, place.last, source.settings(), progress)
        note = copy.run()
        place.finish()
    return Backed(note, copy.copied, copy.kept, max(time.monotonic() - began, 1e-9))


@dataclass(slots=True)
class _Copy:
    """One run. image: where the copy is made. last: the backup that it will replace."""

    source: StoreLayout
    image: StoreLayout
    last: StoreLayout | None
    settings: StoreSettings
    progress: Progress
    began_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    flushed: int = 0
    whole: int = 0
    copied: int = 0
    kept: int = 0

    def run(self) -> BackupNote:
        with self._errors():
            self._vouchers()
            crash_point("backup_vouchers_copied")
            self._notes()
            crash_point("backup_notes_copied")
            self._log()
            crash_point("backup_log_copied")
            self._small(self.source.own / "dedup")
            self._queues()
            self._files(self.source.index)
            crash_point("backup_queues_copied")
            self._topics()
            self._table(_GROUPS)
            crash_point("backup_copied")
            self.image.open(self.settings)
            report = recover(self.image, self.settings, lambda line: None)
            if report.damage is not None:
                raise CorruptRecord(
                    f"cannot back up {self.source.root}: its log is damaged at {report.damage.offset:,}: {report.damage.fault}",
                    hint="look at it with orbitmq verify, and make it whole with orbitmq repair",
                    offset=report.damage.offset,
                    path=str(self.source.root),
                )
            crash_point("backup_recovered")
            for cut in self.image.cut.iterdir():  # of the copy: the store itself lacks nothing
                shutil.rmtree(cut) if cut.is_dir() else cut.unlink()
            _sync_tree(self.image.root)
            return backup_note.store(self.image, self.source, self.began_ms, report.begin, report.end, self.flushed)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            need = max(self.whole - self.copied - self.kept, self.settings.log_file_size)
            raise disk_error(error, self.image.root, need, f"the backup of {self.source.root}") from error

    def _vouchers(self) -> None:
        self._small(self.source.checkpoint)
        self._small(self.source.positions)
        recorded = positions.load(self.image)
        if recorded is not None:
            self.flushed = recorded.flushed
            abort.create(self.image)
        else:  # another program wrote the store, and recovery goes by its signs
            self._small(self.source.abort)

    def _notes(self) -> None:
        """Group offsets and delay offsets before OrbitMQ's own notes, as their writers do it: the notes may say more."""
        for path in self._listed(self.source.config):
            if not path.name.startswith((_TOPICS, _GROUPS)) and not path.name.endswith(".tmp"):
                self._small(path)
        own = self.source
        for path in (
            own.store_json, own.settings_toml, own.retention, own.rising, own.own / "group",
            own.delayed, own.transactions, own.transaction_checks, own.group_commits, own.name_server_values,
        ):  # fmt: skip
            self._small(path)
        self._files(own.own / "spark")

    def _log(self) -> None:
        """The newest file first, because retention removes the oldest: so no file is missing between two others."""
        paths = [path for path in self._listed(self.source.commitlog) if path.name.isdigit()]
        self.whole = self.settings.log_file_size * len(paths)
        for path in reversed(paths):
            closed = int(path.name) + self.settings.log_file_size <= self.flushed
            target = self.image.commitlog / path.name
            kept = self._kept(int(path.name))
            try:
                if not closed and path != paths[0] and not _written(path):
                    self.whole -= self.settings.log_file_size
                elif closed and kept is not None and file_copy.same(kept, path):
                    os.link(kept, target)
                    self._done(kept=self.settings.log_file_size)
                else:
                    file_copy.copy(path, target, self._done, reserve=not closed)
            except FileNotFoundError:
                break
            crash_point("backup_log_file_made")

    def _kept(self, start: int) -> Path | None:
        """The last backup's copy of a file, if it was closed by then. Otherwise its time proves nothing: it may have been
        written since through a mapping, which need not change the time."""
        note = backup_note.load(self.last) if self.last is not None else None
        if self.last is None or note is None or start + self.settings.log_file_size > note.closed:
            return None
        return self.last.log_file(start)

    def _queues(self) -> None:
        for topic in self._listed(self.source.consumequeue):
            for queue in self._listed(topic):
                self._files(queue)

    def _topics(self) -> None:
        """Deletions and topics of one moment: orbitmq/purged is the same file before and after topics.json is read. It is held
        open meanwhile, so that no other file gets its number. Raises: StoreFailed."""
        for _ in range(_MOMENTS):
            with ExitStack() as held:
                before = None
                with suppress(FileNotFoundError):
                    before = os.fstat(held.enter_context(self.source.purged.open("rb")).fileno())
                self._small(self.source.purged)
                self._table(_TOPICS)
                after = None
                with suppress(FileNotFoundError):
                    after = self.source.purged.stat()
            same = before is after if before is None or after is None else os.path.samestat(before, after)
            if same:
                return
        raise StoreFailed(
            f"cannot back up {self.source.root}: a topic was deleted or purged during each of {_MOMENTS:,} tries",
            hint="back it up again, which is safe, when topics are deleted less often",
            path=str(self.source.root),
        )

    def _table(self, name: str) -> None:
        for path in (self.source.config / name, self.source.config / f"{name}.bak"):
            self._small(path)

    def _files(self, folder: Path) -> None:
        """The files of a folder and of those below it, the newest first, as for the log."""
        for path in reversed(self._listed(folder)):
            if path.is_dir():
                self._files(path)
                continue
            target = self.image.root / path.relative_to(self.source.root)
            try:
                atomic_file.make_folder(target.parent)
                file_copy.copy(path, target, lambda size: None, reserve=True)
            except FileNotFoundError:
                if path.name.isdigit():
                    break

    def _small(self, path: Path) -> None:
        """A small file, read at once; nothing if it is not there."""
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            target = self.image.root / path.relative_to(self.source.root)
            atomic_file.write_synced(target, content)
            shutil.copymode(path, target)

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _done(self, copied: int = 0, kept: int = 0) -> None:
        self.copied += copied
        self.kept += kept
        self.progress(self.copied + self.kept, self.whole)


def _written(path: Path) -> bool:
    with path.open("rb", buffering=0) as file:
        return next(sparse.nonzero_chunks(file.fileno(), 0, os.fstat(file.fileno()).st_size), None) is not None


def _sync_tree(root: Path) -> None:
    """Makes every name below the folder durable; the files' bytes are."""
    for folder, _, _ in os.walk(root):
        atomic_file.sync_folder(Path(folder))
