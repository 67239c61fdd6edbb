"""The paths in a store, and what kind of store it is.

    <root>/commitlog/                20-digit files, nothing else        RocketMQ's
           consumequeue/<topic>/<queue id>/                              RocketMQ's
           index/                                                        RocketMQ's
           config/topics.json ...                                        RocketMQ's
           checkpoint, abort, lock                                       RocketMQ's
           orbitmq/store.json        layout version and file sizes       OrbitMQ's, as all below
                   settings.toml     the settings that starts were given (settings/settings_file.py)
                   retention         how long its last broker kept messages
                   purged            up to which offset queues were purged
                   queue_locks       which queues ordered consumers elsewhere have locked
                   positions         what is known to be on disk
                   rising            the place in the log from which times are known to rise
                   reput             how far the log is indexed
                   delayed           how far delayed messages are delivered
                   transactions      how far half messages are settled
                   transaction-checks  which of them were asked about
                   group_commits     where groups are whose offsets are committed with atomic batches
                   holder            who holds the lock
                   broker.json       which broker runs on the store, and how to reach it (broker_file.py)
                   tree.json         its segments of shared memory
                   group             which unix group may read the store (access.py)
                   commits/          what groups have committed, while a broker runs or has died
                   workers/          what workers of groups have done (work/files.py)
                   work-plan         which workers there are (work/plan.py)
                   retries           what of their work is put into the log again (work/files.py)
                   remake            a repair's order to make queues and index anew
                   backup.json       this folder is a whole backup, and of what (backup/backup_note.py)
                   allocating/       log files that are being created for commitlog/
                   cut/              what recovery or a repair took out of the store
                   spark/            what Spark's sink has staged and remembers

A RocketMQ broker refuses stray names in commitlog/ and ignores the folder orbitmq/, so either broker can open the store.
docs/formats/store-files.md describes each file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orbitmq import errors
from orbitmq.errors.remedy import Knob, hint
from orbitmq.shm import finite_json, text
from orbitmq.store import atomic_file
from orbitmq.store.file_places import refuse_folders
from orbitmq.store.settings.settings import FILE_SETTINGS, StoreSettings

LAYOUT_VERSION = 1
# The native side keeps the root in a field of fixed size and appends topic and file names to it.
ROOT_SIZE_MAX = 3800
_CONFIG_FILES = {
    "topics.json": "the file of topics",
    "subscriptionGroup.json": "the file of groups",
    "consumerOffset.json": "the file of the groups' offsets",
    "delayOffset.json": "the file of the delay levels' offsets",
}


@dataclass(frozen=True)
class StoreLayout:
    """The paths of one store, each made when it is first asked for. `root` is absolute, without symbolic links."""

    root: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> StoreLayout:
        """The layout of the store at `path`, which need not exist yet.

        Raises: SettingError: the path is too long, or not a path.
        """
        try:
            root = Path(os.path.realpath(Path(path).expanduser()))
        except UnicodeEncodeError:
            raise errors.SettingError(
                f"cannot hold a store in {os.fspath(path)!r}: {text.WHY}", hint=text.HINT, name="store", value=path
            ) from None
        if len(os.fsencode(root)) > ROOT_SIZE_MAX:
            raise errors.SettingError(
                f"cannot hold a store in a path of {len(os.fsencode(root)):,} bytes: at most {ROOT_SIZE_MAX:,} fit",
                name="store",
                value=str(root),
            )
        return cls(root)

    @cached_property
    def commitlog(self) -> Path:
        return self.root / "commitlog"

    @cached_property
    def consumequeue(self) -> Path:
        return self.root / "consumequeue"

    @cached_property
    def index(self) -> Path:
        return self.root / "index"

    @cached_property
    def config(self) -> Path:
        return self.root / "config"

    @cached_property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @cached_property
    def abort(self) -> Path:
        return self.root / "abort"

    @cached_property
    def lock(self) -> Path:
        return self.root / "lock"

    @cached_property
    def own(self) -> Path:
        return self.root / "orbitmq"

    @cached_property
    def store_json(self) -> Path:
        return self.own / "store.json"

    @cached_property
    def settings_toml(self) -> Path:
        return self.own / "settings.toml"

    @cached_property
    def retention(self) -> Path:
        return self.own / "retention"

    @cached_property
    def purged(self) -> Path:
        return self.own / "purged"

    @cached_property
    def positions(self) -> Path:
        return self.own / "positions"

    @cached_property
    def rising(self) -> Path:
        return self.own / "rising"

    @cached_property
    def clock(self) -> Path:
        return self.own / "clock"

    @cached_property
    def unsynced(self) -> Path:
        return self.own / "unsynced"

    @cached_property
    def reput(self) -> Path:
        return self.own / "reput"

    @cached_property
    def delayed(self) -> Path:
        return self.own / "delayed"

    @cached_property
    def transactions(self) -> Path:
        return self.own / "transactions"

    @cached_property
    def transaction_checks(self) -> Path:
        return self.own / "transaction-checks"

    @cached_property
    def group_commits(self) -> Path:
        return self.own / "group_commits"

    @cached_property
    def abort_made(self) -> Path:
        return self.own / "abort"  # until it is moved to its place

    @cached_property
    def holder(self) -> Path:
        return self.own / "holder"

    @cached_property
    def broker_json(self) -> Path:
        return self.own / "broker.json"

    @cached_property
    def tree_json(self) -> Path:
        return self.own / "tree.json"

    @cached_property
    def remake(self) -> Path:
        return self.own / "remake"

    @cached_property
    def backup_json(self) -> Path:
        return self.own / "backup.json"

    @cached_property
    def allocating(self) -> Path:
        return self.own / "allocating"

    @cached_property
    def queue_locks(self) -> Path:
        return self.own / "queue_locks"

    @cached_property
    def commits(self) -> Path:
        return self.own / "commits"

    @cached_property
    def work(self) -> Path:
        return self.own / "workers"

    @cached_property
    def work_plan(self) -> Path:
        return self.own / "work-plan"

    @cached_property
    def name_server_values(self) -> Path:
        return self.own / "name-server-values.json"

    @cached_property
    def request_modes(self) -> Path:
        return self.config / "messageRequestMode.json"

    @cached_property
    def retries(self) -> Path:
        return self.own / "retries"

    @cached_property
    def cut(self) -> Path:
        return self.own / "cut"

    def log_file(self, start: int) -> Path:
        """The CommitLog file whose first byte has the physical offset `start`."""
        return self.commitlog / f"{start:020d}"

    def queue_folder(self, topic: str, queue: int) -> Path:
        return self.consumequeue / topic / str(queue)

    def make_folders(self) -> None:
        """Makes the folders that are missing, durably.

        Raises: StoreUnsupported: one of them cannot be made; has .path.
        """
        made: set[Path] = set()
        rocketmqs = (self.commitlog, self.consumequeue, self.index, self.config)
        for folder in (*rocketmqs, self.allocating, self.commits, self.work, self.cut):
            if folder.is_dir():
                continue
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise errors.StoreUnsupported(
                    f"cannot make the folder {folder}: {error.strerror}",
                    hint="choose another store folder, or change its owner",
                    path=str(folder),
                ) from error
            made.update(path.parent for path in missing)
        for parent in sorted(made):
            atomic_file.sync_folder(parent)

    def settings(self, **options: Any) -> StoreSettings:
        """Settings for this store. If the store exists, sizes that are not among `options` are taken from it.

        Raises: SettingError, StoreVersion, StoreUnsupported.
        """
        unknown = sorted(set(options) - set(StoreSettings.__dataclass_fields__))
        if unknown:
            raise errors.SettingError(
                f"cannot set {unknown[0]}: there is no such setting", name=unknown[0], value=options[unknown[0]]
            )
        return StoreSettings(**{**self.sizes(), **options})

    def sizes(self) -> dict[str, int]:
        """File sizes that this store has already, by the setting's name; those for which there is no file yet are missing.

        Raises: StoreVersion: store.json is of another version, or not JSON; has .version and .known. StoreUnsupported: it
            cannot be read, or a folder is in the place of a file.
        """
        refuse_folders(self.root, self.files())
        try:
            text = self.store_json.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return self._sizes_of_files()
        except OSError as error:
            raise errors.StoreUnsupported(
                f"cannot read {self.store_json}: {error.strerror}",
                hint="run the broker as the owner of the store",
                path=str(self.store_json),
            ) from error
        try:
            stored = finite_json.loads(text)
            version = stored["layout"]
            sizes = {name: int(stored[name]) for name in FILE_SETTINGS} if version == LAYOUT_VERSION else {}
        except (ValueError, KeyError, TypeError) as error:
            raise errors.StoreVersion(
                f"cannot read {self.store_json}: it is not a description of a store",
                hint="put it back from a backup; or remove it and give the sizes of the store's files as settings",
                path=str(self.store_json),
                version=None,
                known=LAYOUT_VERSION,
            ) from error
        if version != LAYOUT_VERSION:
            raise errors.StoreVersion(
                f"cannot open the store {self.root}: its layout has version {version!r}, not {LAYOUT_VERSION}",
                hint="open it with the version that wrote it",
                path=str(self.store_json),
                version=version,
                known=LAYOUT_VERSION,
            )
        return sizes

    def files(self) -> Iterator[tuple[Path, str]]:
        """Every file except those of queues, existing or not, and what it is."""
        yield self.store_json, "the description of the store"
        yield self.settings_toml, "the file of settings"
        yield self.retention, "the note of how long messages are kept"
        yield self.purged, "the file of what was purged"
        yield self.queue_locks, "the file of queue locks"
        yield self.lock, "the lock"
        yield self.abort, "the mark of a running broker"
        yield self.checkpoint, "the checkpoint"
        yield self.positions, "the file of positions"
        yield self.rising, "the file of the order of times"
        yield self.reput, "the file of reput's position"
        yield self.delayed, "the note of delivered delayed messages"
        yield self.transactions, "the note of settled half messages"
        yield self.transaction_checks, "the note of checked transactions"
        yield self.group_commits, "the note of offsets committed with atomic batches"
        yield self.work_plan, "the plan of work"
        yield self.retries, "the note of retries"
        yield self.clock, "the note of the clock"
        yield self.unsynced, "the note of syncs"
        for half in (0, 1):
            yield self.commits / f"groups-{half}", "a file of the groups' memory"
        for name, what in _CONFIG_FILES.items():
            yield self.config / name, what
            yield self.config / f"{name}.bak", f"the copy of {what}"
        for folder, what in ((self.commitlog, "a file of the log"), (self.index, "an index file")):
            if folder.is_dir():
                with os.scandir(folder) as entries:
                    yield from ((Path(entry.path), what) for entry in entries if entry.name.isdigit())

    def open(self, settings: StoreSettings) -> None:
        """Makes what is missing and compares the settings with what exists. The caller holds the store's lock.

        Raises: StoreVersion; StoreUnsupported; StoreSettingsError: sizes differ; has .name, .value and .stored.
        """
        stored = self.sizes()
        if not self._has_files():
            stored = {}  # written by a start that failed: it says how they would have been
        for name, size in stored.items():
            value = getattr(settings, name)
            if value != size:
                raise errors.StoreSettingsError(
                    f"cannot open the store {self.root} with {name} {value:,}: its files have {size:,}",
                    hint=hint("leave out {} || use {}", Knob(name), Knob(name, size)),
                    name=name,
                    value=value,
                    stored=size,
                )
        self.make_folders()
        sizes = {name: getattr(settings, name) for name in FILE_SETTINGS}
        if not self.store_json.exists() or (not stored and self.sizes() != sizes):
            described = {"layout": LAYOUT_VERSION, **sizes}
            atomic_file.replace(self.store_json, (json.dumps(described, indent=2) + "\n").encode())

    def _has_files(self) -> bool:
        """True if a file of the log, of a queue or of the index exists."""
        return any(path.is_file() for folder in (self.commitlog, self.consumequeue, self.index) for path in folder.rglob("*"))

    def _sizes_of_files(self) -> dict[str, int]:
        """Sizes of a store that RocketMQ wrote, as far as its files show them. An index file does not show how its size is
        divided, so only RocketMQ's default division is recognised."""
        sizes: dict[str, int] = {}
        for path in _first_digits(self.commitlog):
            sizes["log_file_size"] = path.stat().st_size
        for topic in _folders(self.consumequeue):
            for queue in _folders(topic):
                for path in _first_digits(queue):
                    sizes["queue_file_units"] = path.stat().st_size // 20
                    break
            if "queue_file_units" in sizes:
                break
        usual = StoreSettings()
        for path in _first_digits(self.index):
            if path.stat().st_size == usual.index_file_size:
                sizes.update(index_slots=usual.index_slots, index_entries=usual.index_entries)
        return sizes


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _first_digits(folder: Path) -> list[Path]:
    """The first file of digits in a folder, or nothing."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdigit() and path.is_file())[:1]
