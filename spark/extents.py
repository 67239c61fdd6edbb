"""What a store holds now, for planning: the readable queue offsets of every queue of every topic.

A running broker publishes them in shared memory. Of a stopped store they are found in the ConsumeQueues, which a clean stop
leaves complete; after a crash what reput had not reached yet appears once the broker has recovered the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.errors import BrokerError, BrokerNotRunning, NoPermission, SettingError, TimedOut
from orbitmq.shm import runtime
from orbitmq.store import config, positions
from orbitmq.store.consume_queue import LOG_END, ConsumeQueue, queues
from orbitmq.store.layout import StoreLayout

if TYPE_CHECKING:
    from orbitmq.client.client import Client

REPUT_TIMEOUT_S = 30.0

# Queue offsets [minimum, maximum) by queue, by topic.
Extents = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A store at one moment. Sizes are those of its files; broker: who runs it, or None."""

    root: Path
    log_file_size: int
    queue_file_units: int
    broker: str | None
    topics: Extents


def of_broker(name: str) -> Snapshot:
    """What the running broker `name` publishes, all that was acknowledged before this call included.

    Raises: BrokerNotRunning, BrokerStopped, SettingError; TimedOut: reput does not get there.
    """
    from orbitmq.client.client import connect

    with connect(runtime.broker_name(name)) as client:
        _wait_for_reput(client)
        status = client.status()
    topics = {
        topic.name: {queue.queue: (queue.min_offset, queue.max_offset) for queue in topic.queues} for topic in status.topics
    }
    root = Path(status.store)
    return Snapshot(root, *_sizes(StoreLayout.at(root)), status.name, topics)


def of_store(path: str | Path) -> Snapshot:
    """What the store at `path` holds; asks its broker if one runs.

    Raises: SettingError: there is no store. StoreVersion; StoreSettings: a ConsumeQueue file of another length.
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
    broker = _running(layout)
    if broker is not None:
        try:
            return of_broker(broker)
        except (BrokerError, NoPermission):
            pass  # it stopped between the two looks, or is not for this user: the files say it all
    sizes = _sizes(layout)
    return Snapshot(layout.root, *sizes, None, _on_disk(layout, *sizes))


def of(store_or_broker: str | Path) -> Snapshot:
    """A path, or the name of a folder here that holds a store, is a store; any other text is the name of a broker, also
    where a folder happens to be called alike. Raises: as of_store and of_broker."""
    if isinstance(store_or_broker, Path) or "/" in store_or_broker or Path(store_or_broker, "commitlog").is_dir():
        return of_store(store_or_broker)
    try:
        return of_broker(store_or_broker)
    except BrokerNotRunning as error:
        error.hint = f"{error.hint}; a store is given by the path of its folder" if error.hint else None
        raise


def of_queue(root: str, topic: str, queue: int, log_file_size: int, queue_file_units: int) -> tuple[int, int]:
    """The offsets of one queue that its files hold now."""
    layout = StoreLayout.at(root)
    starts = [int(path.name) for path in layout.commitlog.iterdir() if path.name.isdecimal()]
    begin, end = min(starts, default=0), max(starts, default=0) + log_file_size
    extent = ConsumeQueue(layout.root, topic, queue, queue_file_units).extent(begin, end)
    return extent.min_offset, extent.max_offset


def _wait_for_reput(client: Client) -> None:
    """A receipt says that the log has the message; the queue has it once reput was there, mostly within a millisecond."""
    from orbitmq.client.status import read_positions

    attachment = client.connection.attach_wake()
    wrote = read_positions(attachment).wrote
    if not attachment.wait_indexed(wrote, REPUT_TIMEOUT_S):
        missing = wrote - read_positions(attachment).reput
        raise TimedOut(
            f"cannot read from broker {client.name!r}: its queues lack {missing:,} bytes of the log "
            f"after {REPUT_TIMEOUT_S:.0f} s",
            hint="look at reput in `orbitmq status`",
            name=client.name,
            missing=missing,
        )


def _sizes(layout: StoreLayout) -> tuple[int, int]:
    settings = layout.settings()
    return settings.log_file_size, settings.queue_file_units


def _running(layout: StoreLayout) -> str | None:
    """Name of the broker that runs on the store."""
    try:
        name = str(json.loads(layout.holder.read_bytes())["name"])
        description = runtime.read_description(runtime.broker_name(name))
    except (NoPermission, OSError, ValueError, KeyError, TypeError):
        return None
    if description is None or not runtime.lives(description):
        return None
    return name if StoreLayout.at(description.store) == layout else None


def _on_disk(layout: StoreLayout, log_file_size: int, queue_file_units: int) -> Extents:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in config.load_topics(layout)[0].values():
        found[topic.name] = {queue: (0, 0) for queue in range(topic.read_queues)}
    starts = [int(path.name) for path in layout.commitlog.iterdir() if path.name.isdecimal()]
    if not starts:
        return found
    begin, end = min(starts), min(max(starts) + log_file_size, _trusted(layout))
    for name, queue in queues(layout.root):
        extent = ConsumeQueue(layout.root, name, queue, queue_file_units).extent(begin, end)
        found.setdefault(name, {})[queue] = (extent.min_offset, extent.max_offset)
    return found


def _trusted(layout: StoreLayout) -> int:
    """Where the log may be torn: a crash of the broker alone tears nothing that a ConsumeQueue names, one of the machine
    leaves whole only what was flushed."""
    recorded = positions.load(layout)
    if recorded is None or recorded.clean or recorded.boot == positions.boot_id():
        return LOG_END
    return recorded.flushed
