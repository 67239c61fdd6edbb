"""The producer: sends messages through a session's shared memory and waits for their receipts.

What is called once a message (send, send_async, send_oneway, send_batch) is C: native/fast_producer.c. This class gives
it its sessions and its results.

A producer may be shared by threads. After fork the child's first send opens a session of its own; after the death of
the broker tree the first send to its successor does. Messages that were in flight at a death end in PerhapsStored, one
each.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from orbitmq.client.receipt import Receipts
from orbitmq.client.session import SessionOpener
from orbitmq.client.waiter import Waiter, awaiting, waiter_of
from orbitmq.errors import SettingError, StoreFull, TimedOut
from orbitmq.native._core import ffi, lib
from orbitmq.native._fast import Pending, PendingBatch, ProducerBase
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means
from orbitmq.store.file_system import LOG_KNOB, store_full

WINDOW_MAX: int = lib.SESSION_WINDOW_MAX
MESSAGE_MAX = 4 << 20
MESSAGE_MIN = 1024
MESSAGE_USUAL = 256 << 10
SQ_CAPACITY_MAX: int = lib.SQ_CAPACITY_MAX
SQ_CAPACITY_MIN = 256 << 10
SQ_FRAME = 256  # bytes of the ring for each message of the window: what small messages take, one a frame
_SHORT_OF = {
    errno.EMFILE: "raise the broker's limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (fs.file-max)",
    errno.ENOMEM: "give the machine or container more memory, or raise vm.max_map_count",
}
SQ_MESSAGES = 16  # of the largest size fit into the submission ring; below 8 the sender and the handler take turns


def ring_capacity(message_max: int, window: int) -> int:
    """Submission ring for messages of at most this size, bytes, and so many in flight: a power of two."""
    wanted = min(max(SQ_MESSAGES * message_max, SQ_FRAME * window, SQ_CAPACITY_MIN), SQ_CAPACITY_MAX)
    return 1 << (wanted - 1).bit_length()


def _impossible(setting: str, value: object, why: str) -> SettingError:
    return SettingError(f"could not make a producer with {setting} {value!r}: {why}", setting=setting, value=value)


class Producer(ProducerBase):
    """Made by `Client.producer()`, which documents the settings."""

    def __init__(
        self,
        opener: SessionOpener,
        *,
        window: int = 32768,
        message_max: int = MESSAGE_USUAL,
        on_full: Literal["wait", "error"] = "wait",
        timeout: float = 30.0,
        durability: Durability | None = None,
    ) -> None:
        """
        Args:
            window: messages in flight at most; rounded up to a power of two.
            message_max: largest record, bytes: body, properties, topic and about 111 bytes around them.
            on_full: what a send does when window or ring are full: wait up to its timeout, or raise Full at once.
            timeout: seconds that a send waits, for room and then for its receipt, unless it says otherwise.
            durability: what a receipt waits for, unless a send says otherwise; None: what the topic says.

        Raises: SettingError: a setting that cannot be. BrokerNotRunning, Full (NoMeans): no session could be opened.
        """
        if not 1 <= window <= WINDOW_MAX:
            raise _impossible("window", window, f"it must be 1 to {WINDOW_MAX} messages")
        if not MESSAGE_MIN <= message_max <= MESSAGE_MAX:
            raise _impossible("message_max", message_max, f"it must be {MESSAGE_MIN} to {MESSAGE_MAX} bytes")
        if on_full not in ("wait", "error"):
            raise _impossible("on_full", on_full, "it is 'wait' or 'error'")
        if durability not in (None, "appended", "flushed"):
            raise _impossible("durability", durability, "it is 'appended' or 'flushed', or None for what the topic says")
        if not timeout >= 0:
            raise _impossible("timeout", timeout, "it must be a number of seconds from 0")
        super().__init__(on_full == "wait", durability, timeout)
        self._opener = opener
        self._timeout = timeout
        self.waits_when_full = on_full == "wait"
        self._window = 1 << (window - 1).bit_length()
        self._message_max = message_max
        self._waiter: Waiter | None = None
        self._reopen()

    # What C calls.

    def _reopen(self) -> None:
        with means(f"open a producer's session at the broker {self._opener.name!r}"):
            handle = self._opener.open_session(
                window=self._window,
                sq_capacity=ring_capacity(self._message_max, self._window),
                message_max=self._message_max,
            )
            try:
                self._attach(handle)
            except BaseException:
                handle.close()
                raise
        settings = lib.control_settings(ffi.cast("struct control *", handle.control_address))
        self._store = Path(ffi.string(settings.store).decode(errors="surrogateescape"))
        self._log_file_size = int(settings.log_file_size)

    def _store_full(self, topic: str, number: int) -> NoReturn:
        """The next file of the log could not be made or mapped; number is the errno. What is free is looked up here and now."""
        what = f"the next file of the log, to store a message to {topic!r}"
        error = store_full(self._store / "commitlog", self._log_file_size, what, LOG_KNOB)
        message, hint = error.message, error.hint
        if number not in (errno.ENOSPC, errno.EDQUOT):
            message = f"could not store a message to {topic!r}: the log cannot go on in its next file ({os.strerror(number)})"
            hint = _SHORT_OF.get(number, f"look after the disk of {self._store}")
        raise StoreFull(message, hint=hint, topic=topic, errno=number, **error.values)

    def _receipts(self, batch: PendingBatch) -> Receipts:
        return Receipts(batch)

    def _awaiting(self, pending: Pending | PendingBatch) -> Generator[Any, None, Any]:
        yield from awaiting(self._waiting, pending)
        return pending.result(0)

    @property
    def _waiting(self) -> Waiter:
        if self._waiter is None or self._waiter.pid != os.getpid():
            self._waiter = waiter_of(self)
        return self._waiter

    # What users call.

    def flush(self, timeout: float | None = None) -> None:
        """Waits until no message of this producer is in flight: each has its verdict, and its Pending knows it.

        Raises: TimedOut: `in_flight` says how many are left.
        """
        limit = self._timeout if timeout is None else timeout
        if not self._settle(limit):
            left = self.in_flight
            raise TimedOut(f"could not settle {left} messages within {limit} s", in_flight=left, timeout=limit)

    def close(self, timeout: float | None = None) -> None:
        """Waits for the messages in flight, then gives the session back. Closing again does nothing.

        Raises: TimedOut: some were still in flight; the producer is closed all the same, and those end in
            PerhapsStored.
        """
        if self.closed:
            return
        try:
            self.flush(timeout)
        finally:
            self._retire()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
