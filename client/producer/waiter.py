"""Awaiting receipts: how an asyncio task sleeps until a message sent through shared memory has its verdict.

First the task looks again each time the event loop comes round, for as long as a prompt broker needs. Most receipts come within
that time, and no thread is involved. After that, a thread waits in C for all of them, without the interpreter's lock, and hands
the results to each event loop in one call. A producer has two such threads, started when first needed: one waits for verdicts,
the other waits for the disk, on behalf of those who asked for it. Each sleeps on a bell of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from orbitmq.shm.means import lacking

if TYPE_CHECKING:
    import asyncio

    from orbitmq.native._types import ProducerBase

LOOK_S = 100e-6  # a wake-up through the thread costs about as much; a prompt receipt takes 10 to 40 us
SLICE_S = 0.1  # longest wait before the thread looks again at everything it waits for
ALONE_S = 1e-3  # between two looks of a task that has no thread to wait for it
IDLE_S = 5.0  # an idle thread ends after this


class Awaited(Protocol):
    """Something a task can wait for: a Pending, a PendingBatch, or room (aio/producer.py)."""

    def done(self) -> bool: ...

    @property
    def answered(self) -> bool: ...

    @property
    def flush_end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A task that waits. Its future carries no result: the task asks the pending itself."""

    pending: Awaited
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Waiter:
    """One stage of waiting. `onward` is the next stage, for those who wait for more."""

    def __init__(self, producer: ProducerBase, *, disk: bool, onward: Waiter | None) -> None:
        self.pid = os.getpid()
        self._producer = weakref.ref(producer)
        self._disk = disk
        self._onward = onward
        self._lock = threading.Lock()  # used as itself in `with`: through a Condition, a signal could lose the lock
        self._changed = threading.Condition(self._lock)
        self._sleepers: list[Sleeper] = []
        self._thread: threading.Thread | None = None

    def add(self, sleeper: Sleeper) -> None:
        """Wakes the sleeper when it is time. Any thread may call it."""
        with self._lock:
            self._sleepers.append(sleeper)
            if self._thread is None:
                name = "orbitmq-disk" if self._disk else "orbitmq-verdicts"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread is left: each task looks by itself from time to time
                    self._sleepers.remove(sleeper)
                    with suppress(RuntimeError):  # as in _wake_ready
                        sleeper.loop.call_soon_threadsafe(sleeper.loop.call_later, ALONE_S, _finish, [sleeper.future])
                else:
                    self._thread = thread
            elif len(self._sleepers) == 1:
                self._changed.notify()

    def _waits(self, sleeper: Sleeper) -> bool:
        if sleeper.future.cancelled():
            return False
        return sleeper.pending.flush_end != 0 if self._disk else not sleeper.pending.answered

    def _run(self) -> None:
        try:
            self._wake_all()
        except BaseException as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        """The thread ends. All who wait get the error; whoever waits again starts another thread."""
        with self._changed:
            sleepers, self._sleepers, self._thread = self._sleepers, [], None
        for sleeper in sleepers:
            with suppress(RuntimeError):  # as in _wake_ready
                sleeper.loop.call_soon_threadsafe(_refuse, sleeper.future, lacking(error, "wait for receipts"))

    def _wake_all(self) -> None:
        """Until nobody has waited for a while."""
        while True:
            with self._changed:
                if not self._sleepers and not self._changed.wait_for(lambda: self._sleepers, IDLE_S):
                    self._thread = None
                    return
            producer = self._producer()
            # Taken before the look at the sleepers: a verdict that comes between the two ends the wait at once.
            settled = producer.settled if producer else 0
            self._wake_ready()
            with self._changed:
                sleepers = list(self._sleepers)
            if producer and sleepers:
                end = min((sleeper.pending.flush_end for sleeper in sleepers), default=0) if self._disk else 0
                if end or not self._disk:
                    producer.wait_settled(settled, end, SLICE_S)

    def _wake_ready(self) -> None:
        with self._changed:
            sleepers, self._sleepers = self._sleepers, []
        waiting: list[Sleeper] = []
        ready: list[Sleeper] = []
        for sleeper in sleepers:
            (waiting if self._waits(sleeper) else ready).append(sleeper)
        with self._changed:
            self._sleepers[:0] = waiting
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for sleeper in ready:
            if self._onward and self._onward._waits(sleeper):
                self._onward.add(sleeper)
            else:
                by_loop.setdefault(sleeper.loop, []).append(sleeper.future)
        for loop, futures in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed; nobody waits in it any more
                loop.call_soon_threadsafe(_finish, futures)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def _refuse(future: asyncio.Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def waiter_of(producer: ProducerBase) -> Waiter:
    """A waiter for this producer's verdicts, and behind it one for the disk."""
    return Waiter(producer, disk=False, onward=Waiter(producer, disk=True, onward=None))


def awaiting(waiter: Waiter, pending: Awaited) -> Generator[Any, None, None]:
    """What awaiting runs: ends when `pending` is done."""
    from asyncio import get_running_loop  # here: most programs do without asyncio, which takes long to import

    loop = get_running_loop()
    deadline = loop.time() + LOOK_S
    while not pending.done():
        if loop.time() < deadline:
            yield
        else:
            future: asyncio.Future[None] = loop.create_future()
            waiter.add(Sleeper(pending, loop, future))
            yield from future
