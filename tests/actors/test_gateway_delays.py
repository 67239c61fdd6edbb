"""Goal: what a RocketMQ client asks to be delivered later is stored as a local send with the same wish stores it, and comes
when it should.

Method: the client of the readable model sends beside OrbitMQ's own producer, and the records of both are compared; then the
messages are awaited. Java's producer does so in tests/interop/test_remote.py. Also of remoting/sends.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.remoting_client import ONE_WAY, SEND, SEND_V2, Remote
from tests.native.remoting_model import BINARY, JSON
from tests.trees import actors, indexed, kill, small_broker, stored

SUCCESS, SYSTEM_ERROR, ILLEGAL, NO_PERMISSION, NOT_AVAILABLE, NO_TOPIC = 0, 1, 13, 16, 14, 17
LEVELS_TOPIC, TIMES_TOPIC = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HOUR_MS = 3_600_000


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def topics(broker: orbitmq.Broker) -> set[str]:
    return {topic.name for topic in broker.status().topics}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def own(message: Any) -> dict[str, str]:
    """Properties without the checksum, which differs with the born time."""
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


def take(broker: orbitmq.Broker, count: int) -> list[Any]:
    """So many messages of the topic, as they come."""
    found: list[Any] = []
    with broker.consumer(None, topics=["t"], start="earliest") as consumer:
        while len(found) < count:
            found += consumer.poll_batch(count, timeout=10)
    return found


def test_levels_are_stored_as_a_local_send_s(broker: orbitmq.Broker, remote: Remote) -> None:
    """Also levels that RocketMQ bounds. The first makes the topic; the answer names the record that waits, and the queue that
    was asked for."""
    assert LEVELS_TOPIC not in topics(broker)
    with broker.producer() as producer:
        for said_level, level in (("17", 17), ("18", 18), ("19", 18), ("4294967295", 18)):
            properties = f"UNIQ_KEY\1id\2DELAY\1{said_level}\2TAGS\1a\2WAIT\1true\2colour\1blue\2".encode()
            said = remote.send("t", b"later", 1, properties, h=7)
            assert said.code == SUCCESS and said.fields["queueId"] == "1" and said.fields["transactionId"] == "id"
            more: dict[str, Any] = {"properties": {"UNIQ_KEY": "id", "colour": "blue"}, "flag": 7}
            receipt = producer.send("t", b"later", tags="a", queue=1, delay_level=level, **more)
            indexed(broker)
            theirs, ours = stored(broker, LEVELS_TOPIC)[-2:]
            assert (theirs.id, str(theirs.offset)) == (said.fields["msgId"], said.fields["queueOffset"])
            assert (ours.queue, ours.offset) == (receipt.queue, receipt.offset) == (level - 1, theirs.offset + 1)
            assert own(theirs) == own(ours) and own(theirs)["DELAY"] == str(level) and own(theirs)["REAL_TOPIC"] == "t"
            assert (theirs.queue, bytes(theirs), theirs.flag) == (ours.queue, bytes(ours), ours.flag)
    assert stored(broker) == []


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"])
def test_times_are_stored_as_a_local_send_s(broker: orbitmq.Broker, remote: Remote, name: str) -> None:
    assert TIMES_TOPIC not in topics(broker)
    value = {"TIMER_DELIVER_MS": now_ms() + HOUR_MS, "TIMER_DELAY_MS": HOUR_MS, "TIMER_DELAY_SEC": HOUR_MS // 1000}[name]
    before = now_ms()
    said = remote.send("t", b"later", 1, f"colour\1blue\2{name}\1{value}\2".encode())
    after = now_ms()
    assert said.code == SUCCESS and said.fields["queueId"] == "1"
    indexed(broker)
    (theirs,) = stored(broker, TIMES_TOPIC)
    due_ms = int(theirs.properties["TIMER_OUT_MS"])
    assert due_ms == value if name == "TIMER_DELIVER_MS" else before + HOUR_MS <= due_ms <= after + HOUR_MS
    with broker.producer() as producer:
        producer.send("t", b"later", queue=1, properties={"colour": "blue"}, deliver_at=due_ms / 1000)
    indexed(broker)
    theirs, ours = stored(broker, TIMES_TOPIC)
    assert own(theirs) == own(ours) and bytes(theirs) == bytes(ours) == b"later"
    assert [each.due_ms for each in broker.delayed("t")] == [due_ms, due_ms]


def test_they_come(broker: orbitmq.Broker, remote: Remote) -> None:
    """When they should, and not before; levels count from the time of storing, and a level stands above a time."""
    wanted_ms = now_ms() + 700
    answered_ms: dict[bytes, int] = {}
    for body, properties in (
        (b"past", "TIMER_DELIVER_MS\0011\2DELAY\0010\2"),
        (b"never", "TIMER_DELAY_SEC\1-5\2"),
        (b"level", "DELAY\0011\2TIMER_DELIVER_MS\0019999999999999\2"),
        (b"time", f"TIMER_DELIVER_MS\1{wanted_ms}\2"),
        (b"after", "TIMER_DELAY_MS\001100\2"),
    ):
        assert remote.send("t", body, 0, properties.encode()).code == SUCCESS
        answered_ms[body] = now_ms()
    found = {bytes(message): message for message in take(broker, 5)}
    assert set(found) == {b"level", b"time", b"after", b"past", b"never"}
    assert found[b"time"].stored_ms >= wanted_ms
    assert [found[body].offset for body in (b"past", b"never")] == [0, 1]
    waited = {bytes(message): message.stored_ms for name in (LEVELS_TOPIC, TIMES_TOPIC) for message in stored(broker, name)}
    assert found[b"level"].stored_ms >= waited[b"level"] + 1000
    must = {b"level", b"after"} | ({b"time"} if answered_ms[b"time"] < wanted_ms else set())
    assert must <= set(waited) <= {b"level", b"time", b"after"}


REFUSED: list[tuple[bytes, dict[str, object], int]] = [
    (b"DELAY\1soon\2", {}, ILLEGAL),
    (b"DELAY\0019223372036854775808\2", {}, ILLEGAL),
    (b"TIMER_DELIVER_MS\1soon\2", {}, ILLEGAL),
    (b"TIMER_DELAY_SEC\1soon\2", {}, ILLEGAL),
    (b"TIMER_DELAY_SEC\0019223372036854775807\2", {}, ILLEGAL),
    (b"TIMER_DELAY_MS\0019223372036854775807\2", {}, ILLEGAL),
    (b"TIMER_DELIVER_MS\0019223372036854775807\2", {}, ILLEGAL),
    (b"TIMER_OUT_MS\0011\2", {}, ILLEGAL),
    (b"DELAY\0011\2", {"e": 2}, SYSTEM_ERROR),
    (b"DELAY\0011\2", {"b": "absent", "c": "none"}, NO_TOPIC),
    (b"DELAY\0011\2", {"b": "read_only"}, NO_PERMISSION),
    (b"DELAY\0011\2k\1" + b"v" * 32_700, {}, ILLEGAL),
]


@pytest.mark.parametrize(("properties", "change", "code"), REFUSED, ids=range(len(REFUSED)))
def test_refused(
    broker: orbitmq.Broker, remote: Remote, properties: bytes, change: dict[str, object], code: int, topic: str
) -> None:
    broker.create_topic("read_only", 1)
    broker.set_permissions("read_only", read=True, write=False)
    indexed(broker)
    waited = sum(known.queues[0].max_offset for known in broker.status().topics if known.name == LEVELS_TOPIC)
    said = remote.ask(SEND_V2, b"x", **remote.send_fields(topic, 0, properties, **change))
    assert (said.code, bool(said.remark)) == (code, True), said
    assert remote.send(topic, b"good", 0, b"DELAY\0011\2").fields["queueOffset"] == str(waited)


def test_no_room_for_the_topic(tmp_path: Path) -> None:
    """It cannot be made: the send is refused with the coordinator's reason, and others go on."""
    with small_broker(tmp_path, listen="127.0.0.1:0", queue_capacity=19) as broker:
        broker.create_topic("t", 2)
        with Remote(broker.status().listens) as remote:
            said = remote.send("t", b"later", 0, b"DELAY\0011\2")
            assert said.code != SUCCESS and "queue_capacity" in (said.remark or ""), said
            assert remote.send("t", b"later", 0, b"TIMER_DELAY_SEC\00160\2").code == SUCCESS
            assert remote.send("t", b"now").code == SUCCESS


def test_many_first_ones(broker: orbitmq.Broker) -> None:
    """Many clients whose first message needs the topic, each with others behind it: each is answered in its order."""
    listens = broker.status().listens
    said: list[list[int]] = []

    def send(form: int) -> None:
        with Remote(listens, form) as remote:
            remote.put(SEND_V2, b"later", mark=ONE_WAY, **remote.send_fields("t", 0, b"DELAY\00117\2"))
            fields = {"topic": "t", "queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0}
            names = [remote.put(SEND, b"later", properties=b"DELAY\00117\2", **fields)]
            names += [remote.put(SEND_V2, b"now", **remote.send_fields("t", 0)) for _ in range(5)]
            taken = [remote.take() for _ in names]
            assert [each.opaque for each in taken] == names
            said.append([each.code for each in taken])

    crowd = [threading.Thread(target=send, args=(number % 2,)) for number in range(12)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    assert said == [[SUCCESS] * 6] * 12
    indexed(broker)
    assert len(stored(broker, LEVELS_TOPIC)) == 24 and len(stored(broker)) == 60


@pytest.mark.parametrize("victim", ["coordinator", "writer", "handler 0", "handler 1", "scheduler"])
def test_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Each message that was acknowledged comes once, whoever dies meanwhile."""
    sent = []
    with Remote(broker.status().listens) as remote:
        for number in range(60):
            remote.put(SEND_V2, b"%d" % number, **remote.send_fields("t", 0, b"TIMER_DELAY_MS\0011\2"))
        kill(broker, victim)
        for number in range(60):
            if remote.take().code == SUCCESS:
                sent.append(b"%d" % number)
    assert victim == "coordinator" or len(sent) == 60  # nobody is there to be asked for the topic
    assert sorted(map(bytes, take(broker, len(sent)))) == sorted(sent)
    assert actors(broker)["gateway"].state == "running"
