"""Goal: a consumer with `spin` looks for messages by itself: it announces no sleep, so that nobody spends time on waking it,
and yet everything that ends a sleep ends its waits too. Method: the announcements in its session's bell, and its processor
time; a composed broker, and real trees for kills."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import orbitmq
import orbitmq.aio
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import BrokerStopped, Closed, SettingError
from orbitmq.native._core import ffi, lib
from orbitmq.shm.memory import LINE
from tests.client.composed_broker import ComposedBroker
from tests.client.test_consumer import finish, in_thread
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, until

SEVERAL = len(os.sched_getaffinity(0)) > 1
needs_cores = pytest.mark.skipif(not SEVERAL, reason="nobody spins on one core")
CALLS: dict[str, Callable[[Consumer, float | None], Any]] = {
    "poll": lambda consumer, timeout: [bytes(each) for each in [consumer.poll(timeout)] if each],
    "poll_batch": lambda consumer, timeout: [bytes(each) for each in consumer.poll_batch(10, timeout)],
    "poll_bodies": lambda consumer, timeout: consumer.poll_bodies(10, timeout),
    "poll_arrow": lambda consumer, timeout: consumer.poll_arrow(10, timeout, columns=["body"])["body"].to_pylist(),
    "wait": lambda consumer, timeout: consumer.poll_bodies(10, 0) if consumer.wait(timeout) else [],
}


def asleep(consumer: Consumer) -> int:
    """Announcements in the bell of its session, which is the third line."""
    assert consumer._handle is not None
    return int(lib.bell_asleep(ffi.cast("struct bell *", consumer._handle.address + 2 * LINE)))


def works_on(consumer: Consumer) -> None:
    """Waits until this process has computed for a while, and asserts that the consumer announced nothing meanwhile."""
    end = time.process_time() + 0.1

    def worked() -> bool:
        assert asleep(consumer) == 0
        return time.process_time() > end

    until(worked, "a consumer that works")


def test_only_a_consumer_that_may_not_spin_sleeps(tmp_path: Path) -> None:
    broker = ComposedBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    thread, _ = in_thread(consumer.poll)
    until(lambda: asleep(consumer) == 1)
    consumer.close()
    finish(thread)


@needs_cores
@pytest.mark.parametrize("call", CALLS)
def test_it_takes_what_comes(tmp_path: Path, call: str) -> None:
    broker = ComposedBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"], spin=math.inf)
    thread, results = in_thread(lambda: CALLS[call](consumer, None))
    works_on(consumer)
    broker.append("t", slot, b"news")
    broker.publish()
    finish(thread)
    assert results == [[b"news"]] and asleep(consumer) == 0


@needs_cores
@pytest.mark.parametrize("call", CALLS)
def test_its_time_is_over(tmp_path: Path, call: str) -> None:
    broker = ComposedBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"], spin=math.inf)
    begin = time.monotonic()
    assert CALLS[call](consumer, 0.05) == [] and time.monotonic() - begin >= 0.05
    assert CALLS[call](consumer, 0) == []


def test_it_sleeps_once_it_has_spun(tmp_path: Path) -> None:
    broker = ComposedBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"], spin=0.01)
    thread, _ = in_thread(consumer.poll)
    until(lambda: asleep(consumer) == 1)
    consumer.close()
    finish(thread)


@needs_cores
def test_each_call_spins(tmp_path: Path) -> None:
    """Also the one after a call that got its messages behind a recheck, and so did not wait again."""
    spin = 0.2
    broker = ComposedBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"], spin=spin)
    assert consumer._hold.wait(consumer._reader, 10**10) == lib.PULL_HOLD_RECHECK, "the first wait of all"
    broker.append("t", slot, b"news")
    broker.publish()
    assert consumer.poll_bodies() == [b"news"]
    end = time.monotonic() + spin
    until(lambda: time.monotonic() > end)
    begin = time.monotonic()
    thread, _ = in_thread(consumer.poll)
    until(lambda: asleep(consumer) == 1)
    spun = time.monotonic() - begin
    consumer.close()
    finish(thread)
    assert spun >= spin


@needs_cores
def test_a_close_and_a_stop_end_it(tmp_path: Path) -> None:
    broker = ComposedBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"], spin=math.inf)
    thread, results = in_thread(consumer.poll)
    works_on(consumer)
    lib.control_set_tree_state(broker.control, lib.TREE_STOPPING)
    finish(thread)
    assert isinstance(results[0], BrokerStopped)
    lib.control_set_tree_state(broker.control, lib.TREE_RUNNING)
    thread, results = in_thread(consumer.poll)
    until(consumer._turns.locked)
    works_on(consumer)
    consumer.close()
    finish(thread)
    assert isinstance(results[0], Closed)


SPINNER = """
import math, sys, orbitmq
with orbitmq.connect(sys.argv[1]) as client, client.consumer(None, topics=["t"], spin=math.inf) as consumer:
    print("ready", flush=True)
    consumer.poll()
"""


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t")
        child = subprocess.Popen([sys.executable, "-c", SPINNER, broker.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=WATCHDOG_S)
        assert b"KeyboardInterrupt" in errors
        until(lambda: not broker.status().sessions, "its session to be given back")


def test_kills_end_or_delay_it(tmp_path: Path) -> None:
    """The death of a stage only delays a message; the supervisor's ends the wait."""
    with small_broker(tmp_path / "store", name=f"spins-{os.getpid()}", spin_us=1000) as broker:
        broker.create_topic("t", queues=2)
        producer = broker.producer(message_max=4096)
        consumer = broker.consumer("g", topics=["t"], spin=math.inf)
        with ThreadPoolExecutor(1) as threads:
            for number, name in enumerate(("handler 0", "writer", "reput", "flush", "notifier")):
                polling = threads.submit(consumer.poll_bodies, 10, WATCHDOG_S)
                until(consumer._turns.locked, "the poll")
                kill(broker, name)
                producer.send("t", b"%d" % number, timeout=WATCHDOG_S)
                assert polling.result(WATCHDOG_S) == [b"%d" % number]
            with orbitmq.connect(broker.name) as client, client.consumer(None, ["t"], start="latest", spin=math.inf) as other:
                polling = threads.submit(other.poll_bodies, 10, WATCHDOG_S)
                until(other._turns.locked, "the poll")
                os.kill(broker.pid, signal.SIGKILL)
                assert isinstance(polling.exception(WATCHDOG_S), BrokerStopped)


def test_a_new_member_gets_its_share(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=2)
        first = broker.consumer("g", topics=["t"], spin=math.inf)
        with ThreadPoolExecutor(1) as threads:
            polling = threads.submit(first.poll_bodies, 10, WATCHDOG_S)
            until(first._turns.locked, "the poll")
            with broker.consumer("g", topics=["t"], spin=math.inf) as second:
                until(lambda: (second.poll(0), second.assignment)[1], "its share")
                assert len(first.assignment) == 1
                (topic, queue), *_ = first.assignment
                broker.producer(message_max=4096).send(topic, b"yours", queue=queue)
                assert polling.result(WATCHDOG_S) == [b"yours"]


def test_who_cannot_spin_says_so(tmp_path: Path) -> None:
    async def ask(name: str) -> None:
        async with await orbitmq.aio.connect(name) as client:
            with pytest.raises(SettingError, match="cannot spin") as caught:
                await client.consumer(None, ["t"], spin=1.0)
            assert caught.value.setting == "spin"
            await (await client.consumer(None, ["t"], spin=0)).close()

    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t")
        asyncio.run(ask(broker.name))


ON_ONE_CORE = """
import os, math, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import orbitmq
with orbitmq.connect(sys.argv[1]) as client, client.consumer(None, topics=["t"], spin=math.inf) as consumer:
    consumer.poll(timeout=0.01)
    before = time.process_time()
    consumer.poll(timeout=1)
    print(time.process_time() - before)
"""


def test_nobody_spins_on_one_core(tmp_path: Path) -> None:
    """Goal: it leaves the core to those that it waits for. Method: a wait of a second takes a small part of it."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t")
        ran = subprocess.run([sys.executable, "-c", ON_ONE_CORE, broker.name], stdout=subprocess.PIPE, check=True, text=True)
        assert float(ran.stdout) < 0.5
