"""Damaged files of config/: restored from their .bak, or made anew from what log and queues still know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from orbitmq.errors import StoreFailed
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_name import possible
from orbitmq.store import atomic_file, config, delays
from orbitmq.store.config import GroupConfig, TopicConfig
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.log_cut import free_name
from orbitmq.store.verify.findings import Verdict


@dataclass(frozen=True, slots=True)
class ConfigDeed:
    """What is to be done about one file, and what is lost by it, in a sentence."""

    path: Path
    text: str
    do: Callable[[], None]


def plan_config(layout: StoreLayout, verdict: Verdict) -> list[ConfigDeed]:
    """What to do, file by file. Changes nothing. verdict: of the log as it is."""
    if not layout.config.is_dir():
        return []
    deeds = [_restored(layout, path, verdict) for path in sorted(layout.config.glob("*.json")) if not config.readable(path)]
    broken = {deed.path.name for deed in deeds}
    for name, plan in _FOLLOWING.items():
        if name not in broken:
            deeds += plan(layout, verdict)
    return deeds


def _restored(layout: StoreLayout, path: Path, verdict: Verdict) -> ConfigDeed:
    backup = path.with_name(path.name + ".bak")
    from_backup = config.readable(backup)
    texts = {
        config.TOPICS: "is made anew with the topics of log and queues; topics without a message and all permissions are lost",
        config.GROUPS: "is made anew with the groups of consumerOffset.json; their settings are lost",
        config.OFFSETS: "goes; each group begins again where a new one would",
    }
    text = texts.get(path.name, "goes, and a program that knows it begins without")
    if from_backup:
        text = "is put back from its .bak; the last change of it may be lost"

    def restore() -> None:
        if from_backup:
            _put_back(layout, path, backup)
        else:
            _set_aside(layout, path, backup)
        # What it no longer knows of the log, or knows too much of.
        for deed in _FOLLOWING[path.name](layout, verdict) if path.name in _FOLLOWING else ():
            deed.do()

    return ConfigDeed(path, text, restore)


def _put_back(layout: StoreLayout, path: Path, backup: Path) -> None:
    kept = free_name(layout, path.name)
    atomic_file.write_synced(kept, path.read_bytes())
    atomic_file.sync_folder(layout.cut)
    atomic_file.replace(path, backup.read_bytes())
    crash_point("repair_config_put_back")


def _set_aside(layout: StoreLayout, path: Path, backup: Path) -> None:
    for damaged in (path, backup):
        if damaged.exists():
            damaged.rename(free_name(layout, damaged.name))
    crash_point("repair_config_aside")
    atomic_file.sync_folder(layout.config)
    if path.name == config.GROUPS:
        groups = {group: GroupConfig(group) for _, group in offsets_of(layout)}
        config.store_groups(layout, groups, config.DataVersion().next())


def _known_topics(layout: StoreLayout, verdict: Verdict) -> Iterator[ConfigDeed]:
    """Topics that the log or the queues have, and that the file lacks or has with too few queues."""
    try:
        topics, version = config.load_topics(layout)
    except StoreFailed:  # it is about to be made anew
        topics, version = {}, config.DataVersion()
    queues: dict[str, int] = {}
    for topic, queue in verdict.queues:
        if possible(topic, queue):
            queues[topic] = max(queues.get(topic, 0), queue + 1)
    added = {}
    for topic, count in sorted(queues.items()):
        known = topics.get(topic)
        if known is None:
            added[topic] = TopicConfig(topic, read_queues=count, write_queues=count)
        elif max(known.read_queues, known.write_queues) < count:
            added[topic] = replace(known, read_queues=count, write_queues=count)
    if added:
        text = f"gets {', '.join(added)} from log and queues, with as many queues as these have"
        path = layout.config / config.TOPICS
        yield ConfigDeed(path, text, lambda: config.store_topics(layout, topics | added, version.next()))


def _lowered(layout: StoreLayout, verdict: Verdict) -> Iterator[ConfigDeed]:
    """Group offsets that point past the end of their queue."""
    offsets = offsets_of(layout)
    count = 0
    for (topic, _), queues in offsets.items():
        for queue, offset in queues.items():
            seen = verdict.queues.get((topic, queue))
            if seen is not None and offset > seen.next:
                queues[queue] = seen.next
                count += 1
    if count:
        text = f"{count} group offsets past the end of their queue are lowered to it"
        yield ConfigDeed(layout.config / config.OFFSETS, text, lambda: config.store_offsets(layout, offsets))


def _delays_lowered(layout: StoreLayout, verdict: Verdict) -> Iterator[ConfigDeed]:
    """Notes of delivered delayed messages that say more than the log. A start does not believe them, but a later would, once
    the log is as long again: messages that wait would count as delivered."""
    try:
        said = delays.load(layout)
    except StoreFailed:
        return

    right = delays.within(said, {key: seen.next for key, seen in verdict.queues.items()}, verdict.end)

    def lower() -> None:
        if right.start is None:  # only RocketMQ's file is there
            config.store_delay_offsets(layout, {level: upto for level, upto in enumerate(right.next, start=1) if upto})
        else:
            delays.store(layout, right)

    if right != said:
        text = "what it and orbitmq/delayed say of delivered delayed messages that the log does not have is taken back"
        yield ConfigDeed(layout.config / config.DELAYS, text, lower)


def offsets_of(layout: StoreLayout) -> config.Offsets:
    """The offsets of all groups; nothing if they cannot be read."""
    try:
        return config.load_offsets(layout)
    except StoreFailed:
        return {}


_FOLLOWING: dict[str, Callable[[StoreLayout, Verdict], Iterator[ConfigDeed]]] = {
    config.TOPICS: _known_topics,
    config.OFFSETS: _lowered,
    config.DELAYS: _delays_lowered,
}
