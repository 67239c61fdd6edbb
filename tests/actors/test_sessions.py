"""Goal: a session lives exactly as long as the process for which it was made, and no process takes all of them. Method: real
trees, real processes; actors are stopped or killed in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.actors.sessions.descriptor_store import Kept
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.sessions.sessions import Session, Sessions
from orbitmq.native._core import lib
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import ControlSocket
from tests.actors.clients import ClientProcess
from tests.actors.delay_life import settings_of
from tests.crash.raw_session import RawSession, message
from tests.power.life import Life, open_store
from tests.trees import actors, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until

FAULTY = 4

OPENS_ONE = """
import sys, orbitmq
client = orbitmq.connect(sys.argv[1])
session = client.connection.open_session(window=64, sq_capacity=65536, message_max=4096)
print(session.slot, session.epoch, flush=True)
sys.stdin.read()
"""


def slots(client: orbitmq.Client) -> set[int]:
    return {session.slot for session in client.status().sessions}


def test_one_process_cannot_take_every_slot(tmp_path: Path) -> None:
    """The last session of the share is opened, and the next one refused with a hint. Another process gets one, and so does a
    process that gives one back."""
    with small_broker(tmp_path, sessions_per_process=3) as broker:
        broker.create_topic("t", 1)
        held = [RawSession(broker) for _ in range(3)]
        with pytest.raises(errors.Full, match=r"has 3 and the limit is 3.*sessions_per_process") as caught:
            broker.producer()
        assert (caught.value.limit, caught.value.value, caught.value.most) == ("sessions_per_process", 3, 3)
        with ClientProcess(OPENS_ONE, broker.name) as other:
            assert other.line(), "the other process was let down"
            assert len(slots(broker)) == 4
        held[0].close()
        until(lambda: len(slots(broker)) == 2, "the end of two sessions")
        with broker.producer() as producer:
            producer.send("t", b"x")


@contextmanager
def asking(broker: orbitmq.Broker) -> Iterator[Callable[..., Any]]:
    """Questions on a connection of its own; returns the answers' values."""
    with closing(ControlSocket(runtime.socket_path(broker.name), WATCHDOG_S)) as line:
        line.greet(WATCHDOG_S)

        def ask(operation: str, **fields: Any) -> Any:
            value, descriptors = line.ask(operation, WATCHDOG_S, **fields)
            for each in descriptors:
                os.close(each)
            return value

        yield ask


def test_a_session_that_its_client_does_not_keep(tmp_path: Path) -> None:
    """It ends with the next question, with the connection, and with the coordinator. Nobody can use it before it is kept, and
    its epoch is not given again."""
    sizes = {"queue_capacity": 8}
    with small_broker(tmp_path, sessions_per_process=1) as broker:
        with asking(broker) as ask, asking(broker) as another:
            shape = ask("open_session", **sizes)
            names = {"slot": shape["slot"], "epoch": shape["epoch"]}
            for each in (another, ask):
                with pytest.raises(errors.BrokerError, match="not an open consumer session"):
                    each("join_group", **names, group="g", topics=[])
            with pytest.raises(errors.BrokerError, match="cannot keep session"):
                ask("keep_session", **names)
            assert slots(broker) == set()
            again = ask("open_session", **sizes)
            assert (again["slot"], again["epoch"]) == (shape["slot"], shape["epoch"] + 1)
            for wrong in (names, {"slot": 9, "epoch": again["epoch"]}):
                with pytest.raises(errors.BrokerError, match="cannot keep session"):
                    ask("keep_session", **wrong)
            assert slots(broker) == set()
            ended = ask("open_session", **sizes)
        until(lambda: slots(broker) == set(), "the end of the session with its connection")
        with asking(broker) as ask, asking(broker) as another:
            shape = ask("open_session", **sizes)
            assert shape["epoch"] == ended["epoch"] + 1
            names = {"slot": shape["slot"], "epoch": shape["epoch"]}
            another("close_session", **names)
            with pytest.raises(errors.BrokerError, match="cannot keep session"):
                ask("keep_session", **names)
            shape = ask("open_session", **sizes)
            kill(broker, "coordinator")
            assert slots(broker) == set()
        with asking(broker) as ask:
            again = ask("open_session", **sizes)
            assert again["epoch"] == shape["epoch"] + 1
            ask("keep_session", slot=again["slot"], epoch=again["epoch"])
            ask("topics")
        assert slots(broker) == {again["slot"]}, "a session that is kept outlives its connection"


def test_a_process_has_a_share_by_default(tmp_path: Path) -> None:
    """A greedy process in the most common setting: the table is far from full when the process is refused."""
    with small_broker(tmp_path) as broker:
        held: list[RawSession] = []
        with pytest.raises(errors.Full) as caught:
            while len(held) < 1024:
                held.append(RawSession(broker, window=1, sq_capacity=4096))
        assert (caught.value.limit, len(held)) == ("sessions_per_process", 64)
        for session in held:
            session.close()


def test_a_number_that_came_back_is_another_process(tmp_path: Path) -> None:
    """Method: the handler hangs, so that a dead client's session is still closing when a process with the client's number opens
    one. That one lives while its process does, and ends with it."""
    with small_broker(tmp_path, handlers=1) as broker:
        with stopped(broker, "handler 0"):
            first = ClientProcess(OPENS_ONE, broker.name)
            dead_slot = int(first.line().split()[0])
            first.kill()
            until(lambda: [session.closing for session in broker.status().sessions] == [True], "the first one's end to begin")
            second = ClientProcess(OPENS_ONE, broker.name, pid=first.pid)
            assert second.pid == first.pid
            slot = int(second.line().split()[0])
            seen = {session.slot: session.closing for session in broker.status().sessions}
            assert seen == {dead_slot: True, slot: False}
        until(lambda: slots(broker) == {slot}, "the end of the first one's session alone")
        second.kill()
        until(lambda: slots(broker) == set(), "the end of the second one's session")


def test_a_successor_tells_two_processes_of_one_number_apart(tmp_path: Path) -> None:
    """The same over a coordinator's death."""
    with small_broker(tmp_path, handlers=1) as broker, stopped(broker, "handler 0"):
        first = ClientProcess(OPENS_ONE, broker.name)
        first.line()
        first.kill()
        until(lambda: [session.closing for session in broker.status().sessions] == [True], "the first one's end to begin")
        kill(broker, "coordinator")
        with ClientProcess(OPENS_ONE, broker.name, pid=first.pid) as second:
            slot = int(second.line().split()[0])
            kill(broker, "coordinator")
            seen = {session.slot: session.closing for session in broker.status().sessions}
            assert seen[slot] is False and sorted(seen.values()) == [False, True]


def test_a_faulty_session_that_is_closed_over_a_coordinators_death(tmp_path: Path) -> None:
    """Method: a session with a message on its way and garbage behind it is closed while the writer hangs, so that its slot
    cannot be freed at once. The coordinator dies. Its successor can learn of the closing only from the table."""
    with small_broker(tmp_path, handlers=1) as broker:
        broker.create_topic("t", 1)
        with stopped(broker, "writer"):
            session = RawSession(broker)
            session.put(session.frame("t", message(b"good")))
            session.put(b"bad")
            until(lambda: session.state == FAULTY, "the handler to find the fault")
            session.ask_close()
            assert slots(broker) == {session.slot}
            kill(broker, "coordinator")
        until(lambda: slots(broker) == set(), "the slot to be free")
        session.close()


def test_a_hung_handler_costs_its_own_sessions_only(tmp_path: Path) -> None:
    """One of two handlers hangs: new sessions go to the other. A dead client's slot waits, and is free when the handler
    continues, or when it has been killed and its successor runs."""
    with small_broker(tmp_path, handlers=2) as broker:
        broker.create_topic("t", 1)
        for ending in (signal.SIGCONT, signal.SIGKILL):
            with ClientProcess(OPENS_ONE, broker.name) as client:
                held = int(client.line().split()[0])
                hung = actors(broker)[f"handler {held % 2}"]
                os.kill(hung.pid, signal.SIGSTOP)
                until(lambda: actors(broker)[hung.name].heartbeat_age_ms > 1000, "the handler to be late")
            until(lambda: [session.closing for session in broker.status().sessions] == [True], "the client's end to begin")
            other = f"handler {1 - held % 2}"
            for _ in range(5):
                # of two that are late, the one with fewer sessions gets the next
                until(lambda: actors(broker)[other].heartbeat_age_ms < 500, "the other handler to run")
                with broker.producer() as producer, broker.producer() as another:
                    producer.send("t", b"x")
                    another.send("t", b"x")
            until(lambda: slots(broker) == {held}, "the end of the others' sessions")
            os.kill(hung.pid, ending)
            until(lambda: slots(broker) == set(), "the dead client's slot")


def test_a_session_that_is_freed_while_its_process_dies(in_memory: Path) -> None:
    """The sessions of a dead process end one after the other, and each end frees those whose time has come. One that was
    closing before, and is freed in the middle of that, ends once."""
    settings = settings_of(in_memory)
    life = Life(settings, open_store(settings), ("t",))
    control, told = life.tree.control, []

    def ended(session: Session) -> None:
        told.append(session.slot)
        if session is first:  # in the meantime, the other one's handler is done with it
            lib.session_set_state(control, second.slot, lib.SESSION_DRAINED)

    keeper = SimpleNamespace(put=Kept, drop=lambda key: None)
    sessions = Sessions(life.tree, cast(Any, keeper), lambda *_: None, lambda *_: None, ended)
    me, pidfd = ProcessId(os.getpid(), 1), os.pidfd_open(os.getpid())
    sizes = {"window": 64, "sq_capacity": 65536, "queue_capacity": 0, "message_max": 4096}
    made = [sessions.open(me, pidfd, **sizes) for _ in range(2)]
    (first, _), (second, _) = made
    try:
        assert sessions.offer(first) and sessions.offer(second) and not sessions.offer(second)
        sessions.close(second)
        assert [each.slot for each in sessions] == [first.slot, second.slot], "its handler has not seen that it is closing"
        sessions.client_died(me)
        assert told == [second.slot, first.slot] and [each.slot for each in sessions] == [first.slot]
    finally:
        for descriptor in (pidfd, *(memfd for _, memfd in made)):
            os.close(descriptor)
        life.close()
