"""Which transactions of a producer group this process is to check now: the client's part of actors/check_backs.py.

Each look passes over the half messages that are new since the one before, in shared memory, and remembers those that are open
and wanted. Most transactions end before they are due, and nobody is asked about them. For those that are due and still open,
the coordinator says whether this process may check them."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orbitmq.client.connection.connection import Connection
from orbitmq.client.lookup import reader_of
from orbitmq.client.transaction.open_transactions import FAR_S, OpenTransaction, described, open_offsets, question_about
from orbitmq.errors import CorruptRecord
from orbitmq.native._core import lib
from orbitmq.native._types import Reader
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.halves import HALF_TOPIC

if TYPE_CHECKING:
    from orbitmq.client.connection.attachment import Attachment

AT_ONCE = 16  # checks that one process is given together: the last one is begun soon after it was given
LOOK_S, LOOK_S_MIN = 1.0, 0.01  # between two looks for new half messages
_logger = logging.getLogger("orbitmq")


@dataclass(frozen=True, slots=True)
class DueCheck:
    """gives_up: it was checked often enough, and is not to be checked again."""

    transaction: OpenTransaction
    gives_up: bool


@dataclass(order=True, slots=True)
class _Known:
    """due_s: by time.monotonic. asked: what the coordinator is told."""

    due_s: float
    offset: int
    asked: list[int] = field(compare=False)


class DueChecks:
    """For one thread at a time. wanted: whether an open transaction is one of those that this process can answer for; asked
    once for each. stopping: ends a long look early."""

    def __init__(
        self, connection: Connection, wanted: Callable[[OpenTransaction], bool], stopping: Callable[[], bool]
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._stopping = stopping
        self._generation = 0
        self._reader: Reader | None = None
        self._seen = 0  # all half messages below it were looked at
        self._known: list[_Known] = []  # a heap
        self._timeout_s = self._interval_s = 0.0
        self._look_s = LOOK_S

    def take(self) -> list[DueCheck]:
        """Those that are this process's until the interval is over. Raises: BrokerNotRunning, and what else `ask` does."""
        attachment = self._connection.attach(0.0)
        if attachment.generation != self._generation:
            self._begin(attachment)
        self._look(attachment)
        due: list[_Known] = []
        while self._known and len(due) < AT_ONCE and self._known[0].due_s <= time.monotonic():
            known = heapq.heappop(self._known)
            if lib.control_half_state(attachment.control, known.offset) == lib.HALF_OPEN:
                due.append(known)
        return list(self._asked(attachment, due)) if due else []

    @property
    def pause_s(self) -> float:
        """Until the next look; 0 if more were due than one look gives."""
        due_s = self._known[0].due_s - time.monotonic() if self._known else FAR_S
        return 0.0 if due_s <= 0 else max(LOOK_S_MIN, min(self._look_s, due_s))

    def _begin(self, attachment: Attachment) -> None:
        """In another life of the broker, or another broker of this name."""
        self._reader, self._known, self._seen = None, [], 0
        times = self._connection.ask("check_transactions", generation=attachment.generation, halves=[])
        self._timeout_s, self._interval_s = times["timeout_ms"] / 1000, times["interval_ms"] / 1000
        self._look_s = min(LOOK_S, max(LOOK_S_MIN, min(self._timeout_s, self._interval_s) / 4))
        self._generation = attachment.generation

    def _look(self, attachment: Attachment) -> None:
        table = TopicTable(attachment.topics)
        topic = table.find(HALF_TOPIC)
        if topic is None or not lib.control_halves_ready(attachment.control):
            return
        bounds = table.bounds(topic.first_slot)
        if self._reader is None:
            self._reader = reader_of(attachment)
            self._reader.add(topic.first_slot, bounds.minimum)
        for offset in open_offsets(attachment, max(self._seen, bounds.minimum), bounds.maximum):
            if self._stopping():
                return
            found = self._read(offset)
            if found is not None and self._wanted(found):
                heapq.heappush(self._known, self._of(found))
            self._seen = offset + 1
        self._seen = max(self._seen, bounds.maximum)

    def _read(self, offset: int) -> OpenTransaction | None:
        """None: it is not there any more, or damaged."""
        assert self._reader is not None
        self._reader.seek(0, offset)
        try:
            for message in self._reader.messages(1):
                return described(message) if message.offset == offset else None
        except CorruptRecord as error:
            _logger.warning("cannot check a transaction: %s", error)
        return None

    def _of(self, found: OpenTransaction) -> _Known:
        asked, now_ms = question_about(found.message), time.time_ns() // 1_000_000
        immune_ms = asked[3]
        wait_s = (found.begun_ms - now_ms) / 1000 + (self._timeout_s if immune_ms < 0 else immune_ms / 1000)
        # If the clock was set back, the coordinator is asked at once.
        due_s = time.monotonic() + (wait_s if found.begun_ms <= now_ms else 0.0)
        return _Known(due_s, found.message.offset, asked)

    def _asked(self, attachment: Attachment, due: list[_Known]) -> Iterator[DueCheck]:
        again: list[_Known] = due
        try:
            halves = [known.asked for known in due]
            answer: Any = self._connection.ask("check_transactions", generation=attachment.generation, halves=halves)
            again = []
        finally:
            for known in again:
                heapq.heappush(self._known, known)
        crash_point("due_checks_taken")
        for known, (what, number) in zip(due, answer["answers"], strict=True):
            if what == "closed":
                continue
            known.due_s = time.monotonic() + (number / 1000 if what == "later" else self._interval_s)
            heapq.heappush(self._known, known)
            found = None if what == "later" else self._read(known.offset)
            if found is not None:
                yield DueCheck(replace(found, checks=number), what == "give up")
