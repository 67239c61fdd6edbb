"""Which transactions have not ended: the half messages that the writer has not settled (native/shared/halves.h)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.client.lookup import reader_of
from orbitmq.client.message import Message
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.halves import HALF_TOPIC

if TYPE_CHECKING:
    from orbitmq.client.lookup import Attached


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has not ended.

    Attributes:
        id: as Transaction.id; "" for one of another broker's client that gave it none.
        topic: to which its message goes, if it is committed.
        queue: likewise.
        group: the producer group.
        begun_ms: when its half message was stored, milliseconds since the epoch.
        message: the half message.
        checks: how often check-backs have asked about it; in one, with this time.
        check_due_ms: when one may ask next, milliseconds since the epoch; 0: in a check-back, where that is not known.
    """

    id: str
    topic: str
    queue: int
    group: str
    begun_ms: int
    message: Message = field(compare=False)
    checks: int = field(default=0, compare=False)
    check_due_ms: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """Where the half message lies, as `orbitmq transactions` shows and takes it."""
        return f"{HALF_TOPIC}/0@{self.message.offset}"

    @property
    def body(self) -> bytes:
        """A copy of the body."""
        return bytes(self.message)

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return max(0.0, time.time() - self.begun_ms / 1000)


def open_transactions(attached: Attached, group: str | None) -> Iterator[OpenTransaction]:
    """The oldest first, once the writer knows which have ended. Raises: CorruptRecord: one of the half messages is damaged."""
    table = TopicTable(attached.topics)
    topic = table.find(HALF_TOPIC)
    if topic is None:
        return
    bounds = table.bounds(topic.first_slot)
    with closing(reader_of(attached)) as reader:
        reader.add(topic.first_slot, bounds.minimum)
        for offset in open_offsets(attached, bounds.minimum, bounds.maximum):
            reader.seek(0, offset)
            for message in reader.messages(1):
                found = described(message)
                if message.offset == offset and group in (None, found.group):
                    yield found


def open_offsets(attached: Attached, begin: int, end: int) -> Iterator[int]:
    """Queue offsets in [begin, end) of half messages that are not settled at the moment when each is given."""
    while (begin := int(lib.control_next_open_half(attached.control, begin, end))) < end:
        yield begin
        begin += 1


IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECKS = "TRANSACTION_CHECK_TIMES"
FAR_S = 1_000_000_000


def question_about(half: Message) -> list[int]:
    """What the coordinator is asked with about checks of this half (Asked in actors/check_backs.py)."""
    immune_s = number_of(half.properties.get(IMMUNITY), -1)
    immune_ms = 1000 * immune_s if immune_s >= 0 else -1
    return [half.offset, half.physical_offset, half.stored_ms, immune_ms, number_of(half.properties.get(CHECKS), 0)]


def number_of(text: str | None, otherwise: int) -> int:
    """A number of seconds or checks that a message has as a property."""
    return min(int(text), FAR_S) if text is not None and text.isascii() and text.isdecimal() and len(text) < 20 else otherwise


def described(half: Message, checks: int = 0) -> OpenTransaction:
    names = half.properties
    queue = names.get("REAL_QID", "")
    number = int(queue) if queue.isdecimal() else 0
    return OpenTransaction(
        names.get("UNIQ_KEY", ""), names.get("REAL_TOPIC", ""), number, names.get("PGROUP", ""), half.stored_ms, half, checks
    )
