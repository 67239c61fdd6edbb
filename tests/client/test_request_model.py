"""Goal: whatever responders do, and whatever dies, a request ends with a reply that was made for it, or with RequestTimeout.

Method: random requests whose bodies say what the responders do with them: reply, reply twice, reply with a wrong correlation
id, reply when the requester has given up, or never. A model counts the replies that nobody may get. And processes are killed in
the middle."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.connection.connection import Connection
from orbitmq.client.request.calls import calls_of
from orbitmq.client.request.reply_reader import ReplyReader
from orbitmq.client.request.request_form import reply_properties, request_properties
from orbitmq.errors import BrokerNotRunning, BrokerStopped, OrbitError, PerhapsStored, RequestTimeout
from orbitmq.native._types import Message
from orbitmq.shm.reply_topic import REPLY_TOPIC, reply_queue
from tests.client.restarts import Restarts
from tests.trees import actors, kill, small_broker
from tests.waiting import WATCHDOG_S, dead, until

DEEDS = ("reply", "twice", "forge", "late", "never")
EXTRA = {"reply": 0, "twice": 1, "forge": 1, "late": 1, "never": 0}  # replies of each that nobody gets


class Responders:
    """Two workers of a group. Replies that are to be late are made when `late` is called."""

    def __init__(self, client: orbitmq.Client, topic: str) -> None:
        self._client = client
        self._kept: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._workers = [client.worker(f"{topic}-group", [topic], concurrency=3) for _ in range(2)]
        self._threads = [threading.Thread(target=each.run, args=(self._do,)) for each in self._workers]
        for thread in self._threads:
            thread.start()

    def _do(self, job: orbitmq.Job) -> None:
        deed, _, number = job.body.decode().partition(" ")
        if deed == "late":
            self._kept.put(job.message)
        if deed == "forge":
            own = reply_properties(job.message) | {"CORRELATION_ID": f"forged-{number}"}
            to = own["REPLY_TO_CLIENT"]
            calls = calls_of(self._client.connection)
            calls.producer(b"").put(REPLY_TOPIC, b"forged", own, queue=reply_queue(to, 8), tags=to)
        if deed in ("reply", "twice", "forge"):
            job.reply(f"re {number}")
        if deed == "twice":
            job.reply(f"again {number}")

    def late(self) -> None:
        while True:
            try:
                message = self._kept.get_nowait()
            except queue.Empty:
                return
            message.reply(b"too late")

    def close(self) -> None:
        for each in self._workers:
            each.stop()
        for thread in self._threads:
            thread.join(WATCHDOG_S)
        for each in self._workers:
            each.close()


@pytest.mark.parametrize("seed", range(3))
def test_random_requests(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with small_broker(tmp_path, log_file_size=8 << 20) as broker:
        broker.create_topic("rpc", 3)
        responders = Responders(broker, "rpc")
        clients = [orbitmq.connect(broker.name) for _ in range(3)]
        expected = [0, 0, 0]
        wrong: list[str] = []

        def ask(at: int, plan: list[str]) -> None:
            for number, deed in enumerate(plan):
                answered = deed in ("reply", "twice", "forge")
                body = f"{deed} {at}.{threading.get_ident()}.{number}"
                try:
                    reply = bytes(clients[at].request("rpc", body, WATCHDOG_S if answered else 0.01)).decode()
                    if not answered or reply != f"re {body.partition(' ')[2]}":
                        wrong.append(f"{body}: {reply}")
                except RequestTimeout:
                    if answered:
                        wrong.append(f"{body}: no reply")

        threads = []
        for at in range(3):
            for _ in range(2):
                plan = [rng.choice(DEEDS) for _ in range(60)]
                expected[at] += sum(EXTRA[deed] for deed in plan)
                threads.append(threading.Thread(target=ask, args=(at, plan)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WATCHDOG_S)
        assert wrong == [] and not any(thread.is_alive() for thread in threads)
        until(lambda: broker.group("rpc-group").lag_messages == 0, "the responders to have everything")
        responders.close()
        responders.late()
        for client in clients:
            calls_of(client.connection).start()  # replies that nobody waits for are read by no other thread
        tables = [calls_of(client.connection).table for client in clients]
        until(lambda: [each.dropped for each in tables] == expected, f"{expected} replies to be dropped")
        assert not any(each._calls for each in tables)
        for client in clients:
            client.close()


@contextmanager
def served(broker: orbitmq.Broker) -> Iterator[Any]:
    broker.create_topic("rpc", 1)
    worker = broker.worker("serve", ["rpc"], wait=WATCHDOG_S)
    thread = threading.Thread(target=worker.run, args=(lambda job: job.reply(b"re " + job.body),))
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(WATCHDOG_S)
        worker.close()


@pytest.mark.parametrize("victim", ["coordinator", "handler 0", "writer", "reput", "notifier", "dispatcher"])
def test_an_actor_dies(tmp_path: Path, victim: str) -> None:
    """Goal: requests go on when any process of the broker is killed between and under them."""
    with small_broker(tmp_path, handlers=1, log_file_size=8 << 20) as broker, served(broker):
        done = threading.Event()
        found: list[object] = []

        def ask() -> None:
            number = 0
            while not done.is_set():
                number += 1
                try:
                    found.append(bytes(broker.request("rpc", f"{number}", WATCHDOG_S)) == b"re %d" % number)
                except OrbitError as error:
                    found.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            before = len(found)
            until(lambda before=before: len(found) > before + 20, "requests")  # type: ignore[misc]
            kill(broker, victim)
            until(lambda: actors(broker)[victim].pid, f"the next {victim}")
        before = len(found)
        until(lambda: len(found) > before + 20, "requests after the death")
        done.set()
        for thread in threads:
            thread.join(WATCHDOG_S)
        assert all(each is True for each in found), [each for each in found if each is not True]


def test_the_broker_dies(tmp_path: Path) -> None:
    """Goal: a request that is stored when the whole tree is killed is answered in its next life, over the requester's and the
    responder's own connections."""
    with Restarts(tmp_path, handlers=1) as broker:
        broker.start()
        with broker.connect(wait=WATCHDOG_S) as requester, broker.connect(wait=WATCHDOG_S) as responder:
            requester.create_topic("rpc", 1)
            got: list[object] = []

            def ask() -> None:
                try:
                    got.append(bytes(requester.request("rpc", b"x", WATCHDOG_S)))
                except OrbitError as error:
                    got.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            until(lambda: requester.topic("rpc").queues[0].max_offset == 1, "the request to be stored")
            until(lambda: calls_of(requester.connection).table._calls, "the requester to wait")
            broker.kill()
            broker.start()
            with responder.consumer(None, ["rpc"]) as consumer:
                message = consumer.poll(WATCHDOG_S)
                assert message is not None
                message.reply(b"after the death")
            thread.join(WATCHDOG_S)
            # its receipt may not have come; then it says so at once
            assert got == [b"after the death"] or (len(got) == 1 and isinstance(got[0], PerhapsStored)), got
            with responder.consumer(None, ["rpc"], start="latest") as consumer:

                def once_more() -> None:
                    """A request may go to the broker that has died, whose death nothing has told the requester."""
                    ask()
                    while isinstance(got[-1], PerhapsStored):
                        got.pop()
                        ask()

                again = threading.Thread(target=once_more)
                again.start()
                second = consumer.poll(WATCHDOG_S)
                assert second is not None
                second.reply(b"once more")
                again.join(WATCHDOG_S)
            assert got[1:] == [b"once more"]
            (reader,) = calls_of(requester.connection)._reader
            assert isinstance(reader, ReplyReader)
            own = reply_queue(calls_of(requester.connection).client_id, 8)
            assert (REPLY_TOPIC, own) not in reader._consumer.paused and len(reader._consumer.paused) == 7


def test_the_broker_dies_before_replies_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the first request of a client ends with an error, and does not wait for the next broker."""
    with Restarts(tmp_path) as broker, ThreadPoolExecutor(1) as aside:
        broker.start()
        with broker.connect(wait=0.1) as requester:
            requester.create_topic("rpc", 1)
            ask = Connection.ask

            def last_answer(connection: Connection, operation: str, **fields: Any) -> Any:
                answer = ask(connection, operation, **fields)
                if operation == "prepare_replies":
                    broker.kill()
                return answer

            monkeypatch.setattr(Connection, "ask", last_answer)
            asking = aside.submit(requester.request, "rpc", b"x", WATCHDOG_S)
            try:
                with pytest.raises((BrokerNotRunning, BrokerStopped)):
                    asking.result(WATCHDOG_S / 2)
            finally:
                monkeypatch.undo()
                if not asking.done():
                    broker.start()  # ends a wait


CLIENT = """
import sys, orbitmq
broker, deed = sys.argv[1:]
with orbitmq.connect(broker) as client:
    if deed == "request":
        client.request("rpc", b"of one who dies", 3600)
    with client.worker("serve", ["rpc"]) as worker:
        (job,) = worker.take(1, 3600)
        if deed == "reply":
            job.reply(b"before the death")
        print("taken", flush=True)
        sys.stdin.read()
"""


@contextmanager
def process(broker: orbitmq.Broker, deed: str) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own, which is killed in the end."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", CLIENT, broker.name, deed], **pipes) as child:
        try:
            yield child
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()


@pytest.mark.parametrize("deed", ["take", "reply"])
def test_a_responder_dies(tmp_path: Path, deed: str) -> None:
    """Goal: a worker that dies with a request in hand leaves it to another; if it had replied, its reply is the first."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("rpc", 1)
        got: list[bytes] = []
        asking = threading.Thread(target=lambda: got.append(bytes(broker.request("rpc", b"x", WATCHDOG_S))))
        with process(broker, deed) as child:
            asking.start()
            assert child.stdout is not None and child.stdout.readline() == b"taken\n"
            if deed == "reply":
                asking.join(WATCHDOG_S)
        with broker.worker("serve", ["rpc"]) as worker:
            (job,) = worker.take(1, WATCHDOG_S)
            assert job.delivery == 2
            job.reply(b"by another")
            job.ack()
            worker.flush(WATCHDOG_S)
        asking.join(WATCHDOG_S)
        assert got == [b"before the death" if deed == "reply" else b"by another"]
        if deed == "reply":
            calls_of(broker.connection).start()
            until(lambda: calls_of(broker.connection).table.dropped == 1, "the second reply to be dropped")


def test_a_requester_dies(tmp_path: Path) -> None:
    """Goal: its request can be replied to, and its session is given back; the reply stays unread and harms nobody."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("rpc", 1)
        with process(broker, "request") as child:
            until(lambda: broker.topic("rpc").queues[0].max_offset == 1, "the request")
        until(lambda: dead(child.pid) and not broker.status().sessions, "its sessions to be given back")
        with served(broker):
            assert bytes(broker.request("rpc", b"mine", WATCHDOG_S)) == b"re mine"
            stored = sum(each.max_offset for each in broker.topic(REPLY_TOPIC).queues)
            assert stored == 2 and calls_of(broker.connection).table.dropped == 0


def test_a_forked_child(tmp_path: Path) -> None:
    """Goal: a child has a client id of its own, and its replies do not go to its parent."""
    with small_broker(tmp_path) as broker, served(broker):
        assert bytes(broker.request("rpc", b"parent", WATCHDOG_S)) == b"re parent"
        before = calls_of(broker.connection)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                reply = bytes(broker.request("rpc", b"child", WATCHDOG_S))
                os.write(write, reply + (b" same" if calls_of(broker.connection).client_id == before.client_id else b" own"))
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as told:
            assert told.read() == b"re child own"
        os.waitpid(pid, 0)
        assert bytes(broker.request("rpc", b"again", WATCHDOG_S)) == b"re again" and before.table.dropped == 0


def test_times_to_live() -> None:
    """Goal: RocketMQ reads the time to live as a long."""
    for timeout, said in ((0.0005, "0"), (1.5, "1500"), (float("inf"), str(1 << 62))):
        assert request_properties("a", "b", timeout)["TTL"] == said
