"""Goal: with `wait`, clients and producers outlast a broker's absence: nothing that may be stored is sent again, a client that
is not let in fails at once, and a wait ends with whatever its owner does. Method: real trees that come and go; waiting clients
are observed while they wait."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import orbitmq
from orbitmq import aio, errors
from orbitmq.client.connection import absence
from orbitmq.client.connection.bell import Bell
from orbitmq.client.connection.whereabouts import ByName
from orbitmq.shm import folder_watch, runtime
from tests.client.pauses import waiting
from tests.client.restarts import Restarts
from tests.client.test_connection import in_child, slots
from tests.trees import actors, indexed
from tests.waiting import WATCHDOG_S, until

PATIENT_S = 10 * WATCHDOG_S  # nobody waits that long


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path / "store") as tree:
        yield tree


def killed(tree: Restarts, *producers: orbitmq.Producer) -> None:
    """Ends the tree, and returns when these know it: they look ten times a second, and what they send until then is perhaps
    stored."""
    tree.kill()
    until(lambda: not any(producer.ready for producer in producers), "the producers to notice")


@contextmanager
def meanwhile(work: Callable[[], Any], threads: int = 1) -> Iterator[list[Future[Any]]]:
    """Runs `work` in so many threads, all of which wait for a broker when the body begins; checks the results afterwards."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work) for _ in range(threads)]
        until(lambda: waiting(threads) or any(each.done() and each.result() is None for each in futures), "them to wait")
        yield futures
        for each in futures:
            each.result(WATCHDOG_S)


def test_connect_waits_for_the_first_start(tree: Restarts) -> None:
    with pytest.raises(errors.BrokerNotRunning):
        tree.connect()
    with meanwhile(lambda: tree.connect(wait=PATIENT_S)) as connecting:
        tree.start()
    with connecting[0].result() as client:
        assert client.create_topic("orders").queues == 8


def test_connect_waits_where_there_is_no_folder_yet(tree: Restarts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path / "deep" / "run"))
    with meanwhile(lambda: tree.connect(wait=PATIENT_S)) as connecting:
        tree.start()
    connecting[0].result().close()


def test_the_longest_absence(tree: Restarts) -> None:
    """The error says how long the wait was; an invalid time is refused."""
    with pytest.raises(errors.BrokerNotRunning, match=r"none runs under this name; it was waited for 0\.05 s") as caught:
        tree.connect(wait=0.05)
    assert (caught.value.wait, caught.value.broker) == (0.05, tree.name)
    for wrong in (-1, float("nan"), "long", None):
        with pytest.raises(errors.SettingError, match="could not wait"):
            tree.connect(wait=wrong)


@pytest.mark.parametrize("error", [errors.NoPermission("not for you"), errors.SettingError("not there")])
def test_no_wait_for_what_is_not_let_in(tree: Restarts, monkeypatch: pytest.MonkeyPatch, error: errors.OrbitError) -> None:
    def refuse(self: ByName) -> runtime.Description:
        raise error

    monkeypatch.setattr(ByName, "describe", refuse)
    with pytest.raises(type(error), match="not"):
        tree.connect(wait=PATIENT_S)


def test_no_wait_at_an_untrusted_folder(tree: Restarts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path / "run"))
    with pytest.raises(errors.SettingError, match="cannot trust the runtime folder"):
        tree.connect(wait=PATIENT_S)


def test_a_pause_ends_with_what_happens_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that comes, one that came before the pause but after the making, and a bell; no look in between is needed."""
    monkeypatch.setattr(absence, "LOOK_S", PATIENT_S)
    bell = Bell()
    with absence.Absence(tmp_path, [bell]) as gone, ThreadPoolExecutor(1) as other:
        (tmp_path / "before").mkdir()
        gone.pause(PATIENT_S)
        for ending in ((tmp_path / "while").mkdir, (tmp_path / "while").rmdir, bell.ring):  # each one event
            pausing = other.submit(gone.pause, PATIENT_S)
            until(waiting, "the pause")
            assert not gone.over
            ending()
            pausing.result(WATCHDOG_S)
        assert gone.over
        gone.pause(PATIENT_S)


def test_no_watch_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel reports no changes, the client looks from time to time."""
    monkeypatch.setattr(absence, "LOOK_S", PATIENT_S)
    monkeypatch.setattr(folder_watch, "lib", SimpleNamespace(watch_open=lambda folder: -errno.EMFILE))
    with absence.Absence(tmp_path, [Bell()]) as gone:
        gone.pause(PATIENT_S)


def test_a_client_outlives_the_broker(tree: Restarts) -> None:
    """Every call waits, and only for an absent broker."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client:
        client.create_topic("orders", 2)
        tree.kill()
        for deed in (lambda: client.create_topic("orders", 2), client.topics, client.status):
            with meanwhile(deed) as deeds:
                tree.start()
            assert deeds[0].result()
            tree.kill()
        with pytest.raises(errors.BrokerNotRunning):
            client.stop_broker()


def test_close_ends_a_wait(tree: Restarts) -> None:
    tree.start()
    client = tree.connect(wait=PATIENT_S)
    client.create_topic("orders", 2)
    producer = client.producer()
    killed(tree, producer)
    with ThreadPoolExecutor(2) as others:
        asking = others.submit(client.topics)
        sending = others.submit(producer.send, "orders", b"")
        until(lambda: waiting(2), "both to wait")
        producer.close()
        with pytest.raises(errors.Closed):
            sending.result(WATCHDOG_S)
        assert not asking.done()
        client.close()
        with pytest.raises(errors.Closed):
            asking.result(WATCHDOG_S)


def test_a_signal_ends_a_wait(tree: Restarts) -> None:
    """As Ctrl-C does; and nothing was sent."""

    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    def help() -> None:
        until(waiting, "it to wait")
        os.kill(os.getpid(), signal.SIGUSR1)

    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer() as producer, ThreadPoolExecutor(1) as other:
        client.create_topic("orders", 1)
        killed(tree, producer)
        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            for deed in (client.topics, lambda: producer.send("orders", b"interrupted")):
                helped = other.submit(help)
                with pytest.raises(Interrupted):
                    deed()
                helped.result()
        finally:
            signal.signal(signal.SIGUSR1, before)
        tree.start()
        assert producer.send("orders", b"after it").offset == 0


def test_a_send_waits_for_the_next_tree(tree: Restarts) -> None:
    """Sends of every kind, from several threads at once, which then share one session."""
    tree.start()
    with tree.connect() as client, client.producer(wait=PATIENT_S) as producer:
        client.create_topic("orders", 1)
        assert producer.send("orders", b"before").offset == 0
        deeds: list[tuple[Callable[[], Any], int]] = [
            (lambda: producer.send("orders", b"one"), 1),
            (lambda: producer.send_async("orders", b"async").result(), 1),
            (lambda: producer.send_oneway("orders", b"oneway"), 1),
            (lambda: producer.send_batch("orders", [b"of", b"a", b"batch"]), 3),
        ]
        expected = 1
        for deed, size in deeds:
            killed(tree, producer)
            with meanwhile(deed, threads=5):
                tree.start()
            producer.flush()
            expected += 5 * size
            assert len(slots(client)) == 1
            indexed(client)
            (orders,) = client.status().topics
            assert orders.queues[0].max_offset == expected


def test_a_producer_without_patience(tree: Restarts) -> None:
    """Its own `wait` counts, not the client's."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer(wait=0) as producer:
        client.create_topic("orders", 1)
        killed(tree, producer)
        with pytest.raises(errors.BrokerNotRunning):
            producer.send("orders", b"")
        with pytest.raises(errors.SettingError):
            client.producer(wait=-1)
        tree.start()
        assert producer.send("orders", b"").offset == 0


def stop_handlers(client: orbitmq.Client) -> None:
    for name, actor in actors(client).items():
        if name.startswith("handler"):
            os.kill(actor.pid, signal.SIGSTOP)


def test_what_is_on_its_way_is_never_sent_again(tree: Restarts) -> None:
    """Messages in flight at a death end in PerhapsStored, one each, even if the producer waits; and one that had no room yet
    goes to the next tree."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer(window=8) as producer:
        client.create_topic("orders", 1)
        producer.send("orders", b"before")
        stop_handlers(client)
        pendings = [producer.send_async("orders", b"in flight") for _ in range(8)]
        with ThreadPoolExecutor(3) as others:
            blocked = others.submit(producer.send, "orders", b"no room yet")
            whole = others.submit(producer.send_batch, "orders", [b"no", b"room"])
            until(lambda: in_c(2), "both to wait for room")
            tree.kill()
            until(lambda: waiting(2), "both to wait for a tree")
            for pending in pendings:
                with pytest.raises(errors.PerhapsStored):
                    pending.result(WATCHDOG_S)
            tree.start()
            assert len({blocked.result(WATCHDOG_S).offset, *(each.offset for each in whole.result(WATCHDOG_S))}) == 3
        indexed(client)
        with client.consumer(None, ["orders"]) as consumer:
            bodies = [bytes(message.body) for message in consumer.poll_batch(100, WATCHDOG_S)]
        assert sorted(bodies) == [b"before", b"no", b"no room yet", b"room"]


def in_c(threads: int) -> bool:
    """So many threads of a pool are in one of its tasks itself, or in C."""
    found = [frame for frame in sys._current_frames().values() if frame.f_code.co_name == "run"]
    return len([each for each in found if each.f_code.co_filename.endswith("thread.py")]) == threads


def test_a_batch_that_was_sent_in_part(tree: Restarts) -> None:
    """Its messages in flight are perhaps stored, the others were not sent; it waits for no other tree."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer(window=8) as producer, ThreadPoolExecutor(1) as other:
        client.create_topic("orders", 1)
        stop_handlers(client)
        sending = other.submit(producer.send_batch, "orders", [b"%d" % number for number in range(20)])
        until(lambda: producer.in_flight == 8, "a full window")
        tree.kill()
        with pytest.raises(errors.PerhapsStored) as caught:
            sending.result(WATCHDOG_S)
        assert caught.value.sent == 8 and len(caught.value.pending) == 8
        with pytest.raises(errors.PerhapsStored):
            caught.value.pending.result()
        tree.start()
        assert producer.send("orders", b"goes on").offset == 0


def test_a_tree_that_is_stopping(tree: Restarts) -> None:
    """What is in flight gets its receipts while the tree drains; what comes then waits for the next tree."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer() as producer, ThreadPoolExecutor(2) as others:
        client.create_topic("orders", 1)
        producer.send("orders", b"before")
        stop_handlers(client)
        handlers = [actor.pid for name, actor in actors(client).items() if name.startswith("handler")]
        early = [producer.send_async("orders", b"early") for _ in range(3)]
        attachment = client.connection.attachment
        assert tree.process is not None
        tree.process.terminate()
        until(lambda: not attachment.alive(), "the stop to begin")
        late = others.submit(producer.send, "orders", b"late")
        until(waiting, "it to wait")
        for pid in handlers:
            os.kill(pid, signal.SIGCONT)
        assert {pending.result(WATCHDOG_S).offset for pending in early} == {1, 2, 3}
        tree.process.wait()
        tree.start()
        assert late.result(WATCHDOG_S).offset == 4


def test_a_forked_child_waits_for_itself(tree: Restarts) -> None:
    """It waits while its parent does, and neither ends the other's wait."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client, client.producer() as producer:
        client.create_topic("orders", 1)
        producer.send("orders", b"before")
        killed(tree, producer)
        with ThreadPoolExecutor(1) as other:
            sending = other.submit(producer.send, "orders", b"parent")
            until(waiting, "the parent to wait")

            def work() -> None:
                def start() -> None:
                    until(waiting, "the child to wait")
                    producer.close()

                closer = threading.Thread(target=start)
                closer.start()
                with pytest.raises(errors.Closed):
                    producer.send("orders", b"child")
                closer.join()

            assert in_child(work) == 0
            assert not sending.done() and waiting()
            tree.start()
            assert sending.result(WATCHDOG_S).offset == 1


# ---- asyncio


def test_aio_waits_beside_the_event_loop(tree: Restarts) -> None:
    """Connecting and sending of every kind, with an event loop that continues meanwhile."""

    async def elsewhere(work: Callable[[], Any]) -> None:
        await asyncio.to_thread(until, waiting, "them to wait")
        await asyncio.to_thread(work)

    async def main() -> None:
        connecting = asyncio.create_task(_connected(tree.name))
        await elsewhere(tree.start)
        client = await connecting
        await client.create_topic("orders", 1)
        async with await client.producer() as producer, await client.producer(window=4, on_full="error") as narrow:
            expected = 0
            for deed, size in (
                (lambda: producer.send("orders", b"one"), 1),
                (lambda: producer.send_oneway("orders", b"oneway"), 1),
                (lambda: producer.send_batch("orders", (b"%d" % number for number in range(3))), 3),
                (lambda: narrow.send_batch("orders", (b"%d" % number for number in range(3))), 3),
                (lambda: narrow.send("orders", b"one"), 1),
            ):
                await asyncio.to_thread(killed, tree, producer._producer, narrow._producer)
                tasks = [asyncio.create_task(deed()) for _ in range(1 if size == 3 else 2)]
                await elsewhere(tree.start)
                await asyncio.gather(*tasks)
                await producer.flush()
                expected += size * len(tasks)
            await asyncio.to_thread(indexed, client._client)
            (orders,) = (await client.status()).topics
            assert orders.queues[0].max_offset == expected
        await client.close()

    asyncio.run(main())


async def _connected(name: str) -> aio.AsyncClient:
    return await aio.connect(name, wait=PATIENT_S)


def test_aio_a_cancelled_wait_leaves_no_thread_behind(tree: Restarts) -> None:
    """The program ends at once, although it would wait for its threads."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_connected(tree.name), 0.05)
        await asyncio.to_thread(tree.start)
        client = await _connected(tree.name)
        await client.create_topic("orders", 1)
        producer = await client.producer()
        await asyncio.to_thread(killed, tree, producer._producer)
        sending = asyncio.create_task(producer.send("orders", b""))
        await asyncio.to_thread(until, waiting, "it to wait")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        sending = asyncio.create_task(producer.send("orders", b""))
        await asyncio.to_thread(until, waiting, "it to wait again")
        await producer.close()
        with pytest.raises(errors.Closed):
            await sending
        await client.close()

    asyncio.run(main())
    assert not waiting()


def test_a_worker_that_waits_keeps_nobody_waiting(tree: Restarts) -> None:
    """It hears its own limit, `interrupt` and `close`. What is answered meanwhile needs no broker, does not count, and is what
    the next `settled` returns."""
    tree.start()
    with tree.connect(wait=PATIENT_S) as client:
        client.create_topic("orders", 1)
        with client.producer() as producer:
            producer.send("orders", b"x")
        session = client.work_session("billing", ["orders"])
        [job] = until(lambda: session.take(1, 1.0), "the message")
        tree.kill()
        assert session.take(1, 0.2) == []
        with meanwhile(lambda: session.take(1, None)) as taking:
            session.ack([job])
            session.interrupt()
            assert taking[0].result(WATCHDOG_S) == []
        tree.start()
        assert [each.offset for each in session.settled(WATCHDOG_S)] == [0]
        assert [each.offset for each in until(lambda: session.take(1, 1.0), "the same again")] == [0]
        tree.kill()

        def closed() -> bool:
            with pytest.raises(errors.Closed):
                session.take(1, None)
            return True

        with meanwhile(closed):
            session.close(WATCHDOG_S)
