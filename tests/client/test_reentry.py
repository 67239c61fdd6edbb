"""Goal: whatever comes in the middle of a question to the coordinator (another thread, a signal handler, a finalizer, a close,
a fork) neither mixes up answers nor waits unnecessarily, and no session is left behind. Method: real trees whose coordinator is
stopped (SIGSTOP) at the right moment."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.shm.control_socket import ControlSocket
from tests.client.test_connection import in_child, open_producer, slots
from tests.trees import actors, small_broker
from tests.waiting import WATCHDOG_S, until

PATIENT_S = 4 * WATCHDOG_S  # a timeout that no test waits for


@contextmanager
def stopped(client: orbitmq.Client) -> Iterator[Callable[[], None]]:
    """A coordinator that does not answer; the yielded function lets it continue."""
    pid = actors(client)["coordinator"].pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "the coordinator to stop")
    try:
        yield lambda: os.kill(pid, signal.SIGCONT)
    finally:
        os.kill(pid, signal.SIGCONT)


_asking: Counter[int | None] = Counter()


@pytest.fixture(autouse=True)
def count_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the thread's stack: while the thread runs, CPython 3.11 can return an `f_back` that is no frame."""
    ask = ControlSocket.ask

    def counting(*arguments: Any, **fields: Any) -> Any:
        me = threading.get_ident()
        _asking[me] += 1
        try:
            return ask(*arguments, **fields)
        finally:
            _asking[me] -= 1

    _asking.clear()
    monkeypatch.setattr(ControlSocket, "ask", counting)


def asking(thread: threading.Thread) -> int:
    """How many questions the thread is in the middle of: more than one if it asks in the middle of another."""
    return _asking[thread.ident]


class Meanwhile:
    """While the main thread asks a coordinator that does not answer: calls `handler` in it, as a signal handler."""

    def __init__(self, client: orbitmq.Client, handler: Callable[[], None], *, asks: bool) -> None:
        self._client = client
        self._handler = handler
        self._asks = asks
        self.ended = threading.Event()
        self.failed: list[BaseException] = []

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handler()
        except BaseException as error:
            self.failed.append(error)
        self.ended.set()

    def _help(self, main: threading.Thread, go_on: Callable[[], None]) -> bool:
        """True if the handler ended, or asked too if it does that, without an answer from anybody."""
        try:
            until(lambda: asking(main), "a question")
            os.kill(os.getpid(), signal.SIGUSR1)
            if self._asks:
                until(lambda: asking(main) > 1, "a question in the middle of it")
                return True
            return self.ended.wait(WATCHDOG_S)
        finally:
            go_on()

    def during(self, question: Callable[[], Any]) -> Any:
        before = signal.signal(signal.SIGUSR1, self._handle)
        try:
            with stopped(self._client) as go_on, ThreadPoolExecutor(1) as other:
                helper = other.submit(self._help, threading.current_thread(), go_on)
                answer = question()
                assert helper.result(), "the handler waited for the coordinator"
            assert not self.failed, self.failed
            return answer
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_closes_a_consumer_in_the_middle_of_a_question(tmp_path: Path) -> None:
    """Each question gets its own answer."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:
        broker.create_topic("orders", 2)
        consumer = broker.consumer("g", ["orders"])
        meanwhile = Meanwhile(broker, consumer.close, asks=True)
        assert meanwhile.during(lambda: broker.create_topic("letters", 3)) == orbitmq.TopicInfo("letters", 3, 6)
        until(lambda: slots(broker) == set(), "the end of the consumer's session")
        assert broker.create_topic("letters", 3).queues == 3


def test_a_signal_handler_asks_everything_in_the_middle_of_a_question(tmp_path: Path) -> None:
    """Also for answers with descriptors, in and around it."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:
        broker.create_topic("orders", 2)
        made: list[orbitmq.Producer] = []

        def handler() -> None:
            made.append(broker.producer())
            assert broker.status().state == "running"

        held = Meanwhile(broker, handler, asks=True).during(lambda: open_producer(broker))
        assert made[0].send("orders", b"from a producer that a handler made").offset == 0
        assert slots(broker) >= {held.slot} and len(slots(broker)) == 2
        held.close()
        made[0].close()
        until(lambda: slots(broker) == set(), "the end of both sessions")


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_finalizer_waits_for_nothing(tmp_path: Path, kind: str) -> None:
    """The garbage collector runs in the middle of a question: its finalizers end before there is an answer, and what they leave
    is done with the question."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:
        broker.create_topic("orders", 2)

        def collect() -> None:
            gc.collect()

        garbage: list[Any] = [broker.producer() if kind == "producer" else broker.consumer("g", ["orders"])]
        garbage.append(garbage)
        assert len(slots(broker)) == 1
        gc.disable()
        try:
            del garbage
            Meanwhile(broker, collect, asks=False).during(lambda: broker.create_topic("letters"))
        finally:
            gc.enable()
        until(lambda: slots(broker) == set(), "the end of the finalized session")


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_finalizer_waits_for_no_other_thread(tmp_path: Path, kind: str) -> None:
    """Nor for one that asks; nor if nobody asks, and then what it leaves is done at once."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker, ThreadPoolExecutor(1) as other:
        broker.create_topic("orders", 2)
        made: list[Any] = [broker.producer() if kind == "producer" else broker.consumer("g", ["orders"]) for _ in range(2)]
        with stopped(broker) as go_on:
            question = other.submit(broker.create_topic, "letters")
            until(lambda: any(map(asking, threading.enumerate())), "a question")
            made.pop()
            gc.collect()
            assert not question.done()
            go_on()
            question.result(WATCHDOG_S)
        until(lambda: len(slots(broker)) == 1, "the end of the first session")
        with stopped(broker):
            made.pop()
            gc.collect()
        until(lambda: not broker.connection._notes, "the note to be sent")
        with orbitmq.connect(broker.name) as client:
            until(lambda: slots(client) == set(), "the end of the second session, with nobody asking here")


def test_a_deadline_begins_at_the_call(tmp_path: Path) -> None:
    """If another thread's question is in the way, a question waits no longer than for its answer."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker, ThreadPoolExecutor(1) as other, stopped(broker) as go_on:
        first = other.submit(broker.create_topic, "letters")
        until(lambda: any(map(asking, threading.enumerate())), "a question")
        broker.connection.timeout = 0.05
        with pytest.raises(errors.TimedOut, match=r"did not answer in 0\.05 s"):
            broker.create_topic("orders")
        assert not first.done(), "it waited for the other thread's answer"
        assert broker.topics() == [], "what lies in shared memory is to be had"
        broker.connection.timeout = PATIENT_S
        go_on()
        assert first.result(WATCHDOG_S).name == "letters"


def test_an_answer_that_comes_too_late(tmp_path: Path) -> None:
    """It is nobody else's answer, and a session that comes with it is given back. A question that fits into no buffer is taken
    back."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:
        broker.create_topic("orders", 2)
        with stopped(broker):
            broker.connection.timeout = 0.01
            for _ in range(3):
                with pytest.raises(errors.TimedOut):
                    open_producer(broker)
            for _ in range(20):  # more than a socket's buffer takes
                with pytest.raises(errors.TimedOut):
                    broker.connection.ask("join_group", group="g" * 100_000)
            broker.connection.timeout = PATIENT_S
        line = broker.connection._line
        assert broker.create_topic("letters", 3).queues == 3
        assert broker.connection._line is line, "the connection is as good as before"
        until(lambda: slots(broker) == set(), "the end of the sessions that nobody has")


def test_an_interrupted_question(tmp_path: Path) -> None:
    """Ctrl-C in the middle of it: the session that it would have opened is given back."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:

        class Interrupted(Exception):
            pass

        def interrupt(number: int, frame: FrameType | None) -> None:
            raise Interrupted

        def help(main: threading.Thread) -> None:
            until(lambda: asking(main), "a question")
            os.kill(os.getpid(), signal.SIGUSR1)

        broker.create_topic("orders", 2)
        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            with stopped(broker), ThreadPoolExecutor(1) as other:
                other.submit(help, threading.current_thread())
                with pytest.raises(Interrupted):
                    open_producer(broker)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert broker.create_topic("orders", 2).queues == 2
        until(lambda: slots(broker) == set(), "the end of the session that nobody has")


def test_close_ends_the_questions_of_others(tmp_path: Path) -> None:
    """`close` waits for no answer, and a thread that waits for one is told so at once, whether it has its turn or not."""
    with small_broker(tmp_path) as broker, ThreadPoolExecutor(2) as others:
        client = orbitmq.connect(broker.name, timeout=PATIENT_S)
        with stopped(broker):
            questions = [others.submit(client.create_topic, f"letters{number}") for number in range(2)]
            until(lambda: any(map(asking, threading.enumerate())), "a question")
            client.close()
            for question in questions:
                with pytest.raises(errors.Closed):
                    question.result(WATCHDOG_S)


def test_a_signal_handler_closes_the_client_in_the_middle_of_a_question(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        client = orbitmq.connect(broker.name, timeout=PATIENT_S)
        with pytest.raises(errors.Closed):
            Meanwhile(broker, client.close, asks=False).during(lambda: client.create_topic("letters"))


def test_a_fork_in_the_middle_of_a_question(tmp_path: Path) -> None:
    """The child asks again, and the parent gets its answer."""
    with small_broker(tmp_path, timeout=PATIENT_S) as broker:
        codes: list[int] = []
        child: list[int] = []

        def fork() -> None:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    assert broker.create_topic("from the child".replace(" ", "-")).queues == 8
                    code = 0
                finally:
                    os._exit(code)
            child.append(pid)

        Meanwhile(broker, fork, asks=False).during(lambda: broker.create_topic("letters"))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]))
        assert codes == [0]
        assert {topic.name for topic in broker.topics()} == {"from-the-child", "letters"}
        assert in_child(lambda: broker.create_topic("letters")) == 0


PROGRAM = """
import orbitmq, sys
client = orbitmq.connect(sys.argv[1])
producer = client.producer()
producer.send("orders", b"and no close")
consumer = client.consumer("g", ["orders"])
bare = client.consumer(None, ["orders"])
"""


def test_a_program_that_closes_nothing(tmp_path: Path) -> None:
    """Its interpreter ends without any output."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 2)
        done = subprocess.run([sys.executable, "-c", PROGRAM, broker.name], capture_output=True, timeout=WATCHDOG_S, check=True)
        assert done.stderr == b""
        until(lambda: slots(broker) == set(), "the end of its sessions")


NAMES = """
import orbitmq, sys
from orbitmq.errors import Closed

class Name(str):
    act = None
    def __del__(self):
        act, Name.act = Name.act, None
        if act:
            act()

client = orbitmq.connect(sys.argv[1])
with client.producer() as producer:
    for batch in [producer.make_batch(Name("orders"), [b"x"]) for _ in range(4)]:
        for _ in range(100):
            producer.send_oneway(Name("orders"), b"x")
        Name.act = batch.cut
        assert producer.push(batch) and len(batch) == 1
        Name.act = None
producer = client.producer()
for _ in range(100):
    Name.act = producer.retire
    try:
        producer.send(Name("orders"), b"x")
    except Closed:
        break
"""


def test_a_topic_name_with_a_finalizer(tmp_path: Path) -> None:
    """Goal: a finalizer that ends the producer, or cuts the batch, does not run in the middle of a send, which would go on with
    what is no longer there. Method: names of a class of the user's, more than a producer keeps; each has no other owner."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 2)
        done = subprocess.run([sys.executable, "-c", NAMES, broker.name], capture_output=True, timeout=WATCHDOG_S, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_finalizers_everywhere(tmp_path: Path) -> None:
    """Threads ask and drop what they made, with the collector running all the time: every thread gets an answer, and in the end
    no session is left."""
    with small_broker(tmp_path, timeout=PATIENT_S, sessions_per_process=1000) as broker:
        broker.create_topic("orders", 2)
        threshold = gc.get_threshold()
        gc.set_threshold(5)

        def work(who: int) -> None:
            for number in range(40):
                made: list[Any] = [broker.consumer(None, ["orders"]), broker.producer(window=64, message_max=1024)]
                made.append(made)
                assert broker.create_topic(f"t{who}-{number % 3}", 1).name == f"t{who}-{number % 3}"

        try:
            with ThreadPoolExecutor(4) as threads:
                for done in [threads.submit(work, who) for who in range(4)]:
                    done.result()
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        until(lambda: slots(broker) == set(), "the end of all sessions")
