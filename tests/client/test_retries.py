"""Goal: what fails in a group comes again as RocketMQ's retries do, and becomes a dead letter after the group's tries, once
each, and says why it failed. Method: workers on a real broker; for the delay of a retry, the stages of the stopped broker in
this process, whose clock the test moves."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.dead_letter.dead_letter import DeadLetter
from orbitmq.client.message import Message
from orbitmq.client.work.hand_out import HandOut
from tests.actors.delay_life import SCHEDULE, DelayLife, settings_of
from tests.cli.commands import run
from tests.client.work_takes import collect, lag
from tests.trees import SMALL, kill, small_broker
from tests.waiting import WATCHDOG_S, dead, until

FILES = {name: SMALL[name] for name in ("log_file_size", "index_slots", "index_entries", "queue_file_units")}
MARK = 0x57 << 56


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    sizes = {"topic_capacity": 256, "queue_capacity": 8192}
    with small_broker(tmp_path_factory.mktemp("store"), offsets_interval_s=0.05, **sizes) as made:
        yield made


def send(broker: orbitmq.Client, topic: str, count: int, **more: str) -> None:
    broker.create_topic(topic, queues=1)
    with broker.producer() as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, keys=f"k-{number}", **more)


def body(hand_out: HandOut) -> bytes:
    return bytes(hand_out.message.body)


def letters(broker: orbitmq.Client, group: str, count: int) -> list[DeadLetter]:
    """Waits for so many."""

    def found() -> list[DeadLetter]:
        seen = broker.dead_letters(group).list() if group in broker.dead_letter_groups() else []
        return seen if len(seen) >= count else []

    seen: list[DeadLetter] = until(found, f"{count} dead letters of {group}")
    assert len(seen) == count
    return seen


def scheduled(broker: orbitmq.Client, group: str, count: int) -> list[Message]:
    """Waits for so many records that are scheduled for the group's retry topic."""

    def found() -> list[Message]:
        if SCHEDULE not in {topic.name for topic in broker.topics()}:
            return []
        seen: list[Message] = []
        with broker.consumer(None, [SCHEDULE]) as consumer:
            while any(consumer.lag().values()):
                seen += consumer.poll_batch(1000, WATCHDOG_S)
        mine = [each for each in seen if each.properties.get("REAL_TOPIC") == f"%RETRY%{group}"]
        return mine if len(mine) >= count else []

    seen: list[Message] = until(found, f"{count} retries of {group}")
    assert len(seen) == count
    return seen


def test_a_retry_as_rocketmq_stores_it(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, 3, tags="t")
    with broker.work_session(name, [name]) as worker:
        first, second, third = collect(worker, 3)
        worker.nack(first, reason="the bank is shut", digest="abc")
        worker.nack(second, reason="no\x02DELAY\x0118")
        worker.ack([third])
        assert worker.settled(WATCHDOG_S) == []
        one, two = scheduled(broker, name, 2)
    origin = first.message
    assert one.properties == {
        **origin.properties, "RETRY_TOPIC": name, "ORIGIN_MESSAGE_ID": origin.id, "RECONSUME_TIME": "1",
        "WAIT": "false", "DELAY": "3", "REAL_TOPIC": f"%RETRY%{name}", "REAL_QID": "0",
        "FAILURE_REASON": "the bank is shut", "FAILURE_DIGEST": "abc",
    }  # fmt: skip
    assert (bytes(one), one.queue, one.reconsume_times, one.keys, one.tags) == (b"0", 2, 1, ["k-0"], "t")
    assert one.prepared_offset == MARK | origin.physical_offset and one.born_ms == origin.born_ms
    assert two.properties["FAILURE_REASON"] == "no DELAY 18" and "FAILURE_DIGEST" not in two.properties
    assert len(broker.topic(f"%RETRY%{name}").queues) == 1
    # The retries, which come after 10 s, are in another topic.
    own = lambda: [queue.lag_messages for queue in broker.group(name).queues if queue.topic == name]  # noqa: E731
    until(lambda: not sum(own()), "the floor above the messages that went elsewhere")


def test_tries_are_used_up(broker: orbitmq.Broker, name: str) -> None:
    """Nacked with a delay and without one, by a worker that hangs, and by one that dies."""
    send(broker, name, 3)
    with broker.work_session(name, [name], max_tries=2) as worker:
        deliveries: dict[bytes, list[int]] = {}
        while sum(map(len, deliveries.values())) < 6:
            for each in collect(worker, 1):
                deliveries.setdefault(body(each), []).append(each.delivery)
                if body(each) == b"0":
                    worker.nack(each, delay=0, reason=f"failure {each.delivery}", digest="d")
                elif body(each) == b"1":
                    worker.nack(each, delay=0.01)
                else:
                    worker.extend(each, 0.01)
        assert deliveries == {b"0": [1, 2], b"1": [1, 2], b"2": [1, 2]}
        found = letters(broker, name, 3)
    assert {each.body: (each.tries, each.topic, each.reason, each.digest) for each in found} == {
        b"0": (2, name, "failure 2", "d"), b"1": (2, name, "", ""), b"2": (2, name, "", ""),
    }  # fmt: skip
    assert {each.first_id for each in found} == {each.id for each in everything_in(broker, name)}


def everything_in(broker: orbitmq.Client, topic: str) -> list[Message]:
    found: list[Message] = []
    with broker.consumer(None, [topic]) as consumer:
        while any(consumer.lag().values()):
            found += consumer.poll_batch(1000, WATCHDOG_S)
    return found


def test_a_job_that_kills_its_workers(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, 1)
    for _ in range(3):
        worker = broker.work_session(name, [name], max_tries=3)
        collect(worker, 1)
        worker.close()  # with the message in hand, as a death
    with broker.work_session(name, [name]) as worker:
        (letter,) = letters(broker, name, 1)
        assert worker.take(1, 0) == []
    assert letter.tries == 3


def test_a_long_digest_is_cut_between_letters(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, 1)
    with broker.work_session(name, [name], max_tries=1) as worker:
        worker.nack(collect(worker, 1)[0], reason="r", digest="é" * 100)
        (letter,) = letters(broker, name, 1)
    assert letter.digest and set(letter.digest) == {"é"}


@pytest.mark.parametrize("attempt", range(5))
def test_a_worker_that_leaves_at_once(broker: orbitmq.Broker, name: str, attempt: int) -> None:
    """The group has no workers any more when its topics are there. Then it may have consumers."""
    send(broker, name, 1)
    with broker.work_session(name, [name], max_tries=1) as worker:
        worker.nack(collect(worker, 1)[0], reason="gone")
    assert letters(broker, name, 1)[0].reason == "gone"
    until(lambda: not lag(broker, name), "the floor")
    with broker.consumer(name, [name]) as consumer:
        assert consumer.poll(0.1) is None


def test_max_tries_is_a_setting_of_the_group(broker: orbitmq.Broker, name: str, tmp_path: Path) -> None:
    send(broker, name, 2)
    with broker.work_session(name, [name], max_tries=1):
        pass
    with broker.work_session(name, [name]) as worker:  # it says nothing
        worker.nack(collect(worker, 1)[0], delay=0)
        assert letters(broker, name, 1)[0].tries == 1
    for wrong in (0, 501, True, "3"):
        with pytest.raises(errors.SettingError):
            broker.work_session(name, [name], max_tries=wrong)  # type: ignore[arg-type]


def test_many_at_once(broker: orbitmq.Broker, name: str) -> None:
    """More texts than there are places for, in a ring that is smaller than they are."""
    send(broker, name, 600)
    with broker.work_session(name, [name], in_hand=700, max_tries=1) as worker:
        for each in collect(worker, 600):
            worker.nack(each, reason=f"{body(each).decode()} " + "r" * 480, digest="0123456789ab")
        assert worker.settled(WATCHDOG_S) == []
        found = letters(broker, name, 600)
    assert all(each.reason.startswith(each.body.decode() + " ") and each.digest == "0123456789ab" for each in found)
    assert len({each.body for each in found}) == 600


@pytest.mark.parametrize("victim", ["dispatcher", "writer", "coordinator"])
def test_a_process_dies(broker: orbitmq.Broker, name: str, victim: str) -> None:
    send(broker, name, 200)
    with broker.work_session(name, [name], in_hand=700, max_tries=2) as worker:
        for each in collect(worker, 100):
            worker.nack(each, reason="retried")
        kill(broker, victim)
        for each in collect(worker, 100):
            worker.nack(each, delay=0)
        for each in collect(worker, 100):
            worker.nack(each, reason="dead")
        assert worker.settled(WATCHDOG_S) == []
        gone = {bytes(each) for each in scheduled(broker, name, 100)} | {each.body for each in letters(broker, name, 100)}
        assert len(gone) == 200


def test_after_a_purge(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, 2)
    with broker.work_session(name, [name], max_tries=1) as worker:
        worker.nack(collect(worker, 1)[0])
        letters(broker, name, 1)
        broker.dead_letters(name).purge()
        worker.nack(collect(worker, 1)[0])
        assert letters(broker, name, 1)[0].body == b"1"


def kill_tree(broker: orbitmq.Broker) -> None:
    pid = broker.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: dead(pid), "the death of the broker")
    broker.close()


@pytest.mark.parametrize("end", [orbitmq.Broker.close, kill_tree])
def test_from_the_first_try_to_the_redrive(tmp_path: Path, end: Callable[[orbitmq.Broker], None]) -> None:
    """A job that always fails: tried, retried after its delay, dead with its reason, redriven, and done."""
    root, group = tmp_path / "store", "billing"
    broker = orbitmq.Broker(root, **SMALL)
    try:
        send(broker, "orders", 1, tags="t")

        def failing(job: orbitmq.Job) -> None:
            raise ValueError(f"no money in try {job.delivery}")

        with broker.worker(group, ["orders"], max_tries=3, idle=WATCHDOG_S) as worker:
            assert worker.run(failing, jobs=1) == 1
        scheduled(broker, group, 1)
        for level in (3, 4):
            end(broker)
            life = DelayLife(settings_of(root, **FILES), ("side",))
            life.pass_time({3: 10_001, 4: 30_001}[level])
            life.settle()
            assert life.stop()
            life.end()
            broker = orbitmq.Broker(root, **SMALL)
            if level == 4:
                continue
            seen: list[tuple[bytes, str, int]] = []
            with broker.worker(group, ["orders"]) as worker:
                for job in worker.take(1, WATCHDOG_S):
                    seen.append((job.body, job.topic, job.delivery))
                    job.fail(ValueError("no money in try 2"))
                worker.flush()
            assert seen == [(b"0", "orders", 2)]
            scheduled(broker, group, 2)
        with broker.worker(group, ["orders"], idle=WATCHDOG_S) as worker:
            assert worker.run(failing, jobs=1) == 1
        (letter,) = letters(broker, group, 1)
        assert (letter.tries, letter.reason, len(letter.digest)) == (3, "ValueError: no money in try 3", 12)
        listed = json.loads(run("dlq", "list", group, "--json", "--name", broker.name).stdout)
        assert letter.reason in json.dumps(listed)
        assert letter.reason in run("dlq", "show", group, "0", "--name", broker.name).stdout
        assert len(broker.dead_letters(group).redrive()) == 1
        with broker.worker(group, ["orders"]) as worker:
            (job,) = worker.take(1, WATCHDOG_S)
            assert (job.body, job.topic, job.delivery) == (b"0", "orders", 1)
            job.ack()
            worker.flush()
        assert broker.dead_letters(group).list() == []
        assert not lag(broker, group)
    finally:
        broker.close()
