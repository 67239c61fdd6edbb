"""Check-backs of remote producers (docs/transactions.md): a client of the producer group is asked how a transaction ends that
nobody has ended. Its answer comes as any end of a transaction does.

Each look passes over the half messages that are new since the one before, in shared memory, and remembers those that are open
and whose group has a client here. For those that are due and still open, the coordinator says whether this process may check
them, as it does for local producers: so one process at a time asks, and what was asked about is written down."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from orbitmq.errors import CorruptRecord
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Reader
from orbitmq.remoting.half_message import asked_fields, asked_record
from orbitmq.remoting.host import Host
from orbitmq.remoting.producers import Producers
from orbitmq.store.commit_log.record import Record, parse
from orbitmq.store.halves import HALF_TOPIC, OP_TOPIC

CHECK_TRANSACTION_STATE = 39
AT_ONCE = 16  # halves in one question to the coordinator
READ_ONCE = 512  # halves that one look reads
LOOK_S, LOOK_S_MIN = 1.0, 0.01  # between two looks
IMMUNITY, CHECKS = "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES"
_FAR_S = 1_000_000_000


@dataclass(order=True, slots=True)
class _Known:
    """due_s: by time.monotonic. asked: what the coordinator is told."""

    due_s: float
    offset: int
    group: str = field(compare=False)
    asked: list[int] = field(compare=False)


class CheckBacks:
    """control: a struct control *. give_up: has the half of these offsets, in its queue and in the log, be given up."""

    def __init__(self, host: Host, producers: Producers, control: Any, give_up: Callable[[int, int], object]) -> None:
        self._host = host
        self._producers = producers
        self._control = control
        self._give_up = give_up
        self._reader: Reader | None = None
        self._arrivals = 0
        self._seen = 0  # all half messages below it were looked at
        self._known: list[_Known] = []  # a heap
        self._times: tuple[float, float] | None = None  # of the settings: timeout, interval
        self._next_s = 0.0

    @property
    def pause_s(self) -> float:
        """Until the next look; without a producer none is needed."""
        return max(0.0, self._next_s - time.monotonic()) if self._producers else LOOK_S

    def look(self) -> None:
        """Does what is to be done now. Raises: OrbitError, OSError: the coordinator cannot answer now; it is asked again."""
        if not self._producers or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + LOOK_S  # also if it fails
        if self._times is None:
            times, _ = self._host.ask("check_transactions", halves=[])
            self._times = times["timeout_ms"] / 1000, times["interval_ms"] / 1000
        if self._arrivals != self._producers.arrivals:  # what was passed over may be of that group
            self._arrivals, self._seen, self._known = self._producers.arrivals, 0, []
        timeout_s, interval_s = self._times
        finished = self._find(timeout_s)
        self._check(interval_s)
        look_s = min(LOOK_S, min(self._times) / 4, self._known[0].due_s - time.monotonic() if self._known else LOOK_S)
        self._next_s = time.monotonic() + (max(LOOK_S_MIN, look_s) if finished else 0.0)

    def _find(self, timeout_s: float) -> bool:
        """Remembers those that are new. False: some are left for the next look."""
        topic = self._host.topics.find(HALF_TOPIC)
        if topic is None or not lib.control_halves_ready(self._control):
            return True
        bounds = self._host.topics.bounds(topic.first_slot)
        if self._reader is None:
            address = int(ffi.cast("uintptr_t", self._control))
            self._reader = Reader(address, int(ffi.cast("uintptr_t", self._host.topics.table)), self)
            self._reader.add(topic.first_slot, bounds.minimum)
        offset = max(self._seen, bounds.minimum)
        for _ in range(READ_ONCE):
            offset = int(lib.control_next_open_half(self._control, offset, bounds.maximum))
            if offset >= bounds.maximum:
                break
            half = self._read(offset)
            if half is not None and (group := half.properties.get("PGROUP", "")) in self._producers:
                heapq.heappush(self._known, _known(half, group, timeout_s))
            offset += 1
        self._seen = max(self._seen, offset)
        return offset >= bounds.maximum

    def _read(self, offset: int) -> Record | None:
        """None: it is not there any more, or damaged."""
        assert self._reader is not None
        self._reader.seek(0, offset)
        try:
            for message in self._reader.messages(1):
                found = parse(message.record()) if message.offset == offset else None
                return found if isinstance(found, Record) else None
        except CorruptRecord:
            pass  # a half that is damaged is not checked
        return None

    def _check(self, interval_s: float) -> None:
        """Those that are due."""
        due: list[_Known] = []
        now_s = time.monotonic()
        while self._known and len(due) < AT_ONCE and self._known[0].due_s <= now_s:
            known = heapq.heappop(self._known)
            if lib.control_half_state(self._control, known.offset) == lib.HALF_OPEN and known.group in self._producers:
                due.append(known)
        if not due:
            return
        try:
            answer, _ = self._host.ask("check_transactions", halves=[known.asked for known in due])
        except BaseException:
            for known in due:
                heapq.heappush(self._known, known)
            raise
        for known, (what, number) in zip(due, answer["answers"], strict=True):
            if what == "closed":
                continue
            known.due_s = time.monotonic() + (number / 1000 if what == "later" else interval_s)
            heapq.heappush(self._known, known)
            if what == "check":
                self._ask(known)
            elif what == "give up":
                self._host.ask("prepare_waiting", topic=OP_TOPIC)  # a store of RocketMQ's may not have the topic for it yet
                self._give_up(known.asked[0], known.asked[1])

    def _ask(self, known: _Known) -> None:
        half = self._read(known.offset)
        if half is None:
            return
        fields, record = asked_fields(half), asked_record(half)
        turns: Iterator[Any] = self._producers.turns(known.group)
        any(self._host.tell(client, CHECK_TRANSACTION_STATE, fields, record) for client in turns)


def _known(half: Record, group: str, timeout_s: float) -> _Known:
    now_ms, names = time.time_ns() // 1_000_000, half.properties
    immune_s = _number(names.get(IMMUNITY), -1)
    wait_s = (half.store_ms - now_ms) / 1000 + (timeout_s if immune_s < 0 else immune_s)
    immune_ms = 1000 * immune_s if immune_s >= 0 else -1
    asked = [half.queue_offset, half.physical_offset, half.store_ms, immune_ms, _number(names.get(CHECKS), 0)]
    # If the clock was set back, the coordinator is asked at once.
    due_s = time.monotonic() + (wait_s if half.store_ms <= now_ms else 0.0)
    return _Known(due_s, half.queue_offset, group, asked)


def _number(text: str | None, otherwise: int) -> int:
    """A number of seconds or checks that a message has as a property."""
    return min(int(text), _FAR_S) if text is not None and text.isascii() and text.isdecimal() and len(text) < 20 else otherwise
