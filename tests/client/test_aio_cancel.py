"""Goal: whenever and however often a task is cancelled, its consumer continues, with every message, and nothing keeps the
program from ending.

Method: a composed broker in this process. If it matters what the consumer's thread is doing, the thread is stopped. pytest's
own watchdog ends an event loop that spins.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from orbitmq.client.aio.aside import aside, aside_or_here
from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import Closed, UsageError
from tests.client.awaitable import awaitable_consumer
from tests.client.composed_broker import ComposedBroker


class Standing:
    """The work of a consumer's thread stands still, where an interruption does not reach it, until `go`."""

    def __init__(self, consumer: Consumer, monkeypatch: pytest.MonkeyPatch, name: str = "wait") -> None:
        self.begun, self._go = threading.Event(), threading.Event()
        real: Callable[..., Any] = getattr(consumer, name)

        def stand(*arguments: Any) -> Any:
            self.begun.set()
            self._go.wait(60)
            return real(*arguments)

        monkeypatch.setattr(consumer, name, stand)

    async def reached(self) -> None:
        await asyncio.to_thread(self.begun.wait, 60)

    def go(self) -> None:
        self._go.set()


@pytest.fixture
def standing(composed: ComposedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AsyncConsumer, Standing]]:
    consumer = Consumer(composed, "g", ["t"])
    standing = Standing(consumer, monkeypatch)
    yield AsyncConsumer(consumer), standing
    standing.go()


def test_a_cancelled_task_does_not_wait_for_the_thread(
    composed: ComposedBroker, standing: tuple[AsyncConsumer, Standing]
) -> None:
    """Goal: a cancelled poll ends at once, so that a second cancellation finds nothing half done. Method: the thread stands
    still."""
    consumer, thread = standing

    async def run() -> list[bytes]:
        for _ in range(3):
            task = asyncio.create_task(consumer.poll())
            await thread.reached()
            await asyncio.sleep(0)
            task.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        thread.go()
        composed.send(b"x")
        return await asyncio.wait_for(consumer.poll_bodies(10), 30)

    assert asyncio.run(run()) == [b"x"]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_cancelled_again_and_again(composed: ComposedBroker, times: int) -> None:
    """Goal: each further cancellation while the first is handled changes nothing; polls with a limit end by it. Method: one
    cancellation each turn of the loop."""

    async def run() -> list[bytes]:
        consumer = awaitable_consumer(composed)
        got = []
        for number in range(20):
            task = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await consumer.poll(0.001) is None
            composed.send(b"%d" % number)
            got += await consumer.poll_bodies(10)
        await consumer.close()
        return got

    assert asyncio.run(run()) == [b"%d" % number for number in range(20)]


def test_no_cancellation_loses_a_message(composed: ComposedBroker) -> None:
    """Goal: messages that a cancelled poll was about to return come with the next poll. Method: messages and cancellations at
    random; the task is cancelled after a random number of turns."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    messages = 300

    async def run() -> list[bytes]:
        consumer = awaitable_consumer(composed, batch=7)
        polls: list[Callable[[], Awaitable[Any]]] = [
            consumer.poll,
            lambda: consumer.poll_batch(3),
            lambda: consumer.poll_bodies(3),
            consumer.wait,
        ]
        got: list[bytes] = []
        sent = 0
        while len(got) < messages:
            task: asyncio.Task[Any] = asyncio.create_task(dice.choice(polls)())  # type: ignore[arg-type]
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            if sent < messages and dice.random() < 0.7:
                for _ in range(dice.randrange(1, 9)):
                    sent += 1
                    composed.append("t", 0, b"%d" % sent)
                composed.publish()
                composed.ring()
            if dice.random() < 0.7 or len(got) >= sent:
                task.cancel()
                if dice.random() < 0.5:
                    await asyncio.sleep(0)
                    task.cancel()
            try:
                found = await task
            except asyncio.CancelledError:
                continue
            if isinstance(found, list):
                got += map(bytes, found)
            elif found is not None and not isinstance(found, bool):
                got.append(bytes(found))
        await consumer.close()
        return got

    got = asyncio.run(run())
    assert got == [b"%d" % (n + 1) for n in range(len(got))]


def test_timeouts_and_task_groups(composed: ComposedBroker) -> None:
    """Goal: asyncio's own ways to end a poll leave the consumer as it was."""

    async def fail() -> None:
        raise LookupError

    async def run() -> list[bytes]:
        consumer = awaitable_consumer(composed)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await consumer.poll()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.poll(), 0.01)
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(consumer.poll())
                await asyncio.sleep(0)
                group.create_task(fail())
        assert caught.group_contains(LookupError)
        composed.send(b"x")
        async with asyncio.timeout(30):
            return await consumer.poll_bodies(10)

    assert asyncio.run(run()) == [b"x"]


def test_a_cancelled_commit_is_done_to_its_end(composed: ComposedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an operation that had begun is not torn, and the next call follows it. Method: the commit stands still while its
    task is cancelled."""

    async def run() -> None:
        made = Consumer(composed, "g", ["t"])
        thread = Standing(made, monkeypatch, "commit")
        consumer = AsyncConsumer(made)
        composed.send(b"x")
        assert await consumer.poll() is not None
        task = asyncio.create_task(consumer.commit())
        await thread.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = asyncio.create_task(consumer.committed())
        await asyncio.sleep(0)
        thread.go()
        assert await after == {("t", 0): 1}
        assert await consumer.poll(0.001) is None, "what was to end the commit ends no later wait"
        await consumer.close()

    asyncio.run(run())


# ---- the end of programs


def test_a_program_ends_with_polls_in_flight(standing: tuple[AsyncConsumer, Standing], composed: ComposedBroker) -> None:
    """Goal: asyncio.run cancels them, and the same consumer reads on in the next loop."""
    consumer, thread = standing
    thread.go()
    tasks = []

    async def leave() -> None:
        thread.begun.clear()
        tasks.append(asyncio.create_task(consumer.poll()))
        await thread.reached()

    for number in range(5):
        asyncio.run(leave())
        assert tasks[number].cancelled()
    composed.send(b"x")
    assert asyncio.run(consumer.poll_bodies(10)) == [b"x"]
    asyncio.run(consumer.close())


def test_a_loop_that_is_closed_lets_the_thread_go(
    standing: tuple[AsyncConsumer, Standing], composed: ComposedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: if a loop is closed during a poll, neither its thread nor the consumer is stuck. Method: nobody cancels the
    task."""
    gc.collect()  # what earlier tests have left
    caplog.clear()
    consumer, thread = standing
    thread.go()
    loop = asyncio.new_event_loop()
    task = loop.create_task(consumer.poll())
    loop.run_until_complete(thread.reached())
    loop.close()
    consumer._worker._thread.submit(int).result(60)  # once the wait's slice is over
    assert not task.done()
    del task, loop
    composed.send(b"x")
    assert asyncio.run(consumer.poll_bodies(10)) == [b"x"]
    asyncio.run(consumer.close())
    gc.collect()
    complaints = [record.message.splitlines()[0] for record in caplog.records if record.name == "asyncio"]
    assert complaints == ["Task was destroyed but it is pending!"], "here, and not in a later test"


def test_closing_is_done_although_cancelled(composed: ComposedBroker) -> None:
    """Goal: the session is given back even if the task that closes is cancelled before a thread has begun. Method: all threads
    of the loop are busy."""
    go = threading.Event()

    async def run() -> None:
        consumer = awaitable_consumer(composed)
        poll = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0)
        busy = [asyncio.create_task(asyncio.to_thread(go.wait, 60)) for _ in range(100)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        go.set()
        with pytest.raises(Closed):
            await poll
        await asyncio.gather(*busy)
        with pytest.raises(Closed):
            await consumer.poll()

    asyncio.run(run())
    assert composed.closed == [0]


def test_what_is_left_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a cancelled question ends at once; what must be done is done, even by a loop whose threads are gone."""
    done: list[str] = []

    async def run() -> None:
        go = threading.Event()
        question = asyncio.create_task(aside(lambda: go.wait(60), "ask"))
        await asyncio.sleep(0)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        await aside_or_here(lambda: done.append("here"), "close")

    asyncio.run(run())
    assert done == ["here"]


def test_without_an_event_loop_of_asyncio() -> None:
    """Goal: trio's own loop is refused with an error that says so. Method: no loop runs at all, which looks the same from
    there."""
    with pytest.raises(UsageError, match="no asyncio event loop"):
        aside(int, "connect").send(None)
