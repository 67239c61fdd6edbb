"""What a tree stands on: the store's lock, its name (presence.py), the segments, and the tables filled from the store. They are
taken in this order and released in reverse. What a dead tree left behind is removed on the way in."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orbitmq.actors import scheduler
from orbitmq.actors.expiry_clock import ExpiryClock
from orbitmq.actors.listener import Listener, store_host
from orbitmq.actors.retention import Retention
from orbitmq.actors.supervisor.front_ends import FrontEnds
from orbitmq.actors.supervisor.presence import Presence
from orbitmq.actors.supervisor.segments import Segments
from orbitmq.actors.topics.purges import Purges
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.errors import SettingError, StoreLocked, WouldDelete
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.file_id import FileId
from orbitmq.shm.random_number import random_number
from orbitmq.shm.segment_owner import SegmentOwner, remove_dead
from orbitmq.shm.topic_table import QueueKey, TopicTable
from orbitmq.store import abort, access, atomic_file, commits, delays, kept
from orbitmq.store.commit_log.record import stored_host
from orbitmq.store.lock import StoreLock
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings import settings_file
from orbitmq.store.settings.listen_address import LOCAL
from orbitmq.store.settings.tree_settings import OWN_LANES, TreeSettings
from orbitmq.store.work import files as work_files

# A tree that was killed just now holds its lock until the last of its actors is gone.
LOCK_PATIENCE_S = 3.0
LOCK_LOOK_MS = 5


@dataclass(slots=True)
class Ground:
    settings: TreeSettings
    lock: StoreLock
    presence: Presence
    generation: int
    _segments: Segments | None = None
    _tree: Tree | None = None
    _purges: Purges | None = None

    @property
    def tree(self) -> Tree:
        assert self._tree is not None, "build comes first"
        return self._tree

    @classmethod
    def take(cls, settings: TreeSettings) -> Ground:
        """Takes the store and the name, and removes what dead trees of either have left.

        Raises: StoreLocked, StoreSettingsError, StoreUnsupported, StoreVersion; SettingError: another broker runs under the
            name, or there is no store that could be read."""
        if settings.read_only and not settings.layout.commitlog.is_dir():
            raise SettingError(
                f"cannot open the store {str(settings.layout.root)!r} for reading: it has no folder commitlog",
                hint=hint("give the folder of a store || start without {read_only of broker}, which makes one"),
                name="read_only",
                value=True,
            )
        lock = _lock(settings)
        try:
            crash_point("ground_locked")
            settings.layout.open(settings.files)
            access.let(settings.layout, settings.group)
            if settings.group is not None:
                os.umask(access.GROUP_UMASK)
            held = FileId.of(lock.descriptor)
            _remove_dead_tree(settings, held)
            crash_point("ground_cleared")
            generation = random_number(31)
            # Written before there is a segment: if the maker of a segment dies before it has signed it, the segment belongs to
            # the tree named here.
            record = {"generation": generation, "lock": [held.device, held.inode]}
            atomic_file.replace(settings.layout.tree_json, json.dumps(record).encode())
            presence = Presence(settings, held)
        except BaseException:
            lock.release()
            raise
        crash_point("ground_listening")
        return cls(settings, lock, presence, generation)

    def build(self, report: RecoveryReport) -> None:
        """Makes the segments and fills them from what recovery found. Raises: StoreFull: /dev/shm has no room."""
        asked = self.settings.read_only
        if report.read_only:
            self.settings = replace(self.settings, read_only=True)
        settings = self.settings
        _check_remote(settings)
        listener = Listener.open(settings)
        core = core_settings(settings)
        if listener is not None:
            core.store_host = stored_host(store_host(listener.broker))
        core.untouched = asked
        if report.damage is not None:
            core.read_only = lib.READ_ONLY_DAMAGED
        owner = SegmentOwner.here(FileId.of(self.lock.descriptor))
        self._segments = segments = Segments(settings, self.generation, core, owner)
        tree = segments.tree(settings, os.getpid())
        crash_point("ground_segments")
        tree.listener = self.presence.listener
        if listener is not None:
            tree.gateway, tree.listens = listener, listener.names
            tree.addresses = tuple(map(str, listener.addresses))
            tree.gateway_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            tree.fronts = tuple(FrontEnds.beside(listener.sockets) for _ in range(settings.gateways - 1))
        tree.notes = report.notes
        self._tree = tree
        size = settings.files.log_file_size
        # Recovery has made sure that the file exists in which the log continues.
        allocated = report.allocated if report.read_only else max(report.allocated, report.end - report.end % size + size)
        lib.control_recovered(
            tree.control, report.begin, report.end, report.reput, report.flushed, allocated, report.last_store_ms
        )
        lib.control_set_rising(tree.control, report.rising_from)
        registry = TopicRegistry(settings.layout, tree.topics, read_only=settings.read_only)
        crash_point("ground_recovered")
        self._purges = registry.purges
        found = {(queue.topic, queue.queue): queue.next_offset for queue in report.queues}
        self._purges.start(found, store=not settings.read_only)
        registry.load(report)
        registry.seed(report)
        Retention(tree, clock=ExpiryClock(settings.layout).look).hide()
        self._purges.apply()
        if not settings.read_only:
            self._bury(self._purges.deleted)
        crash_point("ground_seeded")

    def _bury(self, deleted: Collection[str]) -> None:
        if not deleted:
            return
        import shutil  # here: it brings compressors with it

        for name in sorted(deleted):
            shutil.rmtree(self.settings.layout.consumequeue / name, ignore_errors=True)
            crash_point("ground_buried")

    def caught_up(self) -> None:
        """The queues are complete: what was purged of their ends is gone too."""
        if self._purges is not None:
            self._purges.apply()

    def refuse_deletion(self) -> None:
        """Raises: WouldDelete: this tree is to keep less than the store's last broker kept, and that would delete messages at
        once."""
        now, before = self._kept, kept.load(self.settings.layout)
        lost = Retention(self.tree).loses(before) if now.less_than(before) and not self.settings.read_only else 0
        if lost <= 0:
            return
        files = lost // self.settings.files.log_file_size
        known = self.settings.layout.retention.exists()
        noted = f"its last broker kept them for {before}" if known else "no broker has noted how long they are kept"
        raise WouldDelete(
            f"cannot keep the messages of {self.settings.layout.root} for {now}: {noted}, and {files:,} log files "
            f"({lost:,} bytes) would be deleted at once",
            hint=hint(
                "to delete them, use {allow_deletion=True} || to keep all, use {retention_hours=0} and {retention_bytes=0}"
            ),
            name="retention_hours" if now.hours != before.hours else "retention_bytes",
            value=now.hours if now.hours != before.hours else now.size,
            files=files,
            size=lost,
        )

    def remember(self, told: Mapping[str, Any]) -> None:
        """Writes the settings that the store is to remember from this start.

        Raises: SettingError, StoreUnsupported: as settings_file.change; OSError."""
        if self.settings.read_only:
            return
        kept.store(self.settings.layout, self._kept)
        settings_file.change(self.settings.layout, told)
        crash_point("ground_remembered")

    @property
    def _kept(self) -> kept.Kept:
        return kept.Kept(self.settings.retention_hours, self.settings.retention_bytes)

    def describe(self) -> dict[str, Any]:
        """Makes the tree findable by name. Returns what the starter is told."""
        description = self.presence.announce(self.generation)
        self.tree.listener = self.presence.listener
        crash_point("ground_described")
        return {"name": description.name, "pid": description.pid, "generation": self.generation, "store": description.store}

    def missing_segment(self) -> Path | None:
        """Makes again a name that somebody has removed."""
        return None if self._segments is None else self._segments.missing()

    def close_cleanly(self) -> bool:
        """Called after a stop in which every actor finished its work; the flush service has recorded whether everything is on
        disk and indexed. False if the next start has to recover. Raises: OSError: the groups' offsets were not written."""
        seen = self.tree.positions()
        if seen.flushed != seen.wrote and not self.settings.read_only:
            return False
        commits.settle(self.settings.layout, self._queue_end)
        work_files.settle(self.settings.layout)
        crash_point("ground_offsets_kept")
        self._keep_delays()
        if self.settings.read_only:
            return True
        if seen.reput != seen.wrote:
            return False
        abort.remove(self.settings.layout)
        return True

    def _keep_delays(self) -> None:
        """The next start then need not read the log. Raises: OSError."""
        layout = self.settings.layout
        found = None if self.settings.read_only else scheduler.now(self.tree)
        before = None if found is None else delays.load(layout)
        if found is not None and before is not None and before.start is not None and found != before:
            delays.store(layout, found)

    def _queue_end(self, queue: QueueKey) -> int | None:
        """The end of each queue: commits past it do not count. None: it is not known."""
        topics = TopicTable(self.tree.topics)
        topic = topics.find(queue[0])
        return topics.bounds(topic.first_slot + queue[1]).maximum if topic is not None and queue[1] < topic.queues else None

    def leave(self) -> None:
        """Removes every name by which others could find the tree, and releases the store."""
        self.presence.leave()
        crash_point("ground_unlinked")
        if self._segments is not None:
            self._segments.remove()
            crash_point("ground_segments_removed")
        with suppress(FileNotFoundError):
            self.settings.layout.tree_json.unlink()
        self.lock.release()


def _lock(settings: TreeSettings) -> StoreLock:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            return StoreLock.acquire(settings.layout, settings.name)
        except StoreLocked as error:
            if not error.dying or time.monotonic() > deadline:
                raise
            # The supervisor is dead and its actors are dying; there is nothing to wait on but the lock itself.
            select.poll().poll(LOCK_LOOK_MS)


def _check_remote(settings: TreeSettings) -> None:
    """Reads what gateways will read again. Raises: SettingError: a file says nothing that they could use."""
    if settings.acl:
        from orbitmq.actors.gateway.guard import check_rules

        check_rules(settings.acl)
    if settings.speaks_tls:
        from orbitmq.actors.gateway.tls_door import check_files

        check_files(settings)


def _remove_dead_tree(settings: TreeSettings, lock: FileId) -> None:
    """Removes what dead trees have left in shared memory, and nothing else. A store that was copied while its broker ran has
    the tree.json of that broker."""
    generation, is_own = None, False
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = finite_json.loads(settings.layout.tree_json.read_bytes())
        generation = int(record["generation"])
        is_own = record["lock"] == [lock.device, lock.inode]
    remove_dead(lock, generation, is_own=is_own)


def core_settings(settings: TreeSettings) -> Any:
    """struct settings of native/shared/control.h."""
    core = ffi.new("struct settings *")
    files = settings.files
    core.log_file_size = files.log_file_size
    core.lane_capacity = settings.lane_capacity
    core.queue_file_units = files.queue_file_units
    core.index_slots = files.index_slots
    core.index_entries = files.index_entries
    core.lanes, core.own_lanes = settings.lanes + OWN_LANES, OWN_LANES
    core.message_max = files.message_max
    core.flush_interval_ms = files.flush_interval_ms
    core.flush_every_message = files.flush == "batch"
    core.go_on_unsynced = files.after_failed_sync == "go-on"
    core.read_only = settings.read_only
    core.together = settings.together
    core.spin_us = settings.spin_us
    core.retention_hours = settings.retention_hours
    core.retention_bytes = settings.retention_bytes
    core.dedup_window_ms, core.dedup_ids = files.dedup_window_s * 1000, files.dedup_ids
    # RocketMQ writes the broker's address and port here. This broker serves one machine: 127.0.0.1, port 10911.
    core.store_host = stored_host((LOCAL, 10911))
    core.supervisor_pid = os.getpid()
    core.store = os.fsencode(settings.layout.root)
    return core
