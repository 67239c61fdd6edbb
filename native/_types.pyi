"""Types of the extension module over native/python. scripts/stub_docs puts the docstrings here."""
# ruff: noqa: E501

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from _typeshed import ReadableBuffer as Buffer
from _typeshed import WriteableBuffer

from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.producer.body import BatchKeys, BatchProperties, Bodies, Body
from orbitmq.client.receipt import Receipt, Receipts

_Item = TypeVar("_Item")

class Pending:
    """A message on its way."""

    def done(self) -> bool:
        """True if result() would return at once. Never waits."""
    def result(self, timeout: float | None = None) -> Receipt:
        """Waits for the receipt.

        Args:
            timeout: seconds; None: for ever. The wait also ends when the broker ends.

        Returns: the Receipt. It can be asked for again.

        Raises:
            TimedOut: the message is still on its way; call again.
            PerhapsStored: the broker died with it in flight. Look for it by its key before you send it again.
            StoreFull, StoreFailed: a failure of the disk. docs/errors.md says what is stored then.
            UnknownTopic, UnknownQueue, NoPermission, MessageTooLarge, PropertiesTooLarge, PropertyError: the broker refused it.
            Closed: it was sent by the process that this one was forked from.
        """
    def __await__(self) -> Generator[Any, None, Receipt]: ...
    @property
    def flush_end(self) -> int:
        """int: the log must be on disk up to this byte before done() is True; 0: it need not, or the verdict has not come yet"""
    @property
    def answered(self) -> bool:
        """bool: whether the verdict has come (of a batch, all of them), whatever the disk does"""

class PendingBatch:
    """Messages of one call on their way."""

    def done(self) -> bool:
        """True if result() would return at once. Never waits."""
    def result(self, timeout: float | None = None) -> Receipts:
        """Waits for the receipts of all messages.

        Args:
            timeout: seconds; None: for ever. The wait also ends when the broker ends.

        Returns: Receipts, in the order of the bodies.

        Raises: TimedOut: some are still on their way; call again. Otherwise the error of the first message that was not stored,
        as from Pending.result, with these attributes:
            receipts: Receipts of all of them; receipts[i] raises why message i has none.
            index: the first that was refused, from 0.
            failed: how many were refused.
        """
    def receipt(self, index: int, /) -> Receipt:
        """The receipt of one message whose verdict has come, by its place in the batch from 0; raises why it has none."""
    def cut(self) -> int:
        """Ends a batch that `push` has sent in part: from now on it is the batch of those messages. Returns how many they are."""
    def __len__(self) -> int: ...
    def __await__(self) -> Generator[Any, None, Receipts]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def flush_end(self) -> int:
        """int: the log must be on disk up to this byte before done() is True; 0: it need not, or the verdict has not come yet"""
    @property
    def answered(self) -> bool:
        """bool: whether the verdict has come (of a batch, all of them), whatever the disk does"""

class ProducerBase:
    """The methods of a producer that are called once a message."""

    def __init__(
        self, wait: bool, durability: Literal["appended", "flushed"] | None, timeout: float, rides: bool, /
    ) -> None: ...
    def send(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Sends a message and waits for its receipt.

        Args:
            topic: an existing topic.
            body: bytes, another buffer, or str, which is sent as UTF-8. Copied before the call returns. Body and properties take
                message_max bytes of the producer and of the broker at most.
            tags: one tag, for consumers that filter by it.
            keys: a key or several, to find the message by (Client.find); without blanks.
            queue: number of the topic's queue, from 0; None: the queues take turns.
            queue_key: str or bytes, instead of queue: messages with equal keys go to the same queue, in order.
            properties: other names and values, str; together with tags and keys at most 32,767 bytes.
            flag: a number of the sender's own, signed 32 bits.
            dedup: an id, str or bytes of 1 to 255 bytes: if a message was stored under it within the last dedup_window_s, in this
                topic, this one is not stored again, and the receipt is that of the first, with duplicate=True.
            durability: "appended": survives the death of any process; "flushed": is on disk; None: the producer's level,
                else the topic's.
            delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is of
                its place among waiting messages. None or 0: at once.
            delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.
            deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.
            timeout: seconds to wait, for room and then for receipts; None: the producer's.

        Returns: the Receipt: where the message is, and how safe it is there.

        Raises:
            UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, SettingError:
                the message cannot be sent in this form, and is not stored.
            Full: there is no room now, and the producer was made with on_full="error". NoMeans: the process lacks a resource.
            BrokerNotRunning: nothing was sent. Closed: the producer was closed.
            TimedOut: with the attribute `pending`, the message is on its way, and pending.result() waits for it: sending it again
                may store it twice. Without it, the message was not sent.
            PerhapsStored: the broker died with it in flight. Look for it by its key before you send it again.
            StoreFull, StoreFailed: a failure of the disk. docs/errors.md says what is stored then.
        """
    def send_async(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Pending:
        """Sends a message without waiting for its receipt.

        Args:
            topic: an existing topic.
            body: bytes, another buffer, or str, which is sent as UTF-8. Copied before the call returns. Body and properties take
                message_max bytes of the producer and of the broker at most.
            tags: one tag, for consumers that filter by it.
            keys: a key or several, to find the message by (Client.find); without blanks.
            queue: number of the topic's queue, from 0; None: the queues take turns.
            queue_key: str or bytes, instead of queue: messages with equal keys go to the same queue, in order.
            properties: other names and values, str; together with tags and keys at most 32,767 bytes.
            flag: a number of the sender's own, signed 32 bits.
            dedup: an id, str or bytes of 1 to 255 bytes: if a message was stored under it within the last dedup_window_s, in this
                topic, this one is not stored again, and the receipt is that of the first, with duplicate=True.
            durability: "appended": survives the death of any process; "flushed": is on disk; None: the producer's level,
                else the topic's.
            delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is of
                its place among waiting messages. None or 0: at once.
            delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.
            deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.
            timeout: seconds to wait, for room and then for receipts; None: the producer's.

        Returns: a Pending, once the message is on its way. Waits only for room.

        Raises:
            UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, SettingError:
                the message cannot be sent in this form, and is not stored.
            Full: there is no room now, and the producer was made with on_full="error". NoMeans: the process lacks a resource.
            BrokerNotRunning: nothing was sent. Closed: the producer was closed.
            TimedOut: there was no room in time; the message was not sent.

        Later failures (PerhapsStored, StoreFull, StoreFailed) are raised by the Pending's result().
        """
    def send_oneway(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Sends a message without asking for a receipt. `failed` counts messages that were not stored.

        Args:
            topic: an existing topic.
            body: bytes, another buffer, or str, which is sent as UTF-8. Copied before the call returns. Body and properties take
                message_max bytes of the producer and of the broker at most.
            tags: one tag, for consumers that filter by it.
            keys: a key or several, to find the message by (Client.find); without blanks.
            queue: number of the topic's queue, from 0; None: the queues take turns.
            queue_key: str or bytes, instead of queue: messages with equal keys go to the same queue, in order.
            properties: other names and values, str; together with tags and keys at most 32,767 bytes.
            flag: a number of the sender's own, signed 32 bits.
            dedup: an id, str or bytes of 1 to 255 bytes: if a message was stored under it within the last dedup_window_s, in this
                topic, this one is not stored again, and the receipt is that of the first, with duplicate=True.
            durability: "appended": survives the death of any process; "flushed": is on disk; None: the producer's level,
                else the topic's.
            delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is of
                its place among waiting messages. None or 0: at once.
            delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.
            deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.
            timeout: seconds to wait, for room and then for receipts; None: the producer's.

        Raises:
            UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, SettingError:
                the message cannot be sent in this form, and is not stored.
            Full: there is no room now, and the producer was made with on_full="error". NoMeans: the process lacks a resource.
            BrokerNotRunning: nothing was sent. Closed: the producer was closed.
            TimedOut: there was no room in time; the message was not sent.

        Later failures (PerhapsStored, StoreFull, StoreFailed) are only counted in `failed`; flush() waits for all verdicts.
        """
    def send_batch(
        self,
        topic: str,
        bodies: Bodies,
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: BatchKeys | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        properties: BatchProperties | None = None,
        dedup: Sequence[str | bytes] | None = None,
        timeout: float | None = None,
    ) -> Receipts:
        """Sends many messages of one topic and waits for their receipts. Much cheaper than as many calls of send().

        Args:
            topic: an existing topic.
            bodies: bytes, other buffers or str, one a message; each within the limits of send().
            tags: one tag for all messages, or a sequence of a tag or None for each.
            keys: a sequence with the key or keys of each message, or None for it.
            properties: one mapping from str to str for all messages, or a sequence of a mapping or None for each.
            queue: number of the topic's queue, from 0; None: each queue gets a run of consecutive messages.
            queue_key: str or bytes instead of queue, for all messages.
            dedup: a sequence with the id of each message; see send().
            durability: "appended": survives the death of any process; "flushed": is on disk; None: the producer's level,
                else the topic's.
            delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is of
                its place among waiting messages. None or 0: at once.
            delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.
            deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.
            timeout: seconds to wait, for room and then for receipts; None: the producer's.

        Returns: Receipts, in the order of the bodies.

        Raises:
            UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, SettingError:
                the message cannot be sent in this form, and is not stored.
            Full: there is no room now, and the producer was made with on_full="error". NoMeans: the process lacks a resource.
            BrokerNotRunning: nothing was sent. Closed: the producer was closed.
            TimedOut: the rest had no room, or receipts are missing; see below.
            PerhapsStored: the broker died with it in flight. Look for it by its key before you send it again.
            StoreFull, StoreFailed: a failure of the disk. docs/errors.md says what is stored then.

        A batch is not all or nothing: the error is that of the first message which was not stored. Its attributes describe the others.
        If all messages were sent:
            receipts: Receipts of all of them; receipts[i] raises why message i has none.
            index: the first that was refused, from 0.
            failed: how many were refused.
        If the call ended before that:
            sent: the first `sent` bodies are on their way or stored; the others were not sent.
            pending: the PendingBatch of those; also if the time was over before all receipts had come.
        """
    def send_batch_async(
        self,
        topic: str,
        bodies: Bodies,
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: BatchKeys | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        properties: BatchProperties | None = None,
        dedup: Sequence[str | bytes] | None = None,
        timeout: float | None = None,
    ) -> PendingBatch:
        """Sends many messages of one topic without waiting for their receipts.

        Args:
            topic: an existing topic.
            bodies: bytes, other buffers or str, one a message; each within the limits of send().
            tags: one tag for all messages, or a sequence of a tag or None for each.
            keys: a sequence with the key or keys of each message, or None for it.
            properties: one mapping from str to str for all messages, or a sequence of a mapping or None for each.
            queue: number of the topic's queue, from 0; None: each queue gets a run of consecutive messages.
            queue_key: str or bytes instead of queue, for all messages.
            dedup: a sequence with the id of each message; see send().
            durability: "appended": survives the death of any process; "flushed": is on disk; None: the producer's level,
                else the topic's.
            delay_level: from 1 (a second) to 18 (two hours), see docs/delay.md: consumers get it so much later. The receipt is of
                its place among waiting messages. None or 0: at once.
            delay: seconds, or a timedelta, up to 366 days: the same, to the millisecond.
            deliver_at: a datetime, or seconds since 1970: the same, at that time; at once if it is over.
            timeout: seconds to wait, for room and then for receipts; None: the producer's.

        Returns: a PendingBatch, once all of them are on their way. Waits only for room.

        Raises:
            UnknownTopic, UnknownQueue, NoPermission, TopicNameError, MessageTooLarge, PropertiesTooLarge, PropertyError, SettingError:
                the message cannot be sent in this form, and is not stored.
            Full: there is no room now, and the producer was made with on_full="error". NoMeans: the process lacks a resource.
            BrokerNotRunning: nothing was sent. Closed: the producer was closed.
            TimedOut: the rest had no room; see below.
            PerhapsStored: the broker died before all of them were sent.

        A batch is not all or nothing: the error is that of the first message which was not stored. Its attributes describe the others.
        If all messages were sent:
            receipts: Receipts of all of them; receipts[i] raises why message i has none.
            index: the first that was refused, from 0.
            failed: how many were refused.
        If the call ended before that:
            sent: the first `sent` bodies are on their way or stored; the others were not sent.
            pending: the PendingBatch of those; also if the time was over before all receipts had come.

        receipts, index and failed come with the error that the PendingBatch's result() raises.
        """
    def post_atomic(
        self,
        messages: tuple[tuple[tuple[object, ...], tuple[str, ...]], ...],
        durability: Literal["appended", "flushed"] | None,
        timeout: float | None,
        dedup: str | bytes | None = None,
        /,
    ) -> PendingBatch:
        """Sends the messages of an atomic batch, and returns their PendingBatch. messages: for each, the arguments of send() and the
        names of the last of them, as two tuples. dedup: the id of the batch. Producer.batch calls it.
        """
    def make_batch(
        self,
        topic: str,
        bodies: Bodies,
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: BatchKeys | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        properties: BatchProperties | None = None,
        dedup: Sequence[str | bytes] | None = None,
        timeout: float | None = None,
    ) -> PendingBatch:
        """A batch of which nothing is sent yet; `push` sends it. Arguments are those of send_batch_async."""
    def send_columns(
        self,
        topic: str,
        rows: int,
        body_offsets: Buffer,
        bodies: Buffer,
        property_offsets: Buffer,
        properties: Buffer,
        queues: Buffer | None,
        flags: Buffer | None,
        key_offsets: Buffer | None,
        keys: Buffer | None,
        durable: bool,
        /,
    ) -> PendingBatch:
        """Sends a batch out of Arrow's buffers, as the Spark sink does, without waiting for receipts. Offsets are of 64 bits, one
        more than rows. properties: in their stored form. queues, flags: of 32 bits; key_offsets and keys: texts by which
        messages find their queues; each of them may be None. durable: receipts wait for the disk. Returns: a PendingBatch.
        """
    def push(self, batch: PendingBatch, /) -> bool:
        """Sends as much of a batch as there is room for now, and never waits. Returns whether all of it was sent."""
    def _attach(self, handle: SessionHandle, /) -> None: ...
    def _leave(self) -> None: ...
    def _identify(self, name: str, /) -> None: ...
    def _lose(self) -> None: ...
    def prepare(self) -> None:
        """Opens a session if there is none, as a send does."""
    def _settle(self, timeout: float | None, /) -> bool: ...
    def wait_settled(self, settled: int, end: int, timeout: float | None, /) -> bool:
        """Waits until the message after `settled` has its verdict; or, unless `end` is 0, until the disk has reached that byte of the
        log. Ends earlier with the broker, or after `timeout` seconds. False: there is no session to wait on.
        """
    def retire(self) -> None:
        """Closes the producer at once: messages that are in flight end in PerhapsStored."""
    @property
    def in_flight(self) -> int:
        """int: messages sent and not yet answered"""
    @property
    def failed(self) -> int:
        """int: messages of send_oneway, and of dropped Pendings, that were not stored"""
    @property
    def closed(self) -> bool:
        """bool: whether close() was called"""
    @property
    def ready(self) -> bool:
        """bool: whether a send would find a session, and need not open one"""
    @property
    def settled(self) -> int:
        """int: number of the last message, counted from the first one of the session, whose verdict was taken"""

class Message:
    """One message: a view into the log that keeps its file mapped. bytes(message) copies the body; len() is the length of the
    body."""

    @classmethod
    def from_record(cls, data: bytes, /) -> Message:
        """A message over one whole stored record.

        Args:
            data: bytes, which the message keeps; as from record().

        Raises: CorruptRecord: this is not a record, or the body does not match its CRC.
        """
    def reply(
        self,
        body: Body,
        *,
        keys: str | Sequence[str] | None = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Replies to this message, which must be a request; see docs/request-reply.md. An event loop awaits AsyncClient.reply.

        Args:
            body: bytes, another buffer or str.
            keys, properties, flag, durability: of the reply, as in Producer.send.
            timeout: seconds to wait for the receipt; None: as producers do.

        Returns: the Receipt of the reply. Whether the requester still waits is not known.

        Raises: UsageError: this is no request, or the message came by no client; and what Producer.send raises.
        """
    def record(self) -> bytes:
        """The whole record as it is stored: bytes, a copy. Message.from_record reads it."""
    def __len__(self) -> int: ...
    def __bool__(self) -> Literal[True]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def body(self) -> memoryview:
        """memoryview: into the mapped log, no copy; of a decompressed copy if it is stored compressed"""
    @property
    def topic(self) -> str:
        """str: the topic's name"""
    @property
    def tags(self) -> str | None:
        """str: the tag, or None"""
    @property
    def keys(self) -> list[str]:
        """list of str: the keys that the message can be found by"""
    @property
    def user_properties(self) -> dict[str, str]:
        """dict of str: the properties that the sender chose; another message may be sent with them, as properties="""
    @property
    def properties(self) -> dict[str, str]:
        """dict of str: all that was sent beside the body, tags and keys included"""
    @property
    def id(self) -> str:
        """str: for Client.message: store host and physical offset, 32 hex digits; 56 if that host has an IPv6 address"""
    @property
    def born_host(self) -> str:
        """str: address and port of the remote client that sent it, 10.1.2.3:40000 or [fd00::5]:40000; of a local one 127.0.0.1:0"""
    @property
    def queue(self) -> int:
        """int: number of the topic's queue"""
    @property
    def offset(self) -> int:
        """int: queue offset; the next message of the queue has the next number"""
    @property
    def physical_offset(self) -> int:
        """int: where the record begins, bytes from the beginning of the log"""
    @property
    def size(self) -> int:
        """int: bytes of the whole record"""
    @property
    def born_ms(self) -> int:
        """int: when it was sent, milliseconds since the epoch"""
    @property
    def stored_ms(self) -> int:
        """int: when it was appended, milliseconds since the epoch"""
    @property
    def flag(self) -> int:
        """int: the sender's own, signed 32 bits"""
    @property
    def sys_flag(self) -> int:
        """int: bits of RocketMQ's sysFlag"""
    @property
    def reconsume_times(self) -> int:
        """int: how often it was sent back"""
    @property
    def prepared_offset(self) -> int:
        """int: physical offset of the half message; of a delayed message that came, which one it was (docs/delay.md); or 0"""

class Taken(Exception):
    """Another thread has the turn."""

class Turn:
    """For one with statement; see Turns.within."""

    def __enter__(self) -> int: ...
    def __exit__(self, *error: object) -> None: ...

class Turns:
    """Lets one thread at a time in, in with statements in which no signal handler's exception can lose the lock. It belongs to
    one process: after a fork the child makes another one, because the thread that had the turn may not exist there."""

    def __enter__(self) -> Turns: ...
    def __exit__(self, *error: object) -> None: ...
    def within(self, timeout: float, /) -> Turn: ...
    def locked(self) -> bool: ...

class Loop(Generic[_Item]):
    """The iterator of a `for` statement, which learns how the loop was left."""

    def __init__(self, next: Callable[[], _Item | None], left: Callable[[BaseException | None], None], /) -> None:
        """next: gives the next object; None: there is none any more. left: called as soon as the loop is left, with the
        exception that ended it; None: none did."""
    def __iter__(self) -> Loop[_Item]: ...
    def __next__(self) -> _Item: ...

class AsyncLoop(Generic[_Item]):
    """The same for `async for`."""

    def __init__(
        self, next: Callable[[], Coroutine[Any, Any, _Item]], left: Callable[[BaseException | None], None], /
    ) -> None:
        """next: makes a coroutine that gives the next object, or raises StopAsyncIteration. left: as in Loop."""
    def __aiter__(self) -> AsyncLoop[_Item]: ...
    def __anext__(self) -> Coroutine[Any, Any, _Item]: ...

class ColumnMemory:
    """A buffer of a record batch's column, read-only. Its memory is kept for a later batch."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Reader:
    """Reads queues of a store in batches. One thread at a time may use it."""

    verify: bool
    strict: bool
    home: object
    def __init__(
        self,
        control: int = 0,
        topics: int = 0,
        owner: object = None,
        *,
        store: str = "",
        log_file_size: int = 0,
        queue_file_units: int = 0,
        rising: tuple[int, int] = (0, 0),
    ) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    def add(self, slot: int, position: int, /) -> int: ...
    def add_offline(self, topic: str, queue: int, begin: int, end: int, /) -> int: ...
    def clear(self) -> None: ...
    def bounds(self, cursor: int, /) -> tuple[int, int]: ...
    def seek(self, cursor: int, position: int, /) -> None: ...
    def pause(self, cursor: int, paused: bool, /) -> None: ...
    def positions(self) -> list[int]: ...
    def removals(self) -> list[tuple[int, int, int]] | None: ...
    def search_time(self, cursor: int, store_ms: int, /) -> int: ...
    def since(self, cursor: int, store_ms: int, /) -> int: ...
    def rising(self, cursor: int, /) -> tuple[int, int]: ...
    def filter(self, tags: Sequence[bytes], /) -> None: ...
    def sql(self, text: bytes | None, /) -> None: ...
    def messages(self, most: int, /) -> list[Message]: ...
    def range(self, cursor: int, first: int, count: int, /) -> list[Message]: ...
    def message(self, batch: int, /) -> Message | None: ...
    def gathered(self) -> Message | None: ...
    def bodies(self, most: int, most_bytes: int, /) -> list[bytes]: ...
    def columns(
        self, selection: int, most: int, body_limit: int, /
    ) -> tuple[int, int, int, int, tuple[ColumnMemory | None, ...], list[tuple[object, int, int]]]: ...
    def names(self) -> list[str]: ...
    def record(self, physical_offset: int, /) -> Message: ...
    def ready(self) -> bool: ...
    def close(self) -> None: ...

class PullHold:
    """Sleeps until a reader has news; commits offsets."""

    def __init__(self, handle: SessionHandle) -> None: ...
    def join(self, group: int, epoch: int, /) -> None: ...
    def interests(self, slots: Sequence[int], /) -> None: ...
    def commit(self, offsets: Sequence[int], /) -> bool: ...
    def words(self, memory: WriteableBuffer | None, /) -> None: ...
    def closed(self) -> bool: ...
    def current(self) -> bool: ...
    def gone(self) -> bool: ...
    def dead(self) -> bool: ...
    def check(self) -> int: ...
    def wait(self, reader: Reader, timeout_ns: int, /) -> int: ...
    def spin(self, ns: int, /) -> None: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...
