"""Which waiting message a handle names, so that it can be cancelled.

A handle says where in the log or in the queue the message lies, and the record there is read: it is cancelled only if it waits
for its time, and is the one that the handle describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from orbitmq.client.admin.status import Positions, read_positions
from orbitmq.client.connection.attachment import Attachment
from orbitmq.client.delay.delayed import DelayedMessage
from orbitmq.client.lookup import reader_of, record_at
from orbitmq.client.message import Message
from orbitmq.client.receipt import Receipt
from orbitmq.errors import UsageError
from orbitmq.errors.remedy import Hint, as_hint, hint
from orbitmq.native._core import lib
from orbitmq.native._types import Reader
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.commit_log.record import MessageId
from orbitmq.store.delays import DELAY_TOPIC, LEVELS, TIMER_TOPIC

Handle: TypeAlias = Receipt | DelayedMessage | str

# What the highest byte of the prepared transaction offset says of a record in rmq_sys_wheel_timer (native/format/delay.h).
_WAITS, _CANCELS = ord("P"), ord("C")
_PLACE = re.compile(r"(.+)/(\d{1,10})@(\d{1,19})")
_ORDINARY = "only messages that were sent with a delay wait, and can be cancelled"


@dataclass(frozen=True, slots=True)
class Target:
    """A message that waits, or waited. name: the handle, for errors. offset: in rmq_sys_wheel_timer. topic, queue: where it
    comes."""

    name: str
    offset: int
    topic: str
    queue: int
    due_ms: int


class Targets:
    """Finds them in one life of a broker. wait: returns when what it is given is true, or raises."""

    def __init__(self, attached: Attachment, wait: Callable[[Callable[[], bool], str], None]) -> None:
        self._attached = attached
        self._wait = wait
        self._records = reader_of(attached)
        self._queue: Reader | None = None  # a reader of rmq_sys_wheel_timer
        self._positions: Positions | None = None  # as they were; they only rise

    def of(self, handle: Handle) -> Target | None:
        """None: the log does not have the message any more. Raises: UsageError: the handle names no message that could be
        cancelled. CorruptRecord: the message is damaged."""
        if isinstance(handle, str):
            place = _PLACE.fullmatch(handle)
            if place is not None:
                return self._at_place(handle, place[1], int(place[2]), int(place[3]))
            if len(handle) not in (32, 56):
                why = "it is neither an id nor a place such as rmq_sys_wheel_timer/0@17"
                raise _no_handle(handle, why, "`orbitmq delay list` shows places, and receipts have an id")
            return self._at(handle, MessageId.parse(handle).physical_offset, {"id": handle.upper()})
        if isinstance(handle, Receipt):
            expected = {"id": handle.id, "queue": handle.queue, "offset": handle.offset, "size": handle.size}
            return self._at(handle.id, handle.physical_offset, expected, handle.topic)
        if isinstance(handle, DelayedMessage):
            waits = handle.message
            expected = {"id": waits.id, "topic": waits.topic, "queue": waits.queue, "offset": waits.offset, "size": waits.size}
            return self._at(handle.place, waits.physical_offset, expected, handle.topic)
        raise _no_handle(
            handle,
            f"it is of type {type(handle).__name__}",
            "give a receipt, what delayed() returned, an id, or a place; cancel_batch() takes a list of them",
        )

    def _at(self, name: str, physical_offset: int, expected: dict[str, Any], topic: str | None = None) -> Target | None:
        """expected: attributes of the message. topic: for which it is."""
        positions = self._positions
        if positions is None or not positions.min_offset <= physical_offset < positions.reput:
            positions = self._positions = read_positions(self._attached)
        if physical_offset < positions.min_offset:
            return None
        if physical_offset >= positions.wrote:
            raise _no_handle(name, f"the log ends at physical offset {positions.wrote}", "a handle belongs to one store")
        if physical_offset >= positions.reput:
            self._wait(lambda: read_positions(self._attached).reput > physical_offset, "the queues are behind the log")
        message = record_at(self._records, physical_offset)
        if message is None:
            if physical_offset < read_positions(self._attached).min_offset:
                return None
            raise _no_handle(name, "no message begins at its physical offset", "a handle belongs to one store")
        differs = [field for field, value in expected.items() if getattr(message, field) != value]
        if differs:
            raise _no_handle(name, f"another message is there ({', '.join(differs)} differ)", "a handle belongs to one store")
        return _target(name, message, topic)

    def _at_place(self, name: str, topic: str, queue: int, offset: int) -> Target | None:
        if topic == DELAY_TOPIC:
            raise _of_a_level(name, queue)
        if topic != TIMER_TOPIC or queue != 0:
            raise _no_handle(name, f"messages that can be cancelled wait in {TIMER_TOPIC}, queue 0", _ORDINARY)
        end = read_positions(self._attached).wrote
        self._wait(lambda: read_positions(self._attached).reput >= end, "the queues are behind the log")
        table = TopicTable(self._attached.topics)
        waiting = table.find(TIMER_TOPIC)
        bounds = table.bounds(waiting.first_slot) if waiting is not None else None
        if waiting is None or bounds is None or offset >= bounds.maximum:
            stored = bounds.maximum if bounds is not None else 0
            raise _no_handle(name, f"the queue ends at offset {stored}", "a handle belongs to one store")
        if offset < bounds.minimum:
            return None
        if self._queue is None:
            self._queue = reader_of(self._attached)
            self._queue.add(waiting.first_slot, offset)
        self._queue.seek(0, offset)
        for message in self._queue.messages(1):
            if message.offset == offset:
                return _target(name, message, None)
        return None  # retention has just removed it

    def close(self) -> None:
        """Lets go of the log."""
        self._records.close()
        if self._queue is not None:
            self._queue.close()


def came(attached: Attachment, target: Target) -> bool:
    """Whether the message is in its topic, as far as reput has come."""
    table = TopicTable(attached.topics)
    topic = table.find(target.topic)
    if topic is None or target.queue >= topic.queues:
        return False
    reader = reader_of(attached)
    try:
        slot = topic.first_slot + target.queue
        reader.add(slot, table.bounds(slot).minimum)
        reader.seek(0, reader.since(0, target.due_ms))
        mark = ord("T") << 56 | target.offset
        while found := reader.messages(256):
            if any(message.prepared_offset == mark for message in found):
                return True
        return False
    finally:
        reader.close()


def _target(name: str, message: Message, topic: str | None) -> Target:
    properties = message.properties
    if message.topic == DELAY_TOPIC:
        raise _of_a_level(name, message.queue)
    if message.topic != TIMER_TOPIC or message.queue != 0:
        raise _no_handle(name, f"that message is in {message.topic!r} already", _ORDINARY)
    kind = message.prepared_offset >> 56
    if kind == _CANCELS:
        raise _no_handle(name, "that is the record that cancels another message", "give the handle of the message")
    due, queue = properties.get("TIMER_OUT_MS", ""), properties.get("REAL_QID", "")
    if kind != _WAITS or not due.isdecimal() or not queue.isdecimal():
        raise _no_handle(name, "another program stored that message, and this broker does not deliver it", None)
    real = properties.get("REAL_TOPIC", "")
    if topic not in (None, real):
        raise _no_handle(name, f"another message is there, for the topic {real!r}", "a handle belongs to one store")
    return Target(name, message.offset, real, int(queue), int(due))


def _no_handle(handle: object, why: str, remedy: Hint | str | None) -> UsageError:
    text = f"could not cancel {handle!r}: {why}"
    return UsageError(text, hint=as_hint(remedy), value=handle)


def _of_a_level(name: str, queue: int) -> UsageError:
    level = min(queue + 1, LEVELS)
    seconds = int(lib.delay_level_ms(level - 1)) // 1000
    remedy = hint("send such messages with {delay={} of send}", seconds).assuring("only messages with a time can be cancelled")
    return _no_handle(name, f"it waits with a delay level, {level}", remedy)
