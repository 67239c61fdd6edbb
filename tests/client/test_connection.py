"""Goal: a client outlives forks and the coordinator's death, and is told when the broker is gone. Method: real trees; bare
sessions instead of producers and consumers. Of client/connection/connection.py, client/client.py,
client/connection/attachment.py and client/connection/opened_session.py."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.connection.session import SessionHandle
from orbitmq.shm.control_socket import ControlSocket
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until


def in_child(work: Callable[[], None]) -> int:
    """Forks; returns the exit code of a child that does the work: 0 if it raised nothing."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def slots(client: orbitmq.Client) -> set[int]:
    return {session.slot for session in client.status().sessions}


def open_producer(client: orbitmq.Client) -> SessionHandle:
    return client.connection.open_session(window=64, sq_capacity=65536, message_max=4096)


def test_nobody_there() -> None:
    """The error names the command that starts a broker."""
    with pytest.raises(errors.BrokerNotRunning, match="orbitmq up --name nobody-has-this-name"):
        orbitmq.connect("nobody-has-this-name")


def test_environment_names_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_broker(tmp_path) as broker:
        monkeypatch.setenv("ORBITMQ_BROKER", broker.name)
        with orbitmq.connect() as client:
            assert client.name == broker.name


def test_topics(tmp_path: Path) -> None:
    """Created, created again, grown, refused, with typed errors all the way from the coordinator."""
    with small_broker(tmp_path) as broker, orbitmq.connect(broker.name) as client:
        assert client.create_topic("orders", 4) == orbitmq.TopicInfo("orders", 4, 6)
        assert client.create_topic("orders", 4).queues == 4
        assert client.create_topic("orders", 16).queues == 16
        assert broker.topics() == [orbitmq.TopicInfo("orders", 16, 6)]
        for queues in (4, 17):
            with pytest.raises(errors.TopicExists) as caught:
                client.create_topic("orders", queues)
            assert caught.value.queues == 16
        with pytest.raises(errors.TopicNameError) as named:
            client.create_topic("or ders")
        assert (named.value.at, named.value.character) == (2, " ")
        with pytest.raises(errors.TopicNameError) as named:
            client.create_topic("x" * 128)
        assert named.value.limit == 127
        with pytest.raises(errors.TopicNameError):
            client.create_topic("")
        with pytest.raises(errors.SettingError):
            client.create_topic("zero", 0)
        with pytest.raises(errors.Full) as full:
            client.create_topic("huge", SMALL["queue_capacity"])
        assert full.value.limit == "queues"
        assert [topic.name for topic in client.topics()] == ["orders"]


def test_session_comes_and_goes(tmp_path: Path) -> None:
    """Sessions are divided among handlers; a closed slot is used again under another epoch; sizes are checked."""
    with small_broker(tmp_path) as broker:
        first, second = open_producer(broker), open_producer(broker)
        assert {first.slot % 2, second.slot % 2} == {0, 1}
        first.close()
        first.close()
        until(lambda: slots(broker) == {second.slot}, "the end of the first session")
        third = open_producer(broker)
        assert (third.slot, third.epoch) == (first.slot, first.epoch + 1)
        for sizes in ({"window": 3, "sq_capacity": 4096}, {"window": 64}, {}, {"queue_capacity": 1 << 20}):
            with pytest.raises(errors.SettingError):
                broker.connection.open_session(**sizes)
        with pytest.raises(errors.SettingError, match="message_max"):
            broker.connection.open_session(window=64, sq_capacity=65536, message_max=-1)
        larger = broker.connection.open_session(window=64, sq_capacity=65536, message_max=1 << 30)
        assert larger.message_max < 1 << 20, "the broker's limit holds"
        larger.close()
        second.close()
        third.close()


def test_left_while_another_thread_closes(tmp_path: Path) -> None:
    """Goal: a session that a finalizer gives back does not stay, though the socket takes nothing any more. Method: the socket
    ends as `close` ends it before it has the turn."""
    with small_broker(tmp_path) as broker:
        client = orbitmq.connect(broker.name)
        session = open_producer(client)
        assert client.connection._line is not None
        client.connection._line.socket.interrupt()
        session.leave()
        client.close()
        until(lambda: not slots(broker), "the end of the session")


def test_closed_while_a_finalizer_has_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: as above, if `close` finds that the finalizer has the turn, and the finalizer that there is no socket."""
    with small_broker(tmp_path) as broker:
        client = orbitmq.connect(broker.name)
        session = open_producer(client)

        def interfere(_: object) -> bool:
            monkeypatch.undo()
            with ThreadPoolExecutor(1) as other:
                other.submit(client.close).result(WATCHDOG_S)
            return False

        monkeypatch.setattr(client.connection, "_post_notes", interfere)
        session.leave()
        until(lambda: not slots(broker), "the end of the session")


def test_client_dies(tmp_path: Path) -> None:
    """Sessions of a process end with it, though its parent still holds copies of its descriptors."""
    with small_broker(tmp_path) as broker:
        kept = open_producer(broker)

        def work() -> None:
            own = [open_producer(broker), broker.connection.open_session(queue_capacity=8)]
            assert slots(broker) == {kept.slot, *(session.slot for session in own)}

        assert in_child(work) == 0
        until(lambda: slots(broker) == {kept.slot}, "the end of the child's sessions")
        kept.close()


def test_coordinator_dies(tmp_path: Path) -> None:
    """Clients continue: old sessions stay, new ones are made, and the successor notices the client's death."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 2)
        held = open_producer(broker)
        for epoch in (2, 3):
            kill(broker, "coordinator")
            assert slots(broker) == {held.slot}
            assert actors(broker)["coordinator"].epoch == epoch
            assert broker.create_topic("orders", 2).queues == 2

        def work() -> None:
            own = open_producer(broker)
            kill(broker, "coordinator")
            assert slots(broker) == {held.slot, own.slot}

        assert in_child(work) == 0
        until(lambda: slots(broker) == {held.slot}, "the end of the child's session")
        held.close()
        until(lambda: slots(broker) == set(), "the end of the last session")


@pytest.mark.parametrize("kept", [False, True], ids=["not kept", "kept"])
def test_coordinator_dies_when_it_has_opened_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Another session is opened, and the first one does not stay, whether or not the coordinator had kept it."""
    with small_broker(tmp_path) as broker:
        keep = ControlSocket.keep

        def and_die(line: ControlSocket, shape: dict[str, Any], timeout: float) -> None:
            monkeypatch.undo()
            if kept:
                keep(line, shape, timeout)
            kill(broker, "coordinator")
            raise ConnectionResetError

        monkeypatch.setattr(ControlSocket, "keep", and_die)
        session = open_producer(broker)
        until(lambda: slots(broker) == {session.slot}, "the end of the first session")
        session.close()
        until(lambda: slots(broker) == set(), "the end of the second session")


def test_fork(tmp_path: Path) -> None:
    """A child uses its parent's client as its own, and its end affects nothing of the parent's."""
    with small_broker(tmp_path) as broker:
        held = open_producer(broker)

        def work() -> None:
            assert slots(broker) == {held.slot}
            own = open_producer(broker)
            held.close()
            assert own.pid == os.getpid()
            broker.close()

        assert in_child(work) == 0
        until(lambda: slots(broker) == {held.slot}, "the end of the child's session")
        assert broker.status().state == "running"
        held.close()


def test_broker_stops(tmp_path: Path) -> None:
    """A client of a stopped broker is told so, and works again when one runs under the name."""
    with small_broker(tmp_path, name="comes-and-goes"):
        client = orbitmq.connect("comes-and-goes")
        client.create_topic("orders")
    with pytest.raises((errors.BrokerNotRunning, errors.BrokerStopped)):
        client.create_topic("orders")
    with small_broker(tmp_path, name="comes-and-goes"):
        assert client.create_topic("orders").queues == 8
        client.close()
    with pytest.raises(errors.Closed):
        client.topics()


def test_what_cannot_be_closed_keeps_nothing_open(tmp_path: Path) -> None:
    """Goal: the broker stops, and the other objects are closed, also if closing one raises. Method: a member's callback raises,
    whichever comes first."""

    def refuse(consumer: orbitmq.Consumer, queues: object) -> None:
        raise ValueError("not now")

    broker = orbitmq.Broker(tmp_path, **SMALL)
    broker.create_topic("orders")
    others = [broker.producer(), broker.producer()]
    member = broker.consumer("billing", topics=["orders"], on_revoked=refuse)
    until(lambda: member.poll_batch(1, 0.1) == [] and member.assignment, "queues")
    others += [broker.producer(), broker.producer()]
    supervisor = os.pidfd_open(broker.pid)
    with pytest.raises(ValueError, match="not now"):
        broker.close()
    assert select.select([supervisor], [], [], 0)[0], "the broker runs on"
    os.close(supervisor)
    assert all(each.closed for each in others) and member.closed


def test_stop_through_a_client(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker, orbitmq.connect(broker.name) as client:
        client.stop_broker()
        with pytest.raises((errors.BrokerNotRunning, errors.BrokerStopped)):
            client.status()
    assert not (tmp_path / "abort").exists()


def test_waiting_for_the_index(tmp_path: Path) -> None:
    """A wait for the reput position ends when reput is there, when the time is over, and with the tree."""
    with small_broker(tmp_path) as broker, ThreadPoolExecutor(1) as other:
        broker.create_topic("orders")
        producer = broker.producer()
        attachment = broker.connection.attachment
        receipt = producer.send("orders", b"first")
        end = receipt.physical_offset + receipt.size
        assert attachment.wait_indexed(end, WATCHDOG_S)
        assert not attachment.wait_indexed(end + 1, 0)
        waiting = other.submit(attachment.wait_indexed, end + 1, WATCHDOG_S)
        producer.send("orders", b"second")
        assert waiting.result()
        for_ever = other.submit(attachment.wait_indexed, 1 << 62, WATCHDOG_S)
        broker.close()
        with pytest.raises(errors.BrokerStopped):
            for_ever.result()
