"""Goal: no task is lost, whoever dies. Method: consumers are killed with -9 while they have a message, processes of the broker
and the whole broker while connections are open, and processes are forked that have one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import kombu
import pytest

import orbitmq
import orbitmq.contrib.kombu
from orbitmq.contrib.kombu import channel, log_source, work_source
from orbitmq.errors import TimedOut
from tests.contrib.conftest import Connect
from tests.contrib.consuming import consuming, left, publish, queue_of, size
from tests.trees import actors, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, dead, until

ROOT = Path(__file__).resolve().parents[2]
# Takes a message, says so, and never settles it.
HOLDER = textwrap.dedent("""
    import sys, signal, kombu, orbitmq.contrib.kombu
    from tests.contrib.consuming import consuming
    with kombu.Connection(sys.argv[1]) as connection, consuming(connection, sys.argv[2], prefetch=1) as consumer:
        print(consumer.wait(1)[0].payload, flush=True)
        signal.pause()
""")


def test_a_consumer_is_killed(connection: kombu.Connection, broker: orbitmq.Broker, name: str) -> None:
    """What it had comes again, marked as such; the rest comes as usual."""
    publish(connection, name, *range(5))
    command = [sys.executable, "-c", HOLDER, f"orbitmq://{broker.name}", name]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert holder.stdout is not None and holder.stdout.readline() == "0\n"
    with consuming(connection, name) as consumer:
        consumer.wait(4)
        holder.send_signal(signal.SIGKILL)
        again = consumer.wait(5)[4]
        assert again.payload == 0 and again.delivery_info["redelivered"]
        assert sorted(consumer.bodies) == list(range(5))
        assert [m.payload for m in consumer.got if m.delivery_info.get("redelivered")] == [0]
    holder.wait()
    holder.stdout.close()


@pytest.mark.parametrize("actor", ["dispatcher", "coordinator", "writer", "handler 0", "reput"])
def test_a_process_of_the_broker_is_killed(connection: kombu.Connection, broker: orbitmq.Broker, name: str, actor: str) -> None:
    """An open connection goes on, and what was acknowledged before does not come again."""
    publish(connection, name, *range(3))
    with consuming(connection, name) as consumer:
        for message in consumer.wait(3):
            message.ack()
        kill(broker, actor)
        publish(connection, name, *range(3, 6))
        for message in consumer.wait(6)[3:]:
            message.ack()
        assert consumer.bodies == list(range(6)) and consumer.nothing_more()
        assert left(connection, name, 0)


@contextmanager
def hanging(broker: orbitmq.Broker, actor: str) -> Iterator[None]:
    with stopped(broker, actor):
        stat = Path(f"/proc/{actors(broker)[actor].pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", f"{actor} to stop")
        yield


def test_the_dispatcher_hangs(connection: kombu.Connection, connect: Connect, broker: orbitmq.Broker, name: str) -> None:
    """Whoever wants a message is told. Once the dispatcher goes on, anybody gets it: who gave up holds nothing."""
    queue, link = queue_of(name)(connection.default_channel), connection.transport.link
    publish(connection, name, 1)
    assert queue.get(no_ack=True).payload == 1
    options = link.options
    with hanging(broker, "dispatcher"):
        publish(connection, name, 2)
        link.options = replace(options, timeout=0.1)
        for want in (queue.get, connection.transport.source(name).purge):
            with pytest.raises(TimedOut, match=r"could not get what waits .* within 0\.1 s: the broker does not hand it out"):
                want()
        link.options = options
    other = queue_of(name)(connect().default_channel)
    got = until(lambda: other.get(no_ack=True), "what was sent")
    assert got.payload == 2 and "redelivered" not in got.delivery_info


def test_reput_hangs(connection: kombu.Connection, broker: orbitmq.Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has indexed is got, and for the rest nobody waits for ever; it is there once reput goes on."""
    for module in (channel, log_source, work_source):
        monkeypatch.setattr(module, "INDEXED_S", 0.1)
    passing = kombu.Queue(name + "-passing", kombu.Exchange(""), routing_key=name + "-passing", exclusive=True)
    lasting, passing = queue_of(name)(connection.default_channel), passing(connection.default_channel)
    passing.declare()
    publish(connection, name, 1)
    assert left(connection, name, 1)
    with hanging(broker, "reput"):
        for queue in (passing, lasting):
            connection.Producer().publish(2, routing_key=queue.name)
        assert lasting.get(no_ack=True).payload == 1
        options = connection.transport.link.options
        connection.transport.link.options = replace(options, timeout=0.05)  # nothing is there that is not handed out
        assert lasting.get() is None and connection.transport.source(name).purge() == size(connection, name) == 0
        connection.transport.link.options = options
        assert passing.get() is None and passing.purge() == 0 and size(connection, passing.name) == 0
    for queue in (passing, lasting):
        assert until(lambda queue=queue: queue.get(no_ack=True), "what was sent").payload == 2


def test_the_broker_goes_and_comes(tmp_path: Path, name: str) -> None:
    """Whoever waits gets one of the transport's errors, connects again, and goes on; what was not acknowledged comes again."""
    with kombu.Connection(f"orbitmq://{tmp_path / 'store'}", transport_options={"queues": 1}) as connection:
        with pytest.raises(connection.connection_errors):
            connection.connect()
        with small_broker(tmp_path / "store", offsets_interval_s=0.05):
            publish(connection, name, 1, 2)
            with consuming(connection, name) as consumer:
                one, _ = consumer.wait(2)
                one.ack()
                assert consumer.connection.transport.source(name).purge() == 0  # the broker has the acknowledgement
        with pytest.raises(connection.connection_errors), consuming(connection, name) as consumer:
            consumer.wait(1)
        connection.release()
        with small_broker(tmp_path / "store", offsets_interval_s=0.05):
            connection.ensure_connection(max_retries=3)
            with consuming(connection, name) as consumer:
                assert consumer.wait(1)[0].payload == 2 and consumer.nothing_more()
            connection.release()


def test_a_fork(connection: kombu.Connection, connect: Connect, name: str) -> None:
    """A child that closes its parent's connection settles nothing of the parent's, and waits for no lock that a thread of the
    parent's held."""
    publish(connection, name, "mine")
    with consuming(connection, name) as consumer:
        (mine,) = consumer.wait(1)
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with connection.transport._news:
                held.set()
                over.wait(WATCHDOG_S)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(WATCHDOG_S)
        child = os.fork()
        if not child:
            code = 1
            signal.alarm(round(WATCHDOG_S))  # so that a child that hangs ends, whatever becomes of its parent
            try:
                mine.ack()
                connection.release()
                code = 0
            finally:
                os._exit(code)
        over.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0 and dead(child)
        other = connect()
        assert queue_of(name)(other.default_channel).get() is None and size(other, name) == 0
        mine.requeue()
        assert consumer.wait(2)[1].payload == "mine"
