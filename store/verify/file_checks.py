"""Checks the store's small files against what the log has shown: checkpoint, positions, reput's commit, and config/."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.errors import StoreFailed
from orbitmq.store import commit_words, config, delays, index_headers, json_text, positions, purged, reput_commit, rising
from orbitmq.store.checkpoint import SIZE as CHECKPOINT_SIZE
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.group_memory import GroupMemory
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Recorded
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.verify.findings import Finding, Kind, QueueSeen

_CHECKPOINT_USED = 24
_CRC_SIZE = 4
_VERSION_SIZE = 8


@dataclass(frozen=True, slots=True)
class LogSeen:
    """What the log has shown. end: after its last good record. last_ms: store timestamp of that record, 0: there is none.
    rising_from: the last record that was stored earlier than the one before it, or the beginning."""

    end: int
    last_ms: int
    rising_from: int
    queues: dict[tuple[str, int], QueueSeen]


def check_slots(layout: StoreLayout) -> Iterator[Finding]:
    """Files of two slots. A kill may leave one slot half written; a clean stop may not."""
    yield from _two_slots(layout.positions, Kind.POSITIONS, positions.MAGIC_AND_VERSION, positions.SLOTS, positions.SLOT_SIZE)
    yield from _two_slots(layout.reput, Kind.REPUT, reput_commit.MAGIC, reput_commit.SLOTS, reput_commit.SLOT_SIZE)


def check_stop(
    layout: StoreLayout, log: LogSeen, recorded: Recorded | None, commit: ReputCommit | None, newest: Path | None
) -> Iterator[Finding]:
    """What a clean stop says about log and index. newest: the newest index file."""
    if recorded is not None and recorded.wrote != recorded.flushed:
        text = f"says that the log ended at {recorded.wrote:,} and was on disk up to {recorded.flushed:,}"
        yield Finding(Kind.POSITIONS, str(layout.positions), text)
    if commit is None:
        return
    name = newest.name if newest is not None else None
    if commit.position != log.end:
        text = f"says that the log was indexed up to {commit.position:,}, and it ends at {log.end:,}"
    elif commit.index_file != name:
        text = f"names {commit.index_file} as the newest index file, which is {name}"
    elif newest is not None and commit.header != index_headers.numbers(newest):
        text = f"has another header for the index file {name} than that file"
    else:
        return
    yield Finding(Kind.REPUT, str(layout.reput), text)


def check_always(layout: StoreLayout, log: LogSeen, *, running: bool) -> Iterator[Finding]:
    """Files that are replaced whole: they are whole, whether their owner runs or has died."""
    yield from _checkpoint(layout, log, running=running)
    yield from _rising(layout, log)
    yield from _config(layout, log, running=running)


def check_commits(layout: StoreLayout, *, clean: bool) -> Iterator[Finding]:
    """What a broker leaves of its groups when it dies; it leaves nothing when it stops."""
    if not layout.commits.is_dir():
        return
    memory = GroupMemory(layout)
    if clean and memory.exists():
        yield Finding(Kind.COMMITS, str(layout.commits), "holds commits of a broker that has stopped", damage=False)
        return
    remembered = memory.load()
    if remembered is None and memory.begun():
        text = "cannot be read: commits that are not in consumerOffset.json are lost"
        yield Finding(Kind.COMMITS, str(layout.commits / "groups-*"), text)
    # Files that it does not name were being made or removed, and nobody's commit depends on them.
    for member, queues in sorted(remembered.assigned().items() if remembered is not None else ()):
        path = layout.commits / member
        try:
            commit_words.read(path, queues)
        except (OSError, ValueError) as error:
            text = f"{error}: the commits of its member that are not in consumerOffset.json are lost"
            yield Finding(Kind.COMMITS, str(path), text)


def _two_slots(path: Path, kind: Kind, head: bytes, slots: tuple[int, ...], size: int) -> Iterator[Finding]:
    """A head, two slots of `size` bytes that begin with a version and end with a CRC, and zeros around them."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    if len(content) != positions.SIZE:
        yield Finding(kind, str(path), f"has {len(content):,} bytes instead of {positions.SIZE:,}")
        return
    if not content.startswith(head):
        yield Finding(kind, str(path), "does not begin as it should", offset=0)
    around = bytearray(content)
    around[: len(head)] = bytes(len(head))
    for at in slots:
        slot = content[at : at + size]
        around[at : at + size] = bytes(size)
        whole = slot[-_CRC_SIZE:] == zlib.crc32(slot[:-_CRC_SIZE]).to_bytes(_CRC_SIZE, "big") and any(slot[:_VERSION_SIZE])
        if any(slot) and not whole:
            yield Finding(kind, str(path), f"the slot at {at} differs from its CRC", offset=at)
    yield from _not_zero(path, kind, around)


def _not_zero(path: Path, kind: Kind, content: bytes | bytearray) -> Iterator[Finding]:
    rest = content.lstrip(b"\0")
    if rest:
        at = len(content) - len(rest)
        yield Finding(kind, str(path), f"byte {at} is not zero, where nothing is", offset=at)


def _checkpoint(layout: StoreLayout, log: LogSeen, *, running: bool) -> Iterator[Finding]:
    path, kind = str(layout.checkpoint), Kind.CHECKPOINT
    try:
        content = layout.checkpoint.read_bytes()
    except FileNotFoundError:
        return  # recovery then reads more than it would need
    if len(content) != CHECKPOINT_SIZE:
        yield Finding(kind, path, f"has {len(content):,} bytes instead of {CHECKPOINT_SIZE:,}")
        return
    yield from _not_zero(layout.checkpoint, kind, bytes(_CHECKPOINT_USED) + content[_CHECKPOINT_USED:])
    found = Checkpoint.load(layout)
    for at, name in enumerate(("physic", "logics", "index")):
        value = getattr(found, f"{name}_ms")
        negative = content[8 * at] >> 7
        # A running broker's checkpoint may be ahead of what was read of its log.
        if negative or (log.last_ms and value > log.last_ms and not running):
            why = "is negative" if negative else f"{value:,} is later than {log.last_ms:,}, when the last record was stored"
            yield Finding(kind, path, f"the {name} timestamp {why}", offset=8 * at)


def _rising(layout: StoreLayout, log: LogSeen) -> Iterator[Finding]:
    path, kind = str(layout.rising), Kind.RISING
    if layout.rising.exists() and rising.load(layout) is None:
        text = "differs from its CRC; a search by time looks at every message until the next start"
        yield Finding(kind, path, text, damage=False)
    begin, end = rising.trusted(layout)
    if begin < log.rising_from < end:
        text = f"says that times rise from {begin:,} on, and the record at {log.rising_from:,} is older than the one before it"
        yield Finding(kind, path, text, offset=log.rising_from)


def _config(layout: StoreLayout, log: LogSeen, *, running: bool) -> Iterator[Finding]:
    if not layout.config.is_dir():
        return
    for path in sorted(layout.config.glob("*.json")):
        try:
            json_text.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (ValueError, OSError) as error:
            yield Finding(Kind.CONFIG, str(path), f"cannot be read: {error}")
    yield from _loaded(layout, config.GROUPS, config.load_groups, lambda groups: iter(()))
    yield from _loaded(layout, config.TOPICS, config.load_topics, lambda topics: _topics(layout, topics[0], log))
    if not running:  # a running broker's groups may be ahead of what was read of its log
        yield from _loaded(layout, config.OFFSETS, config.load_offsets, lambda offsets: _offsets(layout, offsets, log))
        yield from _delays(layout, log)


def _loaded(
    layout: StoreLayout, name: str, load: Callable[[StoreLayout], Any], check: Callable[[Any], Iterator[Finding]]
) -> Iterator[Finding]:
    try:
        loaded = load(layout)
    except StoreFailed as error:
        yield Finding(Kind.CONFIG, str(layout.config / name), str(error.message))
        return
    yield from check(loaded)


def _delays(layout: StoreLayout, log: LogSeen) -> Iterator[Finding]:
    try:
        said = delays.load(layout)
    except StoreFailed:
        return  # found before
    if delays.within(said, {key: seen.next for key, seen in log.queues.items()}, log.end) is not said:
        text = "says, with orbitmq/delayed, that more delayed messages are delivered than the log has"
        yield Finding(Kind.CONFIG, str(layout.config / config.DELAYS), text)


def _topics(layout: StoreLayout, topics: dict[str, config.TopicConfig], log: LogSeen) -> Iterator[Finding]:
    path = str(layout.config / config.TOPICS)
    least: dict[str, int] = {}
    for topic, queue in log.queues:
        least[topic] = max(least.get(topic, 0), queue + 1)
    deleted = purged.load(layout).deleted
    for topic, queues in sorted(least.items()):
        known = topics.get(topic)
        if known is None and topic in deleted:
            continue
        if known is None:
            text = f"does not know the topic {topic}, of which the store has {queues} queues"
            yield Finding(Kind.CONFIG, path, text, topic=topic, damage=layout.own.is_dir())
        elif max(known.read_queues, known.write_queues) < queues:
            text = f"gives the topic {topic} {known.read_queues} queues, and the store has {queues}"
            yield Finding(Kind.CONFIG, path, text, topic=topic)


def _offsets(layout: StoreLayout, offsets: config.Offsets, log: LogSeen) -> Iterator[Finding]:
    path = str(layout.config / config.OFFSETS)
    for (topic, group), queues in sorted(offsets.items()):
        for queue, offset in sorted(queues.items()):
            seen = log.queues.get((topic, queue))
            if seen is not None and offset > seen.next:
                text = f"the offset of {group} in {topic}/{queue} is {offset:,}, and the queue ends at {seen.next:,}"
                yield Finding(Kind.CONFIG, path, text, topic=topic, queue=queue, first=offset)
