"""Goal: a consumer outlives neither its broker nor its session: it says so at once, however much it has left to read, and a
commit that cannot count raises. Method: consumers in the middle of a backlog; their tree is killed or started again, or they
are forked. Of client/consumer/session.py."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Fenced
from orbitmq.native._core import lib
from tests.client.composed_broker import ComposedBroker
from tests.trees import indexed, small_broker
from tests.waiting import WATCHDOG_S, dead, until

BACKLOG = 50_000


def end_of(consumer: orbitmq.Consumer) -> int:
    """Reads messages one by one until the consumer says that the broker stopped. Returns how many there were."""
    count = 0

    def stopped() -> bool:
        nonlocal count
        try:
            assert consumer.poll(0) is not None, "all of the backlog was read first"
        except BrokerStopped:
            return True
        count += 1
        return False

    until(stopped, "the consumer to notice")
    return count


def killed(broker: orbitmq.Broker) -> None:
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: dead(broker.pid), "the supervisor's death")


@pytest.mark.parametrize("group", [None, "g"])
def test_a_lagging_consumer_notices_the_death_of_its_tree(tmp_path: Path, group: str | None) -> None:
    """The tree is killed and started again while nine tenths of the backlog are unread: the consumer stops reading, its commit
    raises, and it continues with the successor, in a group at the group's position."""
    with small_broker(tmp_path / "store", log_file_size=1 << 24) as broker:
        broker.create_topic("t", queues=1)
        broker.producer().send_batch("t", [b"%d" % number for number in range(BACKLOG)])
        indexed(broker)
        with orbitmq.connect(broker.name) as client:
            consumer = client.consumer(group, topics=["t"])
            assert len(consumer.poll_bodies(BACKLOG // 10, WATCHDOG_S)) == BACKLOG // 10
            killed(broker)
            with small_broker(tmp_path / "store", name=broker.name, log_file_size=1 << 24):
                read = BACKLOG // 10 + end_of(consumer)
                assert read < BACKLOG
                first = consumer.poll(WATCHDOG_S)
                assert first is not None and first.offset == (read if group is None else 0)


def test_a_commit_into_a_dead_tree_raises(tmp_path: Path) -> None:
    """At once, again if no broker has come since, and once more when one has; then what is read anew counts. So does what was
    committed before the consumer had noticed."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=1)
        broker.producer().send_batch("t", [b"%d" % number for number in range(100)])
        indexed(broker)
        with orbitmq.connect(broker.name) as client:
            consumer = client.consumer("g", topics=["t"])
            assert len(consumer.poll_batch(10, WATCHDOG_S)) == 10
            killed(broker)
            counted = 0

            def refused() -> bool:
                nonlocal counted
                try:
                    consumer.commit()
                except BrokerStopped as error:
                    return "could not commit for the group 'g'" in str(error)
                counted = 10
                return False

            until(refused, "a refusal")
            with pytest.raises(BrokerNotRunning):
                consumer.commit()
            with small_broker(tmp_path / "store", name=broker.name) as successor:
                indexed(successor)
                if not counted:
                    with pytest.raises(Fenced):
                        consumer.commit()
                assert consumer.committed() == {("t", 0): counted}
                assert len(consumer.poll_batch(20, WATCHDOG_S)) == 20
                consumer.commit()
                assert consumer.committed() == {("t", 0): counted + 20}


def test_whoever_was_told_and_read_on_commits_without_an_error(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=1)
        broker.producer().send_batch("t", [b"%d" % number for number in range(100)])
        indexed(broker)
        with orbitmq.connect(broker.name) as client:
            consumer = client.consumer("g", topics=["t"])
            assert len(consumer.poll_batch(10, WATCHDOG_S)) == 10
            killed(broker)
            with small_broker(tmp_path / "store", name=broker.name) as successor:
                indexed(successor)
                until(lambda: end_of(consumer) >= 0, "the end")
                assert len(consumer.poll_batch(20, WATCHDOG_S)) == 20
                consumer.commit()
                assert consumer.committed() == {("t", 0): 20}


def test_a_forked_child_does_not_commit_what_its_parent_got(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=1)
        broker.producer().send_batch("t", [b"%d" % number for number in range(100)])
        indexed(broker)
        consumer = broker.consumer("g", topics=["t"])
        assert len(consumer.poll_batch(10, WATCHDOG_S)) == 10
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                consumer.commit()
            except BaseException as error:
                os.write(writer, type(error).__name__.encode())
            finally:
                os._exit(0)
        os.close(writer)
        assert os.read(reader, 100) == b"Fenced"
        assert os.waitpid(pid, 0)[1] == 0
        os.close(reader)


def test_a_stopped_tree_is_as_dead(tmp_path: Path) -> None:
    """While it is stopping, what is there is delivered; once it has stopped, nothing is."""
    broker = ComposedBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    for number in range(10):
        broker.append("t", slot, b"%d" % number)
    broker.publish()
    consumer = Consumer(broker, "g", ["t"])
    lib.control_set_tree_state(broker.control, lib.TREE_STOPPING)
    assert consumer.poll_bodies(3) == [b"0", b"1", b"2"]
    consumer.commit()
    broker.stop()
    with pytest.raises(BrokerStopped):
        consumer.poll(0)


def test_no_question_about_a_session_reaches_another_life_of_the_broker(tmp_path: Path) -> None:
    """Slots and epochs start again in each life, so a question of a consumer of the last life would be answered for the session
    that has its numbers now."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=2)
        with orbitmq.connect(broker.name) as client:
            member = client.consumer("g", topics=["t"])._member
            assert member is not None
            killed(broker)
            with small_broker(tmp_path / "store", name=broker.name) as next_life:
                heir = next_life.consumer("g", topics=["t"])
                until(client.topics, "the client to find the next life")
                questions = {
                    "join": member._join,
                    "assignment": lambda: member._ask("assignment"),
                    "release": lambda: member._ask("release_queues", released=[["t", 0, 1]]),
                    "committed": member.committed,
                }
                for question in questions.values():
                    with pytest.raises(BrokerStopped):
                        question()
                assert heir.poll(0) is None
                assert heir.assignment == [("t", 0), ("t", 1)] and heir.rebalances == 0


def test_a_callback_that_meets_the_end_of_another_broker(tmp_path: Path) -> None:
    """Also if the consumer waits for its own broker: the error belongs to the program."""

    def fail(*_: object) -> None:
        raise BrokerStopped("another one")

    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=1)
        with broker.consumer("g", topics=["t"], on_assigned=fail, wait=WATCHDOG_S) as consumer:
            with pytest.raises(BrokerStopped, match="another one"):
                consumer.poll(0)
            assert consumer.poll(0) is None and consumer.rebalances == 0
