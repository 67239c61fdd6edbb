"""Finds messages without a session: by their id, which says where they are, by their keys, through the store's IndexFiles, and
by their offsets in a queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from orbitmq.client.consumer.subscription import look_up
from orbitmq.errors import CorruptRecord, SettingError, StoreError, UsageError
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Message, Reader
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.commit_log.record import Fault, MessageId
from orbitmq.store.index_file import TIME_END, candidates, key_hash

AT_ONCE = 256  # messages that are read together
COLLISIONS = 64  # hits of one IndexFile that may belong to other keys
_DAMAGE = (Fault.BAD_BODY_CRC, Fault.BAD_CRC, Fault.LOST)


class Attached(Protocol):
    """The mappings of a running broker; client/connection/attachment.py."""

    @property
    def control(self) -> Any: ...
    @property
    def control_address(self) -> int: ...
    @property
    def topics(self) -> Any: ...
    @property
    def topics_address(self) -> int: ...


def message_by_id(attached: Attached, message_id: str) -> Message:
    """The message with this offset message id, in upper or lower case.

    Raises: UsageError: this is not an id, or no message has it (any more); carries .id. CorruptRecord: the message is damaged.
    """
    offset = MessageId.parse(message_id).physical_offset
    first, end = _readable(attached)
    why = f"the log holds physical offsets {first} to {end}"
    if first <= offset < end:
        why = "no message begins there"
        message = record_at(reader_of(attached), offset)
        if message is not None and message.id == message_id.upper():
            if _hidden(attached, message):
                why = f"the topic {message.topic!r} does not keep it any more"
            elif _is_in_queue(attached, message):
                return message
    raise UsageError(f"could not find message {message_id}: {why}", id=message_id, offset=offset)


def messages_by_key(
    attached: Attached, topic: str, key: str, *, begin_ms: int = 0, end_ms: int | None = None, most: int = 32
) -> list[Message]:
    """Messages of the topic with this key (or unique key), newest first.

    begin_ms, end_ms: range of their store times, milliseconds since the epoch, both included.

    Raises: SettingError: most is below 1. TopicNameError, UnknownTopic, NoPermission. CorruptRecord: one of them is damaged.
    """
    if most < 1:
        raise SettingError(f"could not find {most} messages: the number must be at least 1", setting="most", value=most)
    check_topic_name(topic)
    look_up(attached.topics_address, topic, "search")
    last_ms = TIME_END if end_ms is None else end_ms
    settings = lib.control_settings(attached.control)
    first, end = _readable(attached)
    reader = reader_of(attached)
    found: dict[int, Message] = {}
    hits = candidates(
        Path(ffi.string(settings.store).decode()) / "index",
        settings.index_slots,
        settings.index_entries,
        key_hash(topic, key),
        begin_ms=max(0, begin_ms),
        end_ms=last_ms,
        most=most + COLLISIONS,
    )
    for offset in hits:
        if not first <= offset < end or offset in found:
            continue
        message = record_at(reader, offset)
        if (
            message is None
            or message.topic != topic
            or not begin_ms <= message.stored_ms <= last_ms
            or _hidden(attached, message)
        ):
            continue
        if key in message.keys or message.properties.get("UNIQ_KEY") == key:
            found[offset] = message
            if len(found) == most:
                break
    return list(found.values())


def message_with_unique_key(attached: Attached, topic: str, key: str, *, begin_ms: int) -> Message | None:
    """The newest message of the topic with this unique key, stored at or after this time; also one that the topic does not show
    any more. Raises: CorruptRecord: it is damaged."""
    settings = lib.control_settings(attached.control)
    folder = Path(ffi.string(settings.store).decode()) / "index"
    first, end = _readable(attached)
    reader = reader_of(attached)
    for offset in candidates(folder, settings.index_slots, settings.index_entries, key_hash(topic, key), begin_ms=begin_ms):
        message = record_at(reader, offset) if first <= offset < end else None
        if message is not None and message.topic == topic and message.properties.get("UNIQ_KEY") == key:
            return message
    return None


def messages_between(attached: Attached, slot: int, begin: int, end: int) -> Iterator[Message]:
    """Those of a queue slot with an offset from `begin` to below `end`, in their order. Raises: CorruptRecord: one is damaged;
    those before it have come."""
    if begin >= end:
        return
    with closing(reader_of(attached)) as reader:
        reader.add(slot, begin)
        while found := reader.messages(AT_ONCE):
            for message in found:
                if message.offset >= end:
                    return
                yield message


def reader_of(attached: Attached) -> Reader:
    return Reader(attached.control_address, attached.topics_address, attached)


def _readable(attached: Attached) -> tuple[int, int]:
    """The physical offsets that consumers may read: [first, end)."""
    seen = ffi.new("struct positions_seen *")
    lib.control_positions(attached.control, seen)
    return int(seen.min_offset), int(seen.reput)


def _hidden(attached: Attached, message: Message) -> bool:
    """True if its topic's own retention time is over, or it was purged, or its topic was deleted, and its file is still there
    for the sake of other topics."""
    table = TopicTable(attached.topics)
    topic = table.find(message.topic)
    return topic is None or (
        message.queue < topic.queues
        and message.offset < table.bounds(topic.first_slot + message.queue).minimum
    )


def _is_in_queue(attached: Attached, message: Message) -> bool:
    """False: nobody stored it as such, but somebody wrote into a body what looks like a record. Its queue leads elsewhere, or
    does not exist."""
    table = TopicTable(attached.topics)
    topic = table.find(message.topic)
    if topic is None or message.queue >= topic.queues:
        return False
    with closing(reader_of(attached)) as reader:
        reader.add(topic.first_slot + message.queue, message.offset)
        try:
            found = reader.range(0, message.offset, 1)
        except (CorruptRecord, StoreError):
            return False
    return any(each.physical_offset == message.physical_offset for each in found)


def record_at(reader: Reader, offset: int) -> Message | None:
    """The message at a place that may be anywhere; None if no message begins there. Raises: CorruptRecord: it is damaged."""
    try:
        return reader.record(offset)
    except CorruptRecord as error:
        if error.fault in _DAMAGE:
            raise
    except StoreError:
        pass  # retention has just removed the file
    return None
