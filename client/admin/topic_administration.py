"""What a client can ask to look after topics: their queues, who may read and write, and what is to be gone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from orbitmq.client.admin.topic_info import TopicInfo
from orbitmq.client.argument import check_flag, check_topic_type, whole
from orbitmq.client.connection.connection import Connection
from orbitmq.client.parameters import spelled
from orbitmq.errors import Full, OffsetOutOfRange, SettingError, TopicExists, UnknownQueue
from orbitmq.native._types import Reader
from orbitmq.shm.means import means
from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.topic_table import PERM_READ, PERM_WRITE, QueueBounds, Topic, TopicTable
from orbitmq.store.commit_log.log_head import stored_ms
from orbitmq.store.layout import StoreLayout

if TYPE_CHECKING:
    from orbitmq.client.admin.group_reset import Target
    from orbitmq.client.admin.status import TopicStatus

LOOK_S = 0.01  # between two questions whether a topic can be made again
PURGE_WAYS = "latest, an offset, or a time such as 2026-11-22T13:00"


@dataclass(frozen=True, slots=True)
class QueuePurge:
    """One queue of a topic that was purged: its first message's offset before and now."""

    queue: int
    before: int
    after: int

    @property
    def messages(self) -> int:
        """How many are gone."""
        return self.after - self.before


PurgeTo: TypeAlias = str | int | datetime | Sequence[QueuePurge]


@spelled
class TopicAdministration:
    """A part of Client."""

    _connection: Connection

    def topic(self, name: str) -> TopicStatus:
        """One topic, with the offsets that its queues hold. Raises: UnknownTopic."""
        with means(f"look at the topic {name!r}"):
            table, found = self._found(name, "look at")
            from orbitmq.client.admin.status import topic_status

            return topic_status(table, found)

    def grow_topic(self, name: str, queues: int) -> TopicInfo:
        """Gives an existing topic more queues; all else stays as it is.

        Raises: UnknownTopic; SettingError; TopicExists: it has more queues, or no room for so many; NoPermission: another user
            made it; Full.
        """
        with means(f"grow the topic {name!r}"):
            _, found = self._found(name, "grow")
            queues = whole(queues, f"grow the topic {name!r}", "queues")
            if 1 <= queues < found.queues:
                why = f"it has {found.queues} queues, and a topic never loses queues"
                text = f"could not grow the topic {name!r} to {queues} queues: {why}"
                raise TopicExists(text, topic=name, queues=found.queues, perm=found.perm)
            return TopicInfo.of(Topic(**self._connection.ask("create_topic", name=name, queues=queues)))

    def set_permissions(self, name: str, *, read: bool, write: bool) -> TopicInfo:
        """Says whether a topic may be read and written, by everybody. It counts for every message that the broker takes after
        the call has returned. Members of groups lose the queues of a topic that may not be read; a consumer without a group
        raises NoPermission within 5 s.

        Raises: UnknownTopic; NoPermission: another user made it, or it is RocketMQ's own; StoreFull.
        """
        with means(f"change the permission of the topic {name!r}"):
            check_flag(read, f"change the permission of the topic {name!r}", "read")
            check_flag(write, f"change the permission of the topic {name!r}", "write")
            perm = (PERM_READ if read else 0) | (PERM_WRITE if write else 0)
            return TopicInfo.of(Topic(**self._connection.ask("permit", name=name, perm=perm)))

    def purge_topic(
        self, name: str, to: PurgeTo = "latest", *, queue: int | None = None, dry_run: bool = False
    ) -> list[QueuePurge]:
        """Removes the messages before an offset or a time, for all readers, at once and for good. Returns what is gone, by
        queue. The log's files keep the bytes until retention removes them.

        Args:
            to: the first message that is to stay: "latest": none that was acknowledged before this call; an offset: a queue
                that ends before it is emptied; a datetime or its text in ISO 8601: no message stored at or after it goes; what
                a dry run has returned: that and no more.
            queue: only this one; None: all.
            dry_run: remove nothing; only return what would be gone.

        Raises: UnknownTopic, UnknownQueue; SettingError; OffsetOutOfRange: all queues end before the offset; NoPermission:
            another user made the topic; StoreFull; TimedOut: reput is behind the log's end. Nothing was removed then.
        """
        with means(doing := f"purge the topic {name!r}"):
            check_flag(dry_run, doing, "dry_run")
            if queue is not None:
                queue = whole(queue, doing, "queue")
            self._connection.caught_up(doing)
            table, found = self._found(name, "purge")
            planned = _planned(to)
            for each in () if planned is None else planned:
                _check_queue(found, each)
            if queue is not None:
                _check_queue(found, queue)
            chosen = (range(found.queues) if planned is None else sorted(planned)) if queue is None else (queue,)
            bounds = {each: table.bounds(found.first_slot + each) for each in chosen}
            if planned is None:
                wanted = self._wanted(found, to, bounds)
            else:
                wanted = [_within(bounds[each], planned[each], each) for each in chosen if each in planned]
            if dry_run:
                return wanted
            floors = [[each.queue, each.after] for each in wanted]
            return [QueuePurge(*each) for each in self._connection.ask("purge_topic", name=name, floors=floors)]

    def delete_topic(self, name: str) -> None:
        """Deletes a topic. From the return of this call on nobody can send to it or read it, and after a restart it is still
        gone. A topic of the same name may be made later: it begins empty, and its queues' offsets continue, so that no offset
        is used twice. The topic's ConsumeQueue files go within seconds, the messages' bytes with the log's files.

        Raises: UnknownTopic; NoPermission: another user made the topic, or it is RocketMQ's own; StoreFull. Nothing was deleted
            then.
        """
        with means(f"delete the topic {name!r}"):
            self._found(name, "delete")
            self._connection.ask("delete_topic", name=name)

    def _created(self, name: str, queues: int, **fields: Any) -> TopicInfo:
        """A topic that was deleted can be made again once reput has passed the old one's messages. The client waits for that,
        not the coordinator."""
        deadline = time.monotonic() + self._connection.timeout
        while True:
            try:
                return TopicInfo.of(Topic(**self._connection.ask("create_topic", name=name, queues=queues, **fields)))
            except Full as error:
                if error.limit != "reput" or time.monotonic() >= deadline:
                    raise
            self._connection.attachment.pause(LOOK_S)

    def _found(self, name: str, doing: str) -> tuple[TopicTable, Topic]:
        check_topic_type(name)
        table = TopicTable(self._connection.attachment.topics)
        found = table.find(name)
        if found is None:
            otherwise = "orbitmq topic list shows all" if doing in ("delete", "purge") else None  # nobody makes it for that
            raise missing_topic(table, name, doing, otherwise=otherwise)
        return table, found

    def _wanted(self, topic: Topic, to: PurgeTo, bounds: Mapping[int, QueueBounds]) -> list[QueuePurge]:
        from orbitmq.client.admin.group_reset import target_of

        target = target_of(to, f"purge the topic {topic.name!r}", PURGE_WAYS)
        _check_reached(target, topic.name, bounds)
        return [QueuePurge(queue, held.minimum, self._floor(target, to, topic, queue, held)) for queue, held in bounds.items()]

    def _floor(self, target: Target, to: object, topic: Topic, queue: int, bounds: QueueBounds) -> int:
        """The offset of the first message that stays."""
        if target.kind == "latest":
            return bounds.maximum
        if target.kind == "time":
            attached = self._connection.attachment
            reader = Reader(attached.control_address, attached.topics_address, attached)
            try:
                nearest = int(reader.search_time(reader.add(topic.first_slot + queue, 0), target.number))
            finally:
                reader.close()
            return nearest + (nearest < bounds.maximum and self._stored_ms(topic, queue, nearest) < target.number)
        if target.kind != "offset":
            text = f"could not purge the topic {topic.name!r} to {to!r:.100}: it must be {PURGE_WAYS}"
            raise SettingError(text, name="to", setting="to", value=to)
        return _within(bounds, target.number, queue).after

    def _stored_ms(self, topic: Topic, queue: int, offset: int) -> float:
        """Store time of a message; of one that cannot be read: later than all."""
        from orbitmq.store.consume_queue import ConsumeQueue

        attached = self._connection.attachment
        settings, layout = attached.settings(), StoreLayout.at(attached.store)
        unit = ConsumeQueue(layout.root, topic.name, queue, int(settings.queue_file_units)).peek(offset)
        found = stored_ms(layout, int(settings.log_file_size), unit.physical_offset)
        return float("inf") if found is None else found


def _planned(to: PurgeTo) -> dict[int, int] | None:
    """By queue, the first message that is to stay; None: `to` is not what a dry run has returned."""
    if isinstance(to, str) or not isinstance(to, Sequence):
        return None
    plan = {each.queue: each.after for each in to if isinstance(each, QueuePurge)}
    return plan if len(plan) == len(to) else None


def _within(bounds: QueueBounds, after: int, queue: int) -> QueuePurge:
    return QueuePurge(queue, bounds.minimum, min(max(after, bounds.minimum), bounds.maximum))


def _check_queue(topic: Topic, queue: int) -> None:
    """Raises: UnknownQueue."""
    if not 0 <= queue < topic.queues:
        text = f"could not purge queue {queue} of {topic.name!r}: it has {topic.queues}"
        raise UnknownQueue(text, topic=topic.name, queue=queue, queues=topic.queues)


def _check_reached(target: Target, name: str, bounds: Mapping[int, QueueBounds]) -> None:
    queue, longest = max(bounds.items(), key=lambda each: each[1].maximum)
    if target.kind == "offset" and target.number > longest.maximum:
        others = ", and the others before" if len(bounds) > 1 else ""
        raise OffsetOutOfRange(
            f"could not purge the topic {name!r} to offset {target.number}: queue {queue} ends at {longest.maximum}{others}",
            hint="purge to an offset that a queue has reached, to latest or to a time",
            topic=name,
            queue=queue,
            offset=target.number,
            minimum=longest.minimum,
            maximum=longest.maximum,
        )
