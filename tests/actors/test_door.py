"""Goal: if a broker runs out of descriptors, or a client wants too many connections, new clients are told so, connected ones
are served, and the broker recovers without help. Method: real trees; the limits of their processes are lowered and raised from
outside. Of actors/coordinator/door.py and actors/coordinator/coordinator.py."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.shm import frames, runtime
from tests.actors.clients import ClientProcess
from tests.crash.raw_session import RawSession
from tests.trees import actors, kill, small_broker
from tests.waiting import until

CONNECTS = "import sys, orbitmq\norbitmq.connect(sys.argv[1])\nprint('in', flush=True)\nsys.stdin.read()\n"


@contextmanager
def descriptors(pid: int, spare: int) -> Iterator[None]:
    """Lets the process open `spare` more descriptors."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = sorted(set(range(max(taken) + spare + 2)) - taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[spare], before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def times_slept(pid: int) -> int:
    """How often the process has waited for something. A spinning process never waits."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "voluntary_ctxt_switches":
            return int(value)
    raise AssertionError("no such line")


def knock(broker: orbitmq.Client) -> socket.socket:
    """A connection that nobody has accepted yet."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(30)
    sock.connect(str(runtime.socket_path(broker.name)))
    return sock


def greet(sock: socket.socket) -> dict[str, object]:
    frames.send(sock, {"op": "hello", "id": 1, **runtime.introduction()})
    unpacker = frames.Unpacker()
    while True:
        answers = frames.receive(sock, unpacker)
        assert answers is not None, "the broker hung up"
        if answers:
            return answers[0].message


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """If there are connections that it cannot even refuse, the coordinator sleeps between its attempts, answers connected
    clients, and accepts everybody as soon as it can."""
    with small_broker(tmp_path) as broker, ExitStack() as stack:
        broker.create_topic("t", 1)
        producer = broker.producer()
        coordinator = actors(broker)["coordinator"]
        broker.status()  # together with its answer, the descriptors that came with earlier ones are closed
        with descriptors(coordinator.pid, 0):
            knocking = [stack.enter_context(knock(broker)) for _ in range(5)]
            slept = times_slept(coordinator.pid)
            until(lambda: times_slept(coordinator.pid) > slept + 5, "a coordinator that does not spin")
            assert broker.status().state == "running"
            producer.send("t", b"x")
        assert all("ok" in greet(sock) for sock in knocking)
        assert actors(broker)["coordinator"].epoch == coordinator.epoch


def test_few_descriptors_are_left(tmp_path: Path) -> None:
    """A client that is not accepted is told why. Sessions are refused in the same words. Both work afterwards."""
    with small_broker(tmp_path) as broker:
        coordinator = actors(broker)["coordinator"]
        with descriptors(coordinator.pid, 10):
            for _ in range(20):
                with pytest.raises(errors.Full, match="ulimit") as caught:
                    orbitmq.connect(broker.name)
                assert caught.value.limit == "descriptors"
        with descriptors(coordinator.pid, 0):
            with pytest.raises(errors.Full, match="ulimit") as caught:
                RawSession(broker)
            assert caught.value.limit == "descriptors"
        RawSession(broker).close()
        orbitmq.connect(broker.name).close()
        assert actors(broker)["coordinator"].epoch == coordinator.epoch


@pytest.mark.parametrize("spare", [60, 61])
def test_the_supervisor_keeps_descriptors_for_itself(tmp_path: Path, spare: int) -> None:
    """Method: sessions, two descriptors each, are opened until no more are accepted; then an actor dies, whose successor needs
    some."""
    with small_broker(tmp_path, sessions_per_process=1024) as broker, descriptors(broker.pid, spare):
        held: list[RawSession] = []
        with pytest.raises(errors.Full) as caught:
            while len(held) < 100:
                held.append(RawSession(broker, window=1, sq_capacity=4096))
        assert caught.value.limit == "descriptors"
        assert held
        for name in ("coordinator", "reput"):
            kill(broker, name)
            until(lambda: actors(broker)[name].epoch == 2 and actors(broker)[name].state == "running", f"a new {name}")
        assert len(broker.status().sessions) == len(held)


def test_connections_of_one_process(tmp_path: Path) -> None:
    with small_broker(tmp_path, connections_per_process=3) as broker:
        held = [orbitmq.connect(broker.name) for _ in range(2)]
        with pytest.raises(errors.Full, match=r"has 3 connections and the limit is 3.*connections_per_process") as caught:
            orbitmq.connect(broker.name)
        assert (caught.value.limit, caught.value.value, caught.value.most) == ("connections_per_process", 3, 3)
        with ClientProcess(CONNECTS, broker.name) as other:
            assert other.line() == "in"
        held[0].close()
        until(lambda: _connects(broker.name), "room for another connection")


def _connects(name: str) -> bool:
    try:
        orbitmq.connect(name).close()
    except errors.Full:
        return False
    return True


def test_a_refused_client_leaves_nothing(tmp_path: Path) -> None:
    """Goal: no kind of refusal costs the coordinator a descriptor."""
    with small_broker(tmp_path, connections_per_process=1) as broker:
        pid = actors(broker)["coordinator"].pid
        broker.status()  # together with its answer, the descriptors that came with earlier ones are closed
        before = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
        for _ in range(50):
            with pytest.raises(errors.Full):
                orbitmq.connect(broker.name)
        until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, "what was opened for them to be closed")  # noqa: PTH208
