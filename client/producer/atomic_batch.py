"""An atomic batch: messages to any topics, of which all are stored or none.

The block of `with` collects messages. Its end sends them with one call (native/python/producer/atomic.c) and waits for their
receipts. If the block ends with an exception, or in a forked child, nothing is sent. docs/atomic-batches.md says what is
promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from orbitmq.client.connection.born_in import BornIn
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.consumer.group_offsets import GroupOffsets
from orbitmq.client.parameters import Unknown, refuse_unknown, spelled
from orbitmq.client.producer.body import Body
from orbitmq.client.receipt import Receipts
from orbitmq.errors import TimedOut, UsageError
from orbitmq.native._types import PendingBatch, ProducerBase
from orbitmq.shm.durability import Durability

# What C takes of a message: the values of topic, body and the other arguments, and the names of those.
Given = tuple[tuple[Any, ...], tuple[str, ...]]

NO_KEYS: tuple[str, ...] = ()
_NAMES = ("tags", "keys", "queue", "queue_key", "properties", "flag", "delay_level", "delay", "deliver_at")


def _copy(body: bytearray | memoryview) -> bytes:
    """Raises: TypeError: it is no body: bytes(5) would be five zeros."""
    try:
        return bytes(memoryview(body))
    except TypeError:
        raise TypeError(f"a body must be bytes, str or a buffer, not {type(body)!r}") from None


@spelled
class Collected:
    """Messages of an atomic batch that is not sent yet."""

    _with = "with"

    def __init__(self, dedup: str | bytes | None) -> None:
        self._dedup = dedup
        self._messages: list[Given] = []
        self._offsets: GroupOffsets | None = None
        self._receipts: Receipts | None = None
        self._born = BornIn()
        self._begun = False
        self._over = False

    def send(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = NO_KEYS,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        **unknown: Unknown,
    ) -> int:
        """Adds a message, with the arguments of Producer.send. Returns its number in the batch, from 0.

        Nothing is checked or sent before the end of the block. What can change of the arguments is copied now.

        Raises: UsageError: its block has not begun, or has ended. TypeError: this is no body.
        """
        if unknown:
            refuse_unknown(self.send, unknown)
        if self._over or not self._begun:
            raise self._outside("add a message to an atomic batch")
        if keys is not NO_KEYS and keys is not None and not isinstance(keys, (str, tuple)) and hasattr(keys, "__iter__"):
            keys = tuple(keys)
        if properties is not None and hasattr(properties, "items"):  # anything else is refused at the end, as by a send
            properties = dict(properties)
        copied = body if body.__class__ is bytes or isinstance(body, (bytes, str)) else _copy(body)
        own = (topic, copied, tags, keys, queue, queue_key, properties, flag, delay_level, delay, deliver_at)
        messages = self._messages
        messages.append((own, _NAMES))
        return len(messages) - 1

    @property
    def receipts(self) -> Receipts:
        """The receipts, in the order of the messages, once the block has ended.

        Raises: UsageError: it has not, or it failed.
        """
        if self._receipts is None:
            when = "because its block failed" if self._over else "before its block has ended"
            raise UsageError(f"could not give the receipts of an atomic batch: it has none {when}")
        return self._receipts

    def __len__(self) -> int:
        return len(self._messages)

    def _outside(self, doing: str) -> UsageError:
        """The error of a call outside the block: what it gave would never be sent."""
        if self._over:
            return UsageError(f"could not {doing}: its block has ended")
        hint = f"write `{self._with} producer.batch() as batch:`"
        return UsageError(f"could not {doing}: its block has not begun", hint=hint)

    def _begin(self) -> None:
        if self._begun:
            raise UsageError("could not begin the block of an atomic batch: it has only one; call batch() for another")
        self._born = BornIn()
        self._begun = True

    def _check_commit(self, consumer: object, kind: type) -> None:
        """Raises: TypeError: the consumer is not of this kind. UsageError."""
        if not isinstance(consumer, kind):
            raise TypeError(f"could not commit offsets with an atomic batch: {consumer!r:.100} is not a {kind.__name__}")
        if self._over or not self._begun:
            raise self._outside("commit offsets with an atomic batch")
        if self._dedup is not None:
            hint = "leave out the id: the offsets tell whether the batch was stored before"
            raise UsageError("could not commit offsets with an atomic batch: it has an id", hint=hint)
        if self._offsets is not None:
            hint = "use one consumer, and one batch each time"
            raise UsageError("could not commit offsets with an atomic batch: it commits offsets already", hint=hint)

    def _left_here(self, error: BaseException | None) -> bool:
        """Whether the block ends in the process in which it began. Raises: UsageError: it ends normally, in a forked child."""
        if error is None:
            self._born.check("send an atomic batch", "collect another one here")
        return self._born.here()

    def _take(self) -> tuple[Given, ...]:
        self._over = True
        offsets = None if self._offsets is None else self._offsets.message
        return tuple(self._messages) if offsets is None else (*self._messages, offsets)

    def _sent(self, receipts: Receipts) -> None:
        self._receipts = receipts.first(len(self._messages))
        if self._offsets is not None:
            self._offsets.stored()

    def _failed(self, error: BaseException) -> BaseException:
        """Returns what to tell."""
        if self._offsets is None:
            return error
        self._offsets.step_back()
        return self._offsets.reworded(error)


@spelled
class AtomicBatch(Collected):
    """Made by `Producer.batch()`."""

    def __init__(
        self, producer: ProducerBase, durability: Durability | None, dedup: str | bytes | None, timeout: float
    ) -> None:
        super().__init__(dedup)
        self._producer = producer
        self._durability = durability
        self._timeout = timeout

    def commit(self, consumer: Consumer) -> None:
        """Everything that was delivered to the consumer so far counts as done if, and only if, this batch is stored
        (docs/exactly-once.md). Once for each batch. Call it first in the block: if the block or its end fails, what was not
        committed comes again.

        Raises: UsageError: the consumer has no group; the batch commits already, or has been sent. Fenced: some of the messages
            can no longer be committed. Leave the block then; they come again, here or at another member.
        """
        self._check_commit(consumer, Consumer)
        self._offsets = GroupOffsets(consumer)

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._left_here(error):
            return
        messages = self._take()
        if error is not None:
            self._failed(error)
        elif not messages:
            self._receipts = Receipts(None)
        else:
            try:
                receipts = self._send(messages)
            except BaseException as failed:
                if (told := self._failed(failed)) is failed:
                    raise
                raise told from None
            self._sent(receipts)
            if self._offsets is not None:
                self._offsets.let_go()

    def _send(self, messages: tuple[Given, ...]) -> Receipts:
        pending: PendingBatch = self._producer.post_atomic(
            messages, self._durability, self._timeout, self._dedup
        )
        try:
            return pending.result(self._timeout)
        except TimedOut as late:
            late.pending = pending
            raise
