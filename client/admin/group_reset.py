"""Where a group is to go on, in the words of whoever says so, and what that means in each of its queues."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orbitmq.client.admin.status import GroupStatus
from orbitmq.client.lookup import Attached
from orbitmq.errors import OffsetOutOfRange, SettingError, UnknownQueue
from orbitmq.native._types import Reader
from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.topic_table import QueueBounds, QueueKey, Topic, TopicTable
from orbitmq.store.index_file import TIME_END

ResetTo = str | int | datetime
WAYS = "earliest, latest, an offset, +N or -N messages, or a time such as 2026-11-22T13:00"


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One queue of a group that was reset. before: None: the group had no offset there."""

    topic: str
    queue: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Target:
    """number: an offset, messages from where the group is, or milliseconds since the epoch."""

    kind: Literal["earliest", "latest", "offset", "by", "time"]
    number: int = 0


def target_of(to: object, doing: str = "reset a group", ways: str = WAYS) -> Target:
    """Raises: SettingError: it is none of the ways."""
    if isinstance(to, int) and not isinstance(to, bool) and to >= 0:
        return Target("offset", to)
    # ValueError: also a number of thousands of digits. OverflowError: a moment before the first or after the last year.
    with suppress(ValueError, OverflowError):
        if isinstance(to, datetime):
            return _at(to)
        if isinstance(to, str):
            return _named(to)
    text = f"could not {doing} to {to!r:.100}: it must be {ways}"
    way = f'to go back by messages, write "{to}"' if isinstance(to, int) and not isinstance(to, bool) else None
    raise SettingError(text, hint=way, name="to", setting="to", value=to)


def _named(to: str) -> Target:
    """Raises: ValueError."""
    if to in ("earliest", "latest"):
        return Target("earliest" if to == "earliest" else "latest")
    if to.isdecimal() and to.isascii():
        return Target("offset", int(to))
    if to[:1] in ("+", "-") and to[1:].isdecimal() and to.isascii():
        return Target("by", int(to))
    return _at(datetime.fromisoformat(to))


def _at(moment: datetime) -> Target:
    """A moment without a time zone is in this machine's."""
    return Target("time", min(max(0, int(moment.timestamp() * 1000)), TIME_END))


def moves(attached: Attached, group: GroupStatus, to: object, topic: str | None, queue: int | None) -> list[GroupMove]:
    """What a reset of the group would do. topic, queue: only there; None: in all that the group reads.

    An offset that some of the queues hold is, in the others, the end that is nearer.

    Raises: SettingError; UnknownTopic, UnknownQueue; OffsetOutOfRange: no queue holds the offset.
    """
    target = target_of(to)
    table = TopicTable(attached.topics)
    committed = {(each.topic, each.queue): each.committed for each in group.queues}
    places: list[tuple[QueueKey, int, QueueBounds]] = []
    for known in _topics(table, group, topic, queue):
        if queue is not None and not 0 <= queue < known.queues:
            raise UnknownQueue(
                f"could not reset the group {group.name!r} in queue {queue} of {known.name!r}: it has {known.queues}",
                topic=known.name,
                queue=queue,
                queues=known.queues,
            )
        for each in range(known.queues) if queue is None else (queue,):
            slot = known.first_slot + each
            places.append(((known.name, each), slot, table.bounds(slot)))
    if target.kind == "offset":
        _check_held(target.number, group.name, places)
    return [
        GroupMove(*key, committed.get(key), _place(attached, target, key, slot, bounds, committed.get(key), group.name))
        for key, slot, bounds in places
    ]


def _check_held(offset: int, group: str, places: list[tuple[QueueKey, int, QueueBounds]]) -> None:
    if any(bounds.minimum <= offset <= bounds.maximum for _, _, bounds in places):
        return
    (topic, queue), _, bounds = max(places, key=lambda place: place[2].maximum)
    others = " and the others end before" if len(places) > 1 and offset > bounds.maximum else ""
    raise OffsetOutOfRange(
        f"could not reset the group {group!r} to offset {offset}: {topic!r}, queue {queue}, holds {bounds.minimum} to "
        f"{bounds.maximum}{others}",
        hint="give an offset that a queue holds, or reset to earliest, latest or a time",
        topic=topic,
        queue=queue,
        offset=offset,
        minimum=bounds.minimum,
        maximum=bounds.maximum,
    )


def _topics(table: TopicTable, group: GroupStatus, topic: str | None, queue: int | None) -> list[Topic]:
    if topic is not None:
        known = table.find(topic)
        if known is None:
            raise missing_topic(table, topic, f"reset the group {group.name!r} in")
        return [known]
    if queue is not None:
        text = f"could not reset the group {group.name!r} in queue {queue}: a queue needs its topic"
        raise SettingError(text, hint="name the topic too", name="topic", setting="topic", value=None)
    names = {each.topic for each in group.queues} | {name for member in group.members for name in member.topics}
    topics = [known for known in map(table.find, sorted(names)) if known is not None]
    if not topics:
        text = f"could not reset the group {group.name!r}: it has not read any topic"
        raise SettingError(text, hint="name the topic in which it is to begin", name="topic", setting="topic", value=None)
    return topics


def _place(
    attached: Attached, target: Target, key: QueueKey, slot: int, bounds: QueueBounds, committed: int | None, group: str
) -> int:
    """The offset in one queue."""
    if target.kind == "earliest":
        return bounds.minimum
    if target.kind == "latest":
        return bounds.maximum
    if target.kind == "time":
        reader = Reader(attached.control_address, attached.topics_address, attached)
        try:
            return reader.search_time(reader.add(slot, 0), target.number)
        finally:
            reader.close()
    if target.kind == "offset":
        return min(max(bounds.minimum, target.number), bounds.maximum)
    if committed is None:
        text = f"could not reset the group {group!r} by {target.number:+} messages in {key[0]!r}, queue {key[1]}"
        text += ": it has no offset there"
        raise SettingError(text, hint="reset it to earliest, latest or a time", name="to", setting="to", value=target.number)
    return min(max(bounds.minimum, max(committed, bounds.minimum) + target.number), bounds.maximum)
