"""Requests that cannot be done as they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from orbitmq.errors.root import Common, OrbitError, Retry


class UsageError(OrbitError, ValueError):
    """The call cannot be done as it was made. value, id, offset, host: what was asked for, if one of them is wrong."""

    def __init__(
        self,
        message: str,
        *,
        value: object = None,
        id: str | None = None,
        offset: int | None = None,
        host: object = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.value = value
        self.id = id
        self.offset = offset
        self.host = host


class TopicNameError(UsageError):
    """A topic name is empty, longer than `limit` bytes, or holds a forbidden character, at byte `at`."""

    def __init__(
        self,
        message: str,
        *,
        topic: object = None,
        size: int | None = None,
        limit: int | None = None,
        at: int | None = None,
        character: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.size = size
        self.limit = limit
        self.at = at
        self.character = character


class GroupNameError(UsageError):
    """A group name is empty, longer than `limit` bytes, or holds a forbidden character, at `at`."""

    def __init__(
        self,
        message: str,
        *,
        group: object = None,
        limit: int | None = None,
        at: int | None = None,
        character: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.group = group
        self.limit = limit
        self.at = at
        self.character = character


class UnknownGroup(UsageError, KeyError):
    """No consumer group of this name exists."""

    def __init__(self, message: str, *, group: str | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.group = group

    __str__ = OrbitError.__str__


class GroupInUse(UsageError):
    """The group has members, and so cannot be deleted; or another consumer is this instance of a broadcast group. members: how
    many; pids: their processes."""

    def __init__(
        self,
        message: str,
        *,
        group: str | None = None,
        members: int | None = None,
        pids: Sequence[int] | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.group = group
        self.members = members
        self.pids = pids


class UnknownTransaction(UsageError):
    """The log has no half message of this transaction. id: the transaction's."""


class UnknownTopic(UsageError, KeyError):
    """No topic of this name exists. topics: the existing ones. option: the option of Spark's that names it."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        topics: Sequence[str] | None = None,
        queue: int | None = None,
        option: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.topics = topics
        self.queue = queue
        self.option = option

    __str__ = OrbitError.__str__


class UnknownQueue(UsageError):
    """The topic has no queue of this number, or this consumer does not have it. queues: how many the topic has. option, column:
    the option or column of Spark's that names it."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        queue: object = None,
        queues: int | None = None,
        option: str | None = None,
        column: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.queue = queue
        self.queues = queues
        self.option = option
        self.column = column


class TopicExists(UsageError):
    """The topic exists with other settings: these."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        queues: int | None = None,
        perm: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.queues = queues
        self.perm = perm


class MessageTooLarge(UsageError):
    """Body and properties exceed the limit of the session or the broker; bytes."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        size: int | None = None,
        limit: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.size = size
        self.limit = limit


class BatchRefused(UsageError):
    """Of a message in an atomic batch: another one, number `index`, was refused, so none of them is stored."""

    def __init__(self, message: str, *, topic: str | None = None, index: int | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.index = index


class PropertiesTooLarge(UsageError):
    """The encoded properties exceed 32,767 bytes."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        size: int | None = None,
        limit: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.size = size
        self.limit = limit


class PropertyError(UsageError):
    """A property has an empty name or value, or holds a separator byte (0x01, 0x02)."""

    def __init__(
        self, message: str, *, topic: str | None = None, name: str | None = None, value: object = None, **common: Unpack[Common]
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.name = name
        self.value = value


class OffsetOutOfRange(UsageError):
    """An offset outside what the queue holds; `minimum` and `maximum` give the valid range.

    removed: messages that retention removed before they were read; the next poll continues after them. gaps: of an export,
        (topic, queue, first offset, offset after the last) for each gap. moment_ms: where Spark was to begin. option: the
        option of Spark's."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        queue: int | None = None,
        offset: int | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
        removed: int | None = None,
        gaps: Sequence[Any] | None = None,
        moment_ms: int | None = None,
        option: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.queue = queue
        self.offset = offset
        self.minimum = minimum
        self.maximum = maximum
        self.removed = removed
        self.gaps = gaps
        self.moment_ms = moment_ms
        self.option = option

    @property
    def _retry(self) -> Retry:
        return Retry.AFTER_CHANGE if self.removed is None else Retry.SAFE


class ColumnError(UsageError):
    """A column of a DataFrame cannot be sent, because of its name, its type or a value in it.

    column: which one. type: its type; types: types that would work. columns: the existing ones, if a topic is to be read with
        others."""

    def __init__(
        self,
        message: str,
        *,
        column: str | None = None,
        type: str | None = None,
        types: Sequence[str] | None = None,
        value: object = None,
        columns: Sequence[str] | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.column = column
        self.type = type
        self.types = types
        self.value = value
        self.columns = columns


class SettingError(UsageError):
    """A setting that is not valid.

    name: of a setting of the broker, or of the machine. setting: of an argument of a client's call. option: of Spark's. value:
        the requested one; limit: the possible one. path, line: the place of the setting. pid, store: of the broker that has it.
        query, batch, done: of Spark, and the number of the last batch that is stored."""

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        setting: str | None = None,
        option: str | None = None,
        value: object = None,
        limit: float | None = None,
        path: str | None = None,
        line: int | None = None,
        pid: int | None = None,
        store: str | None = None,
        query: str | None = None,
        batch: int | None = None,
        done: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.name = name
        self.setting = setting
        self.option = option
        self.value = value
        self.limit = limit
        self.path = path
        self.line = line
        self.pid = pid
        self.store = store
        self.query = query
        self.batch = batch
        self.done = done


class UnknownOption(SettingError, TypeError):
    """A call has no argument of this name, such as a misspelt one.

    setting: the name; value: what was given; the hint says what may be meant. Nothing was done."""


class FilterError(SettingError):
    """A text that is no SQL92 filter.

    value: the text. column: of what is wrong, in characters from 1. found: what stands there, "" at the end. expected: what
    could stand there. The message ends with the line and a caret under the place."""

    def __init__(
        self,
        message: str,
        *,
        setting: str | None = None,
        option: str | None = None,
        value: object = None,
        column: int | None = None,
        found: str | None = None,
        expected: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, setting=setting, option=option, value=value, **common)
        self.column = column
        self.found = found
        self.expected = expected


class WouldDelete(SettingError):
    """Messages are to be kept for a shorter time, or in less room, than the store's last broker kept them, and some would be
    deleted at once.

    files, size (bytes): how much of the log. Nothing was deleted; `allow_deletion=True` allows it."""

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        value: object = None,
        files: int | None = None,
        size: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.name = name
        self.value = value
        self.files = files
        self.size = size


class NoPermission(OrbitError):
    """This user may not use the broker, or do what was asked; or the topic may not be written, or not be read.

    broker, store, segment, topic, group: what may not be used. uid: of the user who asked; maker: of the user who made it.
        perm: the topic's."""

    def __init__(
        self,
        message: str,
        *,
        broker: str | None = None,
        store: str | None = None,
        segment: str | None = None,
        topic: str | None = None,
        group: str | int | None = None,
        uid: int | None = None,
        maker: int | None = None,
        perm: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.broker = broker
        self.store = store
        self.segment = segment
        self.topic = topic
        self.group = group
        self.uid = uid
        self.maker = maker
        self.perm = perm
