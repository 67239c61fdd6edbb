"""Goal: a worker that lies or writes nonsense harms nobody but itself.

Method: as in test_work_session.py; the worker writes into its rings by itself.
"""

from __future__ import annotations

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.native._core import ffi, lib
from tests.client.work_takes import collect, fill, lag, number
from tests.trees import actors
from tests.waiting import WATCHDOG_S


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


def test_rings_that_are_too_large(broker: orbitmq.Broker, name: str) -> None:
    """Goal: nobody gets rings in which more answers fit than a worker has use for."""
    broker.connection.open_session(work_capacity=lib.WORK_RING_MAX).close()
    assert lib.WORK_RING_MAX == 4096
    with pytest.raises(errors.SettingError, match=r"work_capacity 8192: .* from 64 to 4,096"):
        broker.connection.open_session(work_capacity=8192)


def test_a_session_works_in_one_group(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what a client asks for by itself with one session never stands in the plan twice, nor otherwise than it counts."""
    fill(broker, name, 3, queues=1)
    other = f"{name}-other"
    with broker.work_session(name, [name], in_hand=10, visibility=30.0) as worker:
        handle = worker._handle
        assert handle is not None
        fields = {"slot": handle.slot, "epoch": handle.epoch, "generation": handle.generation, "topics": [name]}
        same = {"group": name, "in_hand": 10, "visibility_ms": 30_000}
        broker.connection.ask("join_work", **fields, **same)  # as if the first answer was lost
        for change in ({"group": other}, {"in_hand": 11}, {"visibility_ms": 500}):
            with pytest.raises(errors.SettingError, match=f"session {handle.slot} works in the group '{name}' already"):
                broker.connection.ask("join_work", **fields, **(same | change))
        broker.consumer(other, [name]).close()
        worker.ack(collect(worker, 3))
        assert worker.settled(WATCHDOG_S) == []


def test_a_worker_that_lies(broker: orbitmq.Broker, name: str) -> None:
    """Goal: answers about messages that others have in hand do not count; those who send them are told."""
    fill(broker, name, 20, queues=1)
    with broker.work_session(name, [name]) as honest, broker.work_session(name, [name]) as liar:
        mine, lies = collect(honest, 10), collect(liar, 10)
        for each in mine:
            each.life = liar._life
        liar.ack(mine)
        liar.nack(mine[0], delay=0)
        liar.give_back(mine)
        assert liar.settled(WATCHDOG_S)
        for each in mine:
            each.life = honest._life
        honest.ack(mine)
        liar.ack(lies)
        assert honest.settled(WATCHDOG_S) == [] == liar.settled(WATCHDOG_S)
        assert lag(broker, name) == 0


@pytest.mark.parametrize("word", ["tail", "head", "record"])
def test_a_worker_that_spoils_its_rings(broker: orbitmq.Broker, name: str, word: str) -> None:
    """Goal: whatever a worker writes into its session, the dispatcher lives, and others get its messages."""
    fill(broker, name, 20, queues=1)
    dispatcher = actors(broker)["dispatcher"].pid
    with broker.work_session(name, [name]) as honest:
        hostile = broker.work_session(name, [name], visibility=0.5)
        collect(hostile, 10)
        parts, shape = ffi.new("struct session_parts *"), ffi.new("struct session_shape *", {"work_capacity": 1024})
        handle = hostile._handle
        assert handle is not None
        lib.session_parts(ffi.cast("struct session *", handle.address), shape, parts)
        lines = {each: ffi.cast("uint64_t *", getattr(parts, each)) for each in ("answers", "hand_outs")}
        if word == "tail":
            lines["answers"][0] = 1 << 63
        elif word == "head":
            lines["hand_outs"][8] = 1 << 40
        else:
            for at in range(16, 16 + 4 * 1024):
                lines["answers"][at] = (0x9E3779B97F4A7C15 * at) & ((1 << 64) - 1)
            lines["answers"][0] = 1000
        lib.control_ring_dispatcher(broker.connection.attach_wake().wake)
        if word == "record":
            hostile.close()
        found = {number(each) for each in collect(honest, 10)} | {number(each) for each in collect(honest, 10)}
        assert len(found) == 20
        hostile.close()
    assert actors(broker)["dispatcher"].pid == dispatcher
