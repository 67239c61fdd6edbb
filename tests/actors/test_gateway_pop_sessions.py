"""Goal: the gateway is a worker of each group that somebody pops, by as many sessions as it needs and no more: beside local
workers, for many groups, and without what the dispatcher has let go.

Method: as test_gateway_pop.py. Of actors/gateway/popping.py and native/remoting/gateway/gateway_pop_session.c."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import orbitmq
from orbitmq.actors.gateway.leaving import Leaving
from orbitmq.actors.gateway.popping import LOOK_S, PARTING_S, Popping
from orbitmq.actors.gateway.remote_loop import RemoteLoop
from orbitmq.errors import GroupInUse
from orbitmq.native._core import ffi, lib
from orbitmq.remoting.request import Wanted
from tests.actors.pop_client import NOTIFICATION, Popper, one, send
from tests.actors.remoting_client import HEARTBEAT
from tests.trees import actors, small_broker
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, BAD_FILTER = 0, 1, 23
LEASES_MAX = 16_384
OF_ONE_PROCESS, OF_ONE_CONNECTION = 64, 16


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 4)
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker) -> Iterator[Popper]:
    with Popper(broker.status().listens, "g", "t") as popper:
        yield popper


def test_beside_local_workers(broker: orbitmq.Broker, popper: Popper) -> None:
    """They share the messages. Consumers cannot join until nobody has popped for some seconds."""
    send(broker, *[b"%d" % n for n in range(200)])
    got: list[bytes] = []
    with broker.work_session("g", ["t"]) as worker:
        while len(got) < 200:
            taken = worker.take(10, timeout=0.1)
            got += [bytes(each.message.body) for each in taken]
            worker.ack(taken)
            for each in popper.pop(10, poll_ms=1):
                got.append(each.body)
                popper.ack(each)
        assert len(set(got)) == len(got) == 200

    def refused() -> bool:
        """Unless nobody had popped for some seconds when the consumer came."""
        popper.put(poll_ms=1)
        popper.remote.take()
        try:
            with broker.consumer("g", topics=["t"]):
                return False
        except GroupInUse:
            return True

    until(refused, "a consumer that cannot join")

    def joins() -> bool:
        try:
            with broker.consumer("g", topics=["t"]):
                popper.put()
                said = popper.remote.take()
                assert said.code == SYSTEM_ERROR and "consumer" in (said.remark or "")
                return True
        except GroupInUse:
            return False

    until(joins, "the group to be free")


def test_many_groups(broker: orbitmq.Broker) -> None:
    """More than a client process may have sessions; but one connection opens only some, also after it named what is no text."""
    listens = broker.status().listens
    for n in range(OF_ONE_PROCESS // OF_ONE_CONNECTION + 1):
        with Popper(listens, "g", "t") as popper:
            for filter_ in ("QQ", "a || QQ"):
                popper.put(exp=filter_, spoil=True)
                assert popper.remote.take().code == BAD_FILTER
            popper.group = "QQ"
            popper.put(spoil=True)
            assert popper.remote.take().code == SYSTEM_ERROR

            def refused(popper: Popper = popper, n: int = n) -> bool:
                """A group with which nothing is done for 5 s may have ended."""
                for group in range(OF_ONE_CONNECTION):
                    popper.group = f"g{n}-{group}"
                    popper.put(poll_ms=1)
                assert [popper.take() for _ in range(OF_ONE_CONNECTION)] == [[]] * OF_ONE_CONNECTION
                popper.group = "another"
                popper.put(poll_ms=1)
                said = popper.remote.take()
                return said.code == SYSTEM_ERROR and "as many as one may" in (said.remark or "")

            until(refused, "a group too many")


def test_a_name_that_is_no_text(broker: orbitmq.Broker) -> None:
    """No group begins, and no session is opened."""
    before = sessions(broker)
    with Popper(broker.status().listens, "QQ", "t") as popper:
        popper.put(spoil=True)
        said = popper.remote.take()
        assert said.code == SYSTEM_ERROR and "the group's name is no UTF-8" in (said.remark or "")
        popper.remote.socket.sendall(popper.remote.frame(NOTIFICATION, **popper.notice()).replace(b"QQ", b"\xff\xfe"))
        said = popper.remote.take()
        assert said.code == SYSTEM_ERROR and "the group's name is no UTF-8" in (said.remark or "")
    assert not broker.status().groups
    assert sessions(broker) == before


def test_a_session_that_is_about_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while a session that had joined the group with another order is being closed, a pop is not refused. The coordinator
    is asked again, for some seconds, but not all the time."""
    monkeypatch.setattr("orbitmq.actors.gateway.popping.lib", Unknown())
    joins, pids = 0, [os.getpid()]

    def ask(operation: str, **_: object) -> Any:
        nonlocal joins
        if operation == "join_work":
            joins += 1
            raise GroupInUse("it has a worker with another order", group="g", members=1, pids=pids)
        memory = os.memfd_create("session")
        os.truncate(memory, mmap.PAGESIZE)
        return {"slot": 5, "epoch": 6}, (memory,)

    leaving = Leaving(cast(Any, ask))
    popping = Popping(None, cast(Any, SimpleNamespace(generation=1)), cast(Any, ask), leaving, lambda: now_s)
    wanted, now_s = Wanted("g", "t", False, "", [], "", False, True), 100.0
    with pytest.raises(GroupInUse):
        popping.open(wanted)
    popping._part("g")
    assert [popping.open(wanted) for _ in range(3)] == [False] * 3 and joins == 2
    now_s += LOOK_S
    assert not popping.open(wanted) and joins == 3
    now_s += LOOK_S
    pids = [os.getpid(), 1]
    with pytest.raises(GroupInUse):  # a local worker is in the way, too
        popping.open(wanted)
    pids = [os.getpid()]
    popping._mapped[1] = mmap.mmap(-1, 1), None, "g"
    with pytest.raises(GroupInUse):  # or those who pop
        popping.open(wanted)
    del popping._mapped[1]
    assert not popping.open(wanted)
    now_s += PARTING_S
    with pytest.raises(GroupInUse):
        popping.open(wanted)
    popping._part("h")
    with pytest.raises(GroupInUse):
        popping.open(wanted)
    assert list(popping._parting) == ["h"], "what is over is forgotten"


class Unknown:
    """Of the loop: nobody pops, and none of its sessions is over."""

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)

    @staticmethod
    def gateway_pop_known(*_: Any) -> bool:
        return False

    @staticmethod
    def gateway_pop_over(*_: Any) -> bool:
        return False


def sessions(broker: orbitmq.Broker) -> set[tuple[int, int]]:
    """Slot and epoch of those that the gateway has."""
    pid = actors(broker)["gateway"].pid
    return {(each.slot, each.epoch) for each in broker.status().sessions if each.pid == pid}


def test_sessions_are_closed_until_the_coordinator_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with a pause after one that was not answered, because each may keep the loop waiting."""
    ends = [(n, 10 + n) for n in range(3)]
    memory = ffi.new("uint8_t[]", 1)
    asked: list[object] = []
    now_s, answers = 0.0, False

    class Core:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        @staticmethod
        def gateway_pop_over(_: Any, end: Any) -> bool:
            if not ends:
                return False
            end.slot, end.epoch = ends.pop(0)
            end.memory = memory
            mapped = mmap.mmap(-1, 1), ffi.from_buffer(bytearray(1)), "g"
            popping._mapped[int(ffi.cast("uintptr_t", memory))] = mapped
            return True

    def ask(operation: str, **fields: object) -> Any:
        asked.append(tuple(fields.values()))
        if not answers:
            raise TimeoutError
        return None, ()

    monkeypatch.setattr("orbitmq.actors.gateway.popping.lib", Core())
    leaving = Leaving(cast(Any, ask), lambda: now_s)
    popping = Popping(None, cast(Any, None), cast(Any, ask), leaving)
    for _ in range(3):
        popping.look()
        leaving.look()
    assert (asked, ends, popping._mapped) == ([(0, 10)], [], {})
    now_s, answers = 100.0, True
    leaving.look()
    assert asked == [(0, 10), (0, 10), (1, 11), (2, 12)]
    leaving.look()
    assert len(asked) == 4


@pytest.mark.parametrize("came", [True, False])
def test_a_session_that_the_gateway_cannot_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came: bool) -> None:
    """came: its memory did, and then nobody answers that it is kept. Otherwise the kernel left out the descriptor, for which
    this process had no number. Only what may have been kept is given back by a question."""
    memory = os.open(tmp_path, os.O_RDONLY)

    class Line:
        def __init__(self, *_: object) -> None: ...

        def greet(self, _: float) -> None: ...

        def close(self) -> None: ...

        def ask(self, operation: str, _: float, **sizes: int) -> Any:
            return {"slot": 5, "epoch": 6}, (memory,) if came else ()

        def keep(self, shape: dict[str, int], _: float) -> None:
            assert came
            raise TimeoutError

    monkeypatch.setattr("orbitmq.actors.gateway.remote_loop.ControlSocket", Line)
    left: list[tuple[int, int]] = []
    loop: Any = RemoteLoop.__new__(RemoteLoop)
    loop.tree = SimpleNamespace(settings=SimpleNamespace(name="n"))
    loop._leaving = SimpleNamespace(add=lambda *names: left.append(names))
    with pytest.raises(TimeoutError if came else OSError, match=None if came else "Too many open files"):
        loop.ask("open_session", work_capacity=8)
    assert left == ([(5, 6)] if came else [])
    if came:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(memory)
    else:
        os.close(memory)


def test_what_is_purged_is_in_nobodys_hands(broker: orbitmq.Broker, popper: Popper) -> None:
    """Clients have as many messages as they may, and those are purged: the group gets what comes, and the gateway serves
    others. The dispatcher lets go of what is purged without a word, and so the gateway has to ask."""
    popper.invisible_ms = 3_600_000
    with broker.producer() as producer:
        for queue in range(4):
            for _ in range(LEASES_MAX // 1024):
                producer.send_batch("t", [b"x"] * 256, queue=queue)
        left = LEASES_MAX
        while left:
            left -= len(until(popper.pop, "more messages"))
        broker.purge_topic("t")
        producer.send_batch("t", [b"y"] * 64, queue=0)
        assert {one(popper).body for _ in range(64)} == {b"y"}
        assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS
