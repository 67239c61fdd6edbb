"""The files of <root>/config: topics, subscription groups and their offsets, delay levels' offsets, in RocketMQ 4.9's shapes.

X is written as X.tmp and synced; the previous X becomes X.bak; then X.tmp is renamed to X. So a crash leaves a whole X, or at
least a whole X.bak, which is read instead. Fields that this program does not know are kept and written back.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from orbitmq.errors import StoreFailed
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import PERM_READ_WRITE
from orbitmq.store import atomic_file, json_text
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note

TOPICS = "topics.json"
OFFSETS = "consumerOffset.json"
GROUPS = "subscriptionGroup.json"
DELAYS = "delayOffset.json"

# Group offsets: {(topic, group): {queue id: next queue offset}}
Offsets = dict[tuple[str, str], dict[int, int]]
_T = TypeVar("_T")


class DataVersion(NamedTuple):
    """Raised at every change, so that holders of a copy see that theirs is old."""

    counter: int = 0
    timestamp: int = 0  # milliseconds

    def next(self) -> DataVersion:
        return DataVersion(self.counter + 1, time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic. perm: 1 inherit, 2 write, 4 read. other: fields of another version.

    Three fields are OrbitMQ's own; RocketMQ ignores them and does not write them back. retention_hours: None: as the broker's
    setting, 0: for ever. durability: what a receipt waits for if its sender does not say; None: "appended". maker: uid of the
    user who made it, and so may change it; None: the broker's own user.
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = PERM_READ_WRITE
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    retention_hours: int | None = None
    durability: str | None = None
    maker: int | None = None
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One consumer group. maker: uid of the user who made it, a field of OrbitMQ's own; None: the broker's own user, or
    unknown. other: fields of another version."""

    name: str
    consume_enable: bool = True
    consume_from_min: bool = True
    consume_broadcast: bool = True
    retry_queues: int = 1
    retry_max: int = 16
    broker_id: int = 0
    which_broker_when_slow: int = 1
    notify_changes: bool = True
    maker: int | None = None
    other: Mapping[str, Any] = field(default_factory=dict)


# OrbitMQ's attribute: RocketMQ's field. The protocol and the files use the same names.
_TOPIC_FIELDS = {
    "name": "topicName",
    "read_queues": "readQueueNums",
    "write_queues": "writeQueueNums",
    "perm": "perm",
    "order": "order",
    "filter_type": "topicFilterType",
    "sys_flag": "topicSysFlag",
    "retention_hours": "retentionHours",
    "durability": "durability",
    "maker": "makerUid",
}
GROUP_FIELDS = {
    "name": "groupName",
    "consume_enable": "consumeEnable",
    "consume_from_min": "consumeFromMinEnable",
    "consume_broadcast": "consumeBroadcastEnable",
    "retry_queues": "retryQueueNums",
    "retry_max": "retryMaxTimes",
    "broker_id": "brokerId",
    "which_broker_when_slow": "whichBrokerWhenConsumeSlowly",
    "notify_changes": "notifyConsumerIdsChangedEnable",
    "maker": "makerUid",
}


def load_topics(layout: StoreLayout) -> tuple[dict[str, TopicConfig], DataVersion]:
    """Topics by name; empty if the file is missing. Raises: StoreFailed: neither it nor its .bak can be read; has .path."""
    return _load(layout, TOPICS, _read_topics)[0]


def store_topics(layout: StoreLayout, topics: Mapping[str, TopicConfig], version: DataVersion) -> None:
    """Replaces topics.json durably. Raises: OSError."""
    _store(layout, TOPICS, topic_table(topics, version))


def topic_table(topics: Mapping[str, TopicConfig], version: DataVersion) -> dict[str, Any]:
    """Topics as RocketMQ writes them."""
    table = {name: _fields(topic, _TOPIC_FIELDS) for name, topic in topics.items()}
    return {"dataVersion": _version_fields(version), "topicConfigTable": table}


def load_groups(layout: StoreLayout) -> tuple[dict[str, GroupConfig], DataVersion]:
    """Groups by name; empty if the file is missing. Raises: StoreFailed, as load_topics."""
    return _load(layout, GROUPS, _read_groups)[0]


def store_groups(layout: StoreLayout, groups: Mapping[str, GroupConfig], version: DataVersion) -> None:
    """Replaces subscriptionGroup.json durably. Raises: OSError."""
    # RocketMQ 5 has another table there, forbiddenTable: topics that a group may not read.
    others: dict[str, Any] = {}
    with contextlib.suppress(StoreFailed):
        others = _load(layout, GROUPS, dict)[0]
    _store(layout, GROUPS, {**others, **group_table(groups, version)})


def group_table(groups: Mapping[str, GroupConfig], version: DataVersion) -> dict[str, Any]:
    """Groups as RocketMQ writes them."""
    table = {name: _fields(group, GROUP_FIELDS) for name, group in groups.items()}
    return {"dataVersion": _version_fields(version), "subscriptionGroupTable": table}


def load_offsets(layout: StoreLayout) -> Offsets:
    """Group offsets; empty if the file is missing. Raises: StoreFailed, as load_topics."""
    return _load(layout, OFFSETS, _read_offsets)[0]


def load_offsets_with_crc(layout: StoreLayout) -> tuple[Offsets, int]:
    """The same, and the CRC-32 of what was read; 0: there is nothing."""
    offsets, text = _load(layout, OFFSETS, _read_offsets)
    return offsets, zlib.crc32(text.encode())


def offsets_crc(offsets: Offsets) -> int:
    """CRC-32 of the file that store_offsets would write."""
    return zlib.crc32(_text(_offset_table(offsets)))


def offset_crcs(layout: StoreLayout) -> tuple[int, ...]:
    """CRC-32 of the .bak of consumerOffset.json and of the file itself; 0 for a file that is empty or cannot be read."""
    crcs = []
    for name in (OFFSETS + ".bak", OFFSETS):
        content = b""
        with contextlib.suppress(OSError):
            content = (layout.config / name).read_bytes()
        crcs.append(zlib.crc32(content))
    return tuple(crcs)


def store_offsets(layout: StoreLayout, offsets: Offsets) -> None:
    """Replaces consumerOffset.json durably. Raises: OSError."""
    _store(layout, OFFSETS, _offset_table(offsets))


def load_delay_offsets(layout: StoreLayout) -> dict[int, int]:
    """For each delay level, from 1, the next offset in the schedule topic. Raises: StoreFailed, as load_topics."""
    return _load(layout, DELAYS, _read_delays)[0]


def store_delay_offsets(layout: StoreLayout, offsets: Mapping[int, int]) -> None:
    """Replaces delayOffset.json durably. Raises: OSError."""
    _store(layout, DELAYS, {"offsetTable": dict(offsets)})


def _offset_table(offsets: Offsets) -> dict[str, Any]:
    return {"offsetTable": {f"{topic}@{group}": queues for (topic, group), queues in offsets.items()}}


def fallbacks(layout: StoreLayout) -> list[Note]:
    """A note for each file here that cannot be read as it stands: its .bak is read instead, or nothing. Changes nothing."""
    notes: list[Note] = []
    for name, read in _READERS.items():
        with contextlib.suppress(StoreFailed, OSError):  # the start itself reports it
            _load(layout, name, read, notes)
    for path in sorted(layout.config.iterdir()) if layout.config.is_dir() else ():
        if path.suffix == ".json" and path.name not in _READERS and not readable(path):
            notes.append(Note(f"{path} cannot be read; OrbitMQ has no use for it, and a RocketMQ broker would read its .bak"))
    return notes


def readable(path: Path) -> bool:
    """True if a file of this folder, or a .bak of one, can be read as its name says."""
    read = _READERS.get(path.name.removesuffix(".bak"), dict)
    try:
        text = path.read_text(encoding="utf-8")
        read(json_text.loads(text))
    except (OSError, *_NOT_READABLE):
        return False
    return True


def _read_topics(stored: dict[str, Any]) -> tuple[dict[str, TopicConfig], DataVersion]:
    return _table(stored, "topicConfigTable", TopicConfig, _TOPIC_FIELDS)


def _read_groups(stored: dict[str, Any]) -> tuple[dict[str, GroupConfig], DataVersion]:
    return _table(stored, "subscriptionGroupTable", GroupConfig, GROUP_FIELDS)


def _read_offsets(stored: dict[str, Any]) -> Offsets:
    found: Offsets = {}
    for key, queues in stored.get("offsetTable", {}).items():
        topic, _, group = key.partition("@")
        found[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
    return found


def _read_delays(stored: dict[str, Any]) -> dict[int, int]:
    return {int(level): max(0, int(offset)) for level, offset in stored.get("offsetTable", {}).items()}


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    TOPICS: _read_topics,
    GROUPS: _read_groups,
    OFFSETS: _read_offsets,
    DELAYS: _read_delays,
}
_NOT_READABLE = (ValueError, TypeError, AttributeError, KeyError)


def _table(
    stored: dict[str, Any], name: str, kind: Callable[..., _T], names: Mapping[str, str]
) -> tuple[dict[str, _T], DataVersion]:
    known = set(names.values())
    table: dict[str, _T] = {}
    for key, entry in stored.get(name, {}).items():
        values = {ours: entry[theirs] for ours, theirs in names.items() if theirs in entry}
        table[key] = kind(**{"name": key, **values}, other={each: entry[each] for each in entry if each not in known})
    version = stored.get("dataVersion", {})
    return table, DataVersion(int(version.get("counter", 0)), int(version.get("timestamp", 0)))


def _fields(record: TopicConfig | GroupConfig, names: Mapping[str, str]) -> dict[str, Any]:
    values = {theirs: getattr(record, ours) for ours, theirs in names.items()}
    return {**record.other, **{name: value for name, value in values.items() if value is not None}}


def _version_fields(version: DataVersion) -> dict[str, int]:
    return {"counter": version.counter, "timestamp": version.timestamp}


def _load(
    layout: StoreLayout, name: str, read: Callable[[dict[str, Any]], _T], notes: list[Note] | None = None
) -> tuple[_T, str]:
    """The file's content, and its text; those of its .bak if the file is missing, empty or cannot be read."""
    path = layout.config / name
    backup = _with_suffix(path, ".bak")
    why = None
    error: Exception | None = None
    for candidate in (path, backup):
        try:
            text = candidate.read_bytes().decode()
            if text.strip():
                found = read(json_text.loads(text))
                if why is not None and notes is not None:
                    text = f"{path} {why}; {backup.name} was read instead, so the last change of it may be missing"
                    notes.append(Note(text, lost=str(path.relative_to(layout.root))))
                return found, text
            why = why or "is empty"
        except FileNotFoundError:
            why = why or "is missing"
        except _NOT_READABLE as caught:
            why = why or f"cannot be read ({caught})"
            error = error or caught
    if error is not None:
        raise StoreFailed(
            f"cannot read {path}: {error}",
            hint="put it back from a backup; or remove it and its .bak, and start without what was in it",
            path=str(path),
        ) from error
    if why == "is empty" and notes is not None:
        text = f"{path} is empty, and there is no {backup.name}: it counts as if nothing had ever been in it"
        notes.append(Note(text, lost=str(path.relative_to(layout.root))))
    return read({}), ""


def _text(value: dict[str, Any]) -> bytes:
    return json_text.dumps(value).encode()


def _store(layout: StoreLayout, name: str, value: dict[str, Any]) -> None:
    path = layout.config / name
    temporary = _with_suffix(path, ".tmp")
    try:
        atomic_file.write_synced(temporary, _text(value))
    except OSError:
        # A part of it must not take up what room there is.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    crash_point("config_written")
    # A link keeps X in its place until the rename replaces it, so that one of the two exists at every moment. RocketMQ removes
    # X first. A damaged X never becomes X.bak: if this process were killed after that, there would be no file that can be read.
    backup = _with_suffix(path, ".bak")
    with contextlib.suppress(FileNotFoundError):
        if not _is_own(path) and not readable(path):
            raise FileNotFoundError
        linked = _with_suffix(path, ".bak.tmp")
        linked.unlink(missing_ok=True)
        os.link(path, linked)
        crash_point("config_linked")
        linked.rename(backup)
        crash_point("config_backed_up")
    temporary.rename(path)
    _own[path] = _identity(path)
    crash_point("config_renamed")
    atomic_file.sync_folder(layout.config)


# What this process has written last, by name. It need not be read again in order to know that it is whole.
_own: dict[Path, tuple[int, int, int]] = {}


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_own(path: Path) -> bool:
    return path in _own and _own[path] == _identity(path)


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
