"""Goal: with `wait`, a consumer continues after an absence of its broker: alone where it was, in a group at the committed
offsets, and nothing is committed that a dead session delivered. Method: real trees that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import aio, errors
from tests.client.pauses import waiting
from tests.client.restarts import Restarts
from tests.client.test_wait import PATIENT_S, meanwhile
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path / "store") as tree:
        tree.start()
        with tree.connect() as client:
            client.create_topic("orders", 1)
        yield tree


def fill(tree: Restarts, *bodies: bytes) -> None:
    with tree.connect() as client, client.producer() as producer:
        producer.send_batch("orders", bodies)


def killed(tree: Restarts, consumer: orbitmq.Consumer) -> None:
    """Ends the tree, and returns when the consumer knows it: it looks ten times a second, and reads on until then."""
    tree.kill()
    until(lambda: not consumer.prompt, "the consumer to notice")


def bodies(messages: list[orbitmq.Message]) -> list[bytes]:
    return [bytes(message.body) for message in messages]


def test_alone_it_goes_on_where_it_was(tree: Restarts) -> None:
    """Each message once, whichever call meets the absence, even if the absence begins in the middle of a wait."""
    with tree.connect() as client, client.consumer(None, ["orders"], wait=PATIENT_S) as consumer:
        for number in range(4):
            poll = (
                lambda: bodies(consumer.poll_batch(10)),
                lambda: consumer.poll_bodies(10),
                lambda: list(map(bytes, consumer.poll_arrow(10, columns=["body"])["body"].to_pylist())),
                lambda: [bytes(message.body) for message in [consumer.poll()] if message],
            )[number]
            body = b"%d" % number
            if number % 2:
                tree.kill()
                with meanwhile(poll) as polling:
                    tree.start()
                    fill(tree, body)
            else:
                with ThreadPoolExecutor(1) as other:
                    waits = other.submit(poll)
                    tree.kill()
                    until(waiting, "it to wait for a broker")
                    tree.start()
                    fill(tree, body)
                    polling = [waits]
            assert polling[0].result(WATCHDOG_S) == [body]
        assert consumer.poll(0) is None


def test_in_a_group_it_goes_on_at_the_committed_offsets(tree: Restarts) -> None:
    fill(tree, b"0", b"1", b"2")
    with tree.connect() as client, client.consumer("g", ["orders"], wait=PATIENT_S) as consumer:
        assert bodies(consumer.poll_batch(1, WATCHDOG_S)) == [b"0"]
        consumer.commit()
        assert bodies(consumer.poll_batch(1, WATCHDOG_S)) == [b"1"]
        killed(tree, consumer)
        with meanwhile(consumer.commit) as committing:
            tree.start()
            with pytest.raises(errors.Fenced):  # what a dead session delivered comes again, and the caller is told
                committing[0].result(WATCHDOG_S)
            committing.clear()
        assert bodies(consumer.poll_batch(10, WATCHDOG_S)) == [b"1", b"2"]
        consumer.commit()
        killed(tree, consumer)
        with meanwhile(consumer.commit):  # nothing is lost this time
            tree.start()
        assert list(consumer.committed().values()) == [3]


def test_a_poll_behind_the_restart_says_at_the_commit_what_comes_again(tree: Restarts) -> None:
    fill(tree, b"0", b"1")
    with tree.connect() as client, client.consumer("g", ["orders"], wait=PATIENT_S) as consumer:
        assert bodies(consumer.poll_batch(1, WATCHDOG_S)) == [b"0"]
        killed(tree, consumer)
        with meanwhile(lambda: bodies(consumer.poll_batch(10))) as polling:
            tree.start()
        assert polling[0].result() == [b"0", b"1"]
        with pytest.raises(errors.Fenced):
            consumer.commit()
        consumer.commit()
        assert list(consumer.committed().values()) == [2]


def test_a_call_has_its_time_and_the_absence_its_own(tree: Restarts) -> None:
    """A poll of any kind returns empty when its time is over. The wait continues through all of them; once it is over the
    consumer says so, and starts a new one."""
    with tree.connect() as client, client.consumer(None, ["orders"], wait=PATIENT_S) as consumer:
        tree.kill()
        assert consumer.poll(0) is None
        assert consumer.poll(0.01) is None
        assert consumer.poll_batch(10, 0.01) == []
        assert consumer.poll_bodies(10, 0.01) == []
        assert consumer.poll_arrow(10, 0.01).num_rows == 0
        assert consumer.wait(0.01) is False
        tree.start()
        fill(tree, b"0")
        until(lambda: consumer.wait(0), "the message to be seen by calls that wait for nothing")
        assert bodies(consumer.poll_batch(10, 0)) == [b"0"]

        with client.consumer(None, ["orders"], wait=0.2) as hasty:
            tree.kill()

            def gives_up() -> bool:
                try:
                    assert hasty.poll(0.01) is None
                except errors.BrokerNotRunning:
                    return True
                return False

            until(gives_up, "the wait to be over")

            def says_how_long() -> bool:
                """A wait that has begun before, and is over at its first look, does not."""
                with pytest.raises(errors.BrokerNotRunning) as caught:
                    hasty.position()
                return "waited for" in str(caught.value)

            assert hasty.poll(0) is None, "a new wait began"
            until(says_how_long, "a wait that had its time")
        tree.start()
        assert consumer.poll(0.01) is None


def test_without_patience_the_end_is_told(tree: Restarts) -> None:
    with tree.connect(wait=PATIENT_S) as client, client.consumer(None, ["orders"], wait=0) as consumer:
        tree.kill()
        with pytest.raises(errors.BrokerStopped):
            consumer.poll()
        with pytest.raises(errors.BrokerNotRunning):
            consumer.poll()
        for wrong in (-1, float("nan")):
            with pytest.raises(errors.SettingError):
                client.consumer(None, ["orders"], wait=wrong)


def test_interrupt_and_close_end_a_wait(tree: Restarts) -> None:
    client, other = tree.connect(), ThreadPoolExecutor(1)
    with client, client.consumer(None, ["orders"], wait=PATIENT_S) as consumer, other:
        tree.kill()
        polling = other.submit(consumer.poll)
        until(waiting, "it to wait")
        consumer.interrupt()
        with pytest.raises(errors.Interrupted):
            polling.result(WATCHDOG_S)
        consumer.interrupt()
        with pytest.raises(errors.Interrupted):
            consumer.poll()
        polling = other.submit(consumer.poll)
        until(waiting, "it to wait again")
        consumer.close()
        with pytest.raises(errors.Closed):
            polling.result(WATCHDOG_S)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_close_waits_for_no_broker(tree: Restarts, asynchronous: bool) -> None:
    """Also if the program wants to hear of queues that go: these went with the broker, so there is nothing to hear."""
    heard: list[object] = []

    async def closed() -> None:
        async with aio.connect(tree.name, wait=PATIENT_S) as client:
            consumer = await client.consumer("g", ["orders"], on_revoked=lambda _, queues: heard.append(queues))
            assert await consumer.poll(0) is None
            await asyncio.to_thread(killed, tree, consumer._consumer)
            await consumer.close()

    def close() -> None:
        if asynchronous:
            asyncio.run(closed())
            return
        with tree.connect() as client:
            consumer = client.consumer("g", ["orders"], wait=PATIENT_S, on_revoked=lambda _, queues: heard.append(queues))
            assert consumer.poll(0) is None
            killed(tree, consumer)
            consumer.close()

    with ThreadPoolExecutor(1) as other:
        closing = other.submit(close)
        try:
            closing.result(WATCHDOG_S)
        finally:
            if not closing.done():
                tree.start()  # ends a wait
    assert heard == []


class Unaware:
    """A consumer's hold of the moment before a consumer looks whether its broker lives."""

    def __init__(self, hold: Any) -> None:
        self._hold = hold

    def __getattr__(self, name: str) -> Any:
        return (lambda: 0) if name == "check" else getattr(self._hold, name)


@pytest.mark.parametrize("call", ["poll", "poll_batch", "poll_bodies"])
@pytest.mark.parametrize("wait", [0.0, PATIENT_S])
def test_what_a_dead_brokers_files_lack(tree: Restarts, call: str, wait: float) -> None:
    """Goal: while the next broker's recovery makes a queue anew, who reads it hears of the broker's end, or waits for the next
    one; no disk is to blame. Method: the file is removed."""
    fill(tree, b"x")
    with tree.connect() as client, client.consumer(None, ["orders"], start="earliest", wait=wait) as consumer:
        until(lambda: client.topic("orders").queues[0].max_offset == 1, "the queue")
        consumer._hold = Unaware(consumer._hold)  # type: ignore[assignment]
        tree.kill()
        (tree.store / "consumequeue" / "orders" / "0").rename(tree.store.with_name("gone"))
        read = partial(getattr(consumer, call), timeout=None if wait else 0)
        if wait:
            with meanwhile(read) as polling:
                tree.start()
            found = polling[0].result()
        else:
            with pytest.raises(errors.BrokerStopped, match="read messages"):
                read()
            tree.start()
            found = until(read, "the message")
        assert bytes(found if call == "poll" else found[0]) == b"x"


def test_iteration_goes_on(tree: Restarts) -> None:
    fill(tree, b"0", b"1")
    client, other = tree.connect(), ThreadPoolExecutor(1)
    with client, client.consumer(None, ["orders"], wait=PATIENT_S) as consumer, other:
        messages = iter(consumer)
        assert [bytes(next(messages).body) for _ in range(2)] == [b"0", b"1"]
        following = other.submit(next, messages)
        tree.kill()
        until(waiting, "it to wait")
        tree.start()
        fill(tree, b"2")
        assert bytes(following.result(WATCHDOG_S).body) == b"2"


def test_aio(tree: Restarts) -> None:
    """It waits in a thread, its polls keep their time, and a cancelled one ends at once."""

    async def main() -> None:
        async with aio.connect(tree.name, wait=PATIENT_S) as client:
            async with await client.consumer("g", ["orders"]) as consumer:
                await asyncio.to_thread(fill, tree, b"0")
                assert bodies(await consumer.poll_batch(10, WATCHDOG_S)) == [b"0"]
                await consumer.commit()
                await asyncio.to_thread(tree.kill)
                assert await consumer.poll(0.01) is None
                assert await consumer.poll(0) is None
                polling = asyncio.create_task(consumer.poll_batch(10))
                await asyncio.to_thread(until, waiting, "it to wait")
                polling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await polling
                polling = asyncio.create_task(consumer.poll_batch(10))
                await asyncio.to_thread(until, waiting, "it to wait again")
                await asyncio.to_thread(tree.start)
                await asyncio.to_thread(fill, tree, b"1")
                assert bodies(await polling) == [b"1"]
                await asyncio.to_thread(tree.kill)
                polling = asyncio.create_task(consumer.poll_batch(10))
                await asyncio.to_thread(until, waiting, "it to wait once more")
            with pytest.raises(errors.Closed):
                await polling

    asyncio.run(main())
    assert not waiting()
