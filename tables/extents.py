"""What a store holds now, for planning: the readable queue offsets of every queue of every topic.

A running broker publishes them in shared memory. For a stopped store they are found in the ConsumeQueues, which are complete
after a clean stop. After a crash, what reput had not reached appears once the broker has recovered the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.client.admin.status import read_positions
from orbitmq.errors import BrokerError, BrokerNotRunning, NoPermission, OffsetOutOfRange, SettingError, StoreFailed, TimedOut
from orbitmq.errors.remedy import all_of
from orbitmq.errors.remedy import hint as a_hint
from orbitmq.shm import runtime
from orbitmq.shm.topic_table import Topic, TopicTable
from orbitmq.store import broker_file, config, positions, rising
from orbitmq.store.consume_queue import LOG_END, ConsumeQueue, queues
from orbitmq.store.layout import StoreLayout
from orbitmq.tables.selection import FLUSHED

if TYPE_CHECKING:
    from orbitmq.client.connection.attachment import Attachment

AWAY_S = 60.0  # a broker that is restarted is back by then, its recovery included
WAIT_S = 30.0  # for reput; and for the flush service in addition to its interval
LOOK_S = 0.5  # between two looks whether the flush service still can

# Queue offsets [minimum, maximum) by queue, by topic.
Extents = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A store at one moment. Sizes are those of its files; broker: the broker that runs it, or None. rising: the part [begin,
    end) of the log in which no record is followed by one with an earlier store timestamp. brokers: of servers, in the order
    that numbers the partitions."""

    root: Path
    log_file_size: int
    queue_file_units: int
    broker: str | None
    topics: Extents
    rising: tuple[int, int] = (0, 0)
    brokers: tuple[str, ...] = ()


def of_broker(name: str, *, read: str = FLUSHED, wait: bool = True) -> Snapshot:
    """What the running broker `name` publishes.

    read: "flushed": only what no crash of the machine can take back; "appended": all.
    wait: until everything acknowledged before this call is there; otherwise what is there now.

    Raises: BrokerNotRunning, BrokerStopped, SettingError; StoreFailed: the disk failed; TimedOut: reput, or the flush service,
        does not get there.
    """
    return _published(read, wait, name=runtime.broker_name(name))


def _published(read: str, wait: bool, *, name: str | None = None, store: Path | None = None) -> Snapshot:
    from orbitmq.client.client import connect

    with connect(name, store=store) as client:
        attachment = client.connection.attach_wake()
        layout = StoreLayout.at(attachment.store)
        sizes = _sizes(layout)
        if wait:
            _wait_for_reput(client.name, attachment)
        table = TopicTable(attachment.topics)
        topics: Extents = {topic.name: _bounds(table, topic) for topic in table}
        if read == FLUSHED:
            end = read_positions(attachment).wrote  # after everything that the queues name
            if wait:
                _wait_for_flush(client.name, attachment, end)
            elif (flushed := read_positions(attachment).flushed) < end:
                topics = flushed_part(layout, sizes[1], topics, flushed)
        # The most that can have been written by now.
        times = (attachment.rising_from(), LOG_END)
        return Snapshot(layout.root, *sizes, client.name, topics, times)


def of_store(path: str | Path, *, read: str = FLUSHED, wait: bool = True) -> Snapshot:
    """What the store at `path` holds; asks its broker if one runs. read, wait: as in of_broker.

    Raises: SettingError: there is no store. StoreVersion; StoreSettingsError: a ConsumeQueue file has another length.
        BrokerNotRunning: its broker is still starting, and may not have filled all queues again.
    """
    layout = StoreLayout.at(path)
    if not layout.commitlog.is_dir():
        why = "it has no folder commitlog" if layout.root.is_dir() else "it is not a folder"
        raise SettingError(
            f"cannot read the store {str(path)!r}: {why}",
            hint="give the folder that the broker was started with",
            option="path",
            value=str(path),
        )
    if not _runs(layout):
        found = _of_files(layout, read, wait)
        if not _runs(layout):
            return found
    try:
        return _published(read, wait, store=layout.root)
    except BrokerNotRunning as error:
        if error.starting:
            raise  # recovery may have taken something out of the queues that comes again
    except (BrokerError, NoPermission):
        pass  # it stopped between the two looks, or this user may not use it: the files contain everything
    return _of_files(layout, read, wait)


def _of_files(layout: StoreLayout, read: str, wait: bool) -> Snapshot:
    sizes = _sizes(layout)
    times = rising.trusted(layout)  # before the queues: everything below it later was this broker's as well
    return Snapshot(layout.root, *sizes, None, _on_disk(layout, *sizes, _trusted(layout, read, wait)), times)


def of(store_or_broker: str | Path, *, read: str = FLUSHED, wait: bool = True) -> Snapshot:
    """A path, or the name of a folder here that holds a store, means a store. Any other text is the name of a broker, even if a
    folder happens to have the same name. Arguments and errors as in of_store and of_broker."""
    if isinstance(store_or_broker, Path) or "/" in store_or_broker or Path(store_or_broker, "commitlog").is_dir():
        return of_store(store_or_broker, read=read, wait=wait)
    try:
        return of_broker(store_or_broker, read=read, wait=wait)
    except BrokerNotRunning as error:
        error.remedy = all_of(error.remedy, "give a store by the path of its folder")
        raise


def of_queue(root: str, topic: str, queue: int, log_file_size: int, queue_file_units: int) -> tuple[int, int]:
    """The offsets of one queue that its files hold now."""
    layout = StoreLayout.at(root)
    starts = [int(path.name) for path in layout.commitlog.iterdir() if path.name.isdecimal()]
    begin, end = min(starts, default=0), max(starts, default=0) + log_file_size
    extent = ConsumeQueue(layout.root, topic, queue, queue_file_units).extent(begin, end)
    return extent.min_offset, extent.max_offset


def is_filling(root: str) -> bool:
    """False if a broker runs on the store and has filled all of its queues. True also if this user may not know."""
    broker = _broker(StoreLayout.at(root))
    return broker is None or broker.generation == 0


def _wait_for_reput(name: str, attachment: Attachment) -> None:
    """A receipt says that the log has the message. The queue has it once reput has been there, usually within a millisecond."""
    wrote = read_positions(attachment).wrote
    if not attachment.wait_indexed(wrote, WAIT_S):
        missing = wrote - read_positions(attachment).reput
        raise TimedOut(
            f"could not read from broker {name!r}: its queues lack {missing:,} bytes of the log after {WAIT_S:.0f} s",
            hint="look at reput in `orbitmq status`, and run the query again, which is safe",
            broker=name,
            missing=missing,
        )


def _wait_for_flush(name: str, attachment: Attachment, end: int) -> None:
    """The broker flushes by itself, usually every 500 ms. A query does not make it flush sooner; otherwise the load on the disk
    would depend on how often queries run."""
    limit = WAIT_S + attachment.settings().flush_interval_ms / 1000
    deadline = time.monotonic() + limit
    while not attachment.wait_flushed(end, LOOK_S):
        now = read_positions(attachment)
        if not now.flushed_error and time.monotonic() < deadline:
            continue
        missing = end - now.flushed
        what = f"could not read from broker {name!r} with option read: {missing:,} bytes of the log are not on disk"
        hint = a_hint("look at flush in `orbitmq status` || use {read=appended of spark}")
        if now.flushed_error:
            why = os.strerror(now.flushed_error)
            raise StoreFailed(f"{what}: {why}", hint=hint, option="read", broker=name, missing=missing, errno=now.flushed_error)
        raise TimedOut(f"{what} after {limit:.0f} s", hint=hint, option="read", broker=name, missing=missing)


def _bounds(table: TopicTable, topic: Topic) -> dict[int, tuple[int, int]]:
    return {queue: table.bounds(topic.first_slot + queue) for queue in range(topic.queues)}


def flushed_part(layout: StoreLayout, queue_file_units: int, topics: Extents, flushed: int) -> Extents:
    """The part of it that is below `flushed` in the log."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, queues_of in topics.items():
        found[topic] = {}
        for number, (minimum, maximum) in queues_of.items():
            end = maximum
            if minimum < maximum:
                queue = ConsumeQueue(layout.root, topic, number, queue_file_units)
                try:
                    newest = queue.peek(maximum - 1)
                    if newest.physical_offset + newest.size > flushed:
                        end = queue.search(minimum, maximum, lambda unit: unit.physical_offset + unit.size <= flushed)
                except OffsetOutOfRange:
                    pass  # retention has removed it meanwhile, so it was flushed long ago
            found[topic][number] = (minimum, end)
    return found


def _sizes(layout: StoreLayout) -> tuple[int, int]:
    settings = layout.settings()
    return settings.log_file_size, settings.queue_file_units


def _runs(layout: StoreLayout) -> bool:
    """True if a broker runs on the store, or starts, as far as this user can see."""
    return _broker(layout) is not None


def _broker(layout: StoreLayout) -> runtime.Description | None:
    """The broker that runs on the store, or starts; None also if this user may not know."""
    try:
        description = broker_file.read(layout)
    except NoPermission:
        return None
    return description if description is not None and runtime.lives(description) else None


def _on_disk(layout: StoreLayout, log_file_size: int, queue_file_units: int, log_end: int) -> Extents:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in config.load_topics(layout)[0].values():
        found[topic.name] = {queue: (0, 0) for queue in range(topic.read_queues)}
    starts = [int(path.name) for path in layout.commitlog.iterdir() if path.name.isdecimal()]
    if not starts:
        return found
    begin, end = min(starts), min(max(starts) + log_file_size, log_end)
    for name, queue in queues(layout.root):
        extent = ConsumeQueue(layout.root, name, queue, queue_file_units).extent(begin, end)
        found.setdefault(name, {})[queue] = (extent.min_offset, extent.max_offset)
    return found


def _trusted(layout: StoreLayout, read: str, wait: bool) -> int:
    """The position up to which the log of a stopped store counts. A crash of the broker alone tears nothing that a ConsumeQueue
    names; after a crash of the machine only what was flushed is whole. What the broker's crash left in the page cache is
    flushed by a caller that waits for it."""
    recorded = positions.load(layout)
    if recorded is None or recorded.clean:
        return LOG_END
    if recorded.boot != positions.boot_id():
        return recorded.flushed
    if read == FLUSHED:
        if not wait:
            return recorded.flushed
        _sync(layout, recorded.flushed)
    return LOG_END


def _sync(layout: StoreLayout, begin: int) -> None:
    """Makes the log durable from the file that holds `begin` on."""
    starts = sorted(int(path.name) for path in layout.commitlog.iterdir() if path.name.isdecimal())
    for place, start in enumerate(starts):
        if place + 1 < len(starts) and starts[place + 1] <= begin:
            continue
        descriptor = os.open(layout.commitlog / f"{start:020d}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
