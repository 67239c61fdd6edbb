"""Goal: a task that awaits a receipt continues when the receipt is there, whether it was there at once, came later, or is on
disk still later; also if no thread can be started. Method: a producer that the test controls."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from orbitmq.client.producer import waiter as module
from orbitmq.client.producer.waiter import awaiting, waiter_of
from orbitmq.errors import NoMeans
from tests.waiting import WATCHDOG_S, until


@dataclass(eq=False)
class Producer:
    """flushed: the log is on disk up to there. waits: (disk, end) that a thread waits for in it. failing: no wait succeeds."""

    settled: int = 0
    flushed: int = 0
    waits: list[int] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    failing: bool = False

    def wait_settled(self, settled: int, end: int, seconds: float) -> None:
        with self.changed:
            self.waits.append(end)
            self.changed.notify_all()
            if self.failing:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self.changed.wait_for(lambda: self.flushed >= end if end else self.settled != settled, min(seconds, 0.01))

    def move(self, *, flushed: int | None = None) -> None:
        with self.changed:
            if flushed is None:
                self.settled += 1
            else:
                self.flushed = flushed
            self.changed.notify_all()


@dataclass(eq=False)
class Pending:
    """A message; end: it has to be on disk up to there, 0: it need not."""

    producer: Producer
    end: int = 0
    answered: bool = False

    @property
    def flush_end(self) -> int:
        return self.end if self.answered and self.producer.flushed < self.end else 0

    def done(self) -> bool:
        return self.answered and not self.flush_end

    def answer(self) -> None:
        self.answered = True
        self.producer.move()


class Awaitable:
    def __init__(self, waiter: Any, pending: Pending) -> None:
        self._waiter, self._pending = waiter, pending

    def __await__(self) -> Any:
        return awaiting(self._waiter, self._pending)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    monkeypatch.setattr(module, "IDLE_S", 0.0)
    return Producer()


def threads() -> list[str]:
    """Of waiters: brokers of other tests in this process have threads, too."""
    return sorted(each.name for each in threading.enumerate() if each.name in ("orbitmq-verdicts", "orbitmq-disk"))


def assert_over() -> None:
    try:
        until(lambda: threads() == [], "the thread's end")
    finally:
        print(threads(), *threading.enumerate(), sep="\n")


def waiter(producer: Producer) -> Any:
    return waiter_of(producer)  # type: ignore[arg-type]


async def awaited(waiter: Any, *pendings: Pending) -> None:
    async with asyncio.timeout(WATCHDOG_S):
        await asyncio.gather(*(asyncio.ensure_future(wait(waiter, each)) for each in pendings))


async def wait(waiter: Any, pending: Pending) -> None:
    await Awaitable(waiter, pending)
    assert pending.done()


def test_what_is_there_needs_no_thread(producer: Producer) -> None:
    asyncio.run(awaited(waiter(producer), *(Pending(producer, answered=True) for _ in range(3))))
    assert producer.waits == []


def test_verdicts_that_come_later(producer: Producer) -> None:
    """In another order than they are awaited; the thread ends when nobody waits any more, and begins again."""
    mine = waiter(producer)
    for _ in range(2):
        pendings = [Pending(producer) for _ in range(5)]

        async def run(pendings: list[Pending] = pendings) -> None:
            tasks = [asyncio.ensure_future(wait(mine, each)) for each in pendings]
            for number in (3, 0, 4, 1, 2):
                before = len(producer.waits)
                while len(producer.waits) == before:
                    await asyncio.sleep(0)
                assert not tasks[number].done()
                pendings[number].answer()
                await asyncio.wait_for(tasks[number], WATCHDOG_S)

        asyncio.run(run())
        assert_over()


def test_the_disk_comes_after_the_verdict(producer: Producer) -> None:
    """The second stage waits for the lowest end of those that are waited for."""
    mine = waiter(producer)
    far, near = Pending(producer, end=900), Pending(producer, end=500)

    async def run() -> None:
        tasks = [asyncio.ensure_future(wait(mine, each)) for each in (far, near)]
        await asyncio.sleep(0)
        for each in (far, near):
            each.answer()
        while 500 not in producer.waits:
            await asyncio.sleep(0)
        assert not any(each.done() for each in tasks)
        producer.move(flushed=600)
        await asyncio.wait_for(tasks[1], WATCHDOG_S)
        assert not tasks[0].done()
        producer.move(flushed=900)
        await asyncio.wait_for(tasks[0], WATCHDOG_S)

    asyncio.run(run())


def test_a_task_that_is_cancelled(producer: Producer) -> None:
    """Nobody waits for it any more, and others are served."""
    mine = waiter(producer)
    given_up, kept = Pending(producer), Pending(producer)

    async def run() -> None:
        tasks = [asyncio.ensure_future(wait(mine, each)) for each in (given_up, kept)]
        while not producer.waits:
            await asyncio.sleep(0)
        tasks[0].cancel()
        kept.answer()
        await asyncio.wait_for(tasks[1], WATCHDOG_S)
        assert tasks[0].cancelled()

    asyncio.run(run())
    assert_over()


def test_two_loops(producer: Producer) -> None:
    mine, pendings = waiter(producer), [Pending(producer) for _ in range(2)]
    loops = [threading.Thread(target=asyncio.run, args=(awaited(mine, each),)) for each in pendings]
    for loop in loops:
        loop.start()
    until(lambda: producer.waits, "a wait")
    for each in pendings:
        each.answer()
    for loop in loops:
        loop.join(WATCHDOG_S)
        assert not loop.is_alive()


def test_no_thread_can_be_started(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task looks by itself from time to time."""
    mine, pending = waiter(producer), Pending(producer)

    def refuse(_: threading.Thread) -> None:
        asyncio.get_running_loop().call_later(0.01, pending.answer)
        monkeypatch.undo()
        monkeypatch.setattr(threading.Thread, "start", refuse_again)
        raise RuntimeError("can't start new thread")

    def refuse_again(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    asyncio.run(awaited(mine, pending))
    assert producer.waits == []


@pytest.mark.parametrize("end", [0, 500], ids=["verdict", "disk"])
def test_a_wait_that_fails(producer: Producer, end: int) -> None:
    """As when a named producer lacks descriptors for its next session: all who wait are told, and may wait again."""
    mine, pendings = waiter(producer), [Pending(producer, end, answered=end > 0) for _ in range(3)]

    async def run() -> None:
        tasks = [asyncio.ensure_future(wait(mine, each)) for each in pendings]
        async with asyncio.timeout(WATCHDOG_S):
            while not producer.waits:
                await asyncio.sleep(0)
            producer.failing = True
            for failed in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(failed, NoMeans) and failed.limit == "descriptors"
            producer.failing = False
            tasks = [asyncio.ensure_future(wait(mine, each)) for each in pendings]
            before = len(producer.waits)
            while len(producer.waits) == before:
                await asyncio.sleep(0)
            for each in pendings:
                each.answer()
            producer.move(flushed=end)
            await asyncio.gather(*tasks)

    asyncio.run(run())
    assert_over()
