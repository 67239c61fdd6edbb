"""Goal: every way of sending can delay a message, and says what it cannot do. Method: a real broker and both clients; no clock
is looked at, only the times that the broker wrote."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import Full, NoPermission, PropertyError, SettingError, UnknownQueue, UnknownTopic, UsageError
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, until

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path) as running:
        running.create_topic("t", 4)
        yield running


def came(client: orbitmq.Client, topic: str, count: int) -> list[orbitmq.Message]:
    """So many messages of a topic, in the order of their bodies."""
    found: list[orbitmq.Message] = []
    with client.consumer(None, [topic]) as consumer:
        while len(found) < count:
            batch = consumer.poll_batch(1000, timeout=WATCHDOG_S)
            assert batch, f"{len(found)} of {count} came"
            found += batch
    return sorted(found, key=bytes)


def test_every_way_of_sending(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        receipt = producer.send("t", b"0", queue=2, tags="red", keys="k", properties={"mine": "1"}, delay_level=1)
        assert (receipt.queue, receipt.offset) == (0, 0), "the place where it waits"
        assert producer.send_async("t", b"1", delay_level=1).result().queue == 0
        producer.send_oneway("t", b"2", delay_level=1)
        producer.send_batch("t", [b"3", b"4"], delay_level=1)
        producer.send_batch_async("t", [b"5", b"6"], tags="blue", delay_level=1).result()
        assert producer.send("t", b"9", delay_level=99).queue == 17
        assert producer.send("t", b"now", delay_level=0, queue=0).queue == 0
        producer.send("t", b"now", delay_level=None, queue=0)
    name = broker.name

    async def others() -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            await producer.send("t", b"7", delay_level=1)
            await producer.send_batch("t", [b"8"], delay_level=1)

    asyncio.run(others())
    messages = came(broker, "t", 11)
    assert [bytes(message) for message in messages] == [*(b"%d" % n for n in range(9)), b"now", b"now"]
    first = messages[0]
    assert (first.queue, first.tags, first.keys, first.properties["mine"]) == (2, "red", ["k"], "1")
    waiting = {bytes(message): message for message in came(broker, SCHEDULE, 10)}
    for message in messages[:9]:
        assert message.stored_ms >= waiting[bytes(message)].stored_ms + 1000
        assert message.born_ms == waiting[bytes(message)].born_ms


def test_any_time(broker: orbitmq.Broker) -> None:
    """Every way of sending takes a delay or a time; what comes is not earlier than that."""
    with broker.producer() as producer:
        begun = time.time()
        receipt = producer.send("t", b"0", queue=2, tags="red", keys="k", properties={"mine": "1"}, delay=0.2)
        assert (receipt.queue, receipt.offset) == (0, 0), "the place where it waits"
        assert producer.send_async("t", b"1", delay=timedelta(milliseconds=200)).result().offset == 1
        producer.send_oneway("t", b"2", deliver_at=begun + 0.2)
        producer.send_batch("t", [b"3", b"4"], tags="blue", deliver_at=datetime.fromtimestamp(begun + 0.2))
        producer.send_batch_async("t", [b"5"], deliver_at=datetime.fromtimestamp(begun + 0.2, UTC)).result()
        for at_once in ({"delay": 0}, {"deliver_at": 5}, {"delay": None, "deliver_at": None}):
            producer.send("t", b"now", **at_once)  # type: ignore[arg-type]
        producer.send("t", b"in a year", delay=timedelta(days=365))
    name = broker.name

    async def others() -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as sender:
            await sender.send("t", b"6", delay=0.2)
            await sender.send_batch("t", [b"7"], deliver_at=begun + 0.2)

    asyncio.run(others())
    messages = came(broker, "t", 11)
    assert [bytes(message) for message in messages] == [*(b"%d" % n for n in range(8)), b"now", b"now", b"now"]
    assert all(message.stored_ms >= 1000 * (begun + 0.2) for message in messages[:8])
    first = messages[0]
    assert (first.queue, first.tags, first.keys, first.properties["mine"]) == (2, "red", ["k"], "1")


def test_the_page_begins_with_a_program_that_runs(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/delay.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert program
    broker.create_topic("orders", 4)
    connect, name = orbitmq.connect, broker.name
    monkeypatch.setattr(orbitmq, "connect", lambda: connect(name))
    exec(program.group(1), {})
    found = until(lambda: (listed := broker.delayed("orders", most=9)) and len(listed) >= 3 and listed, "all to be indexed")
    assert {each.body for each in found} >= {b"lunch", b"a", b"b"}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"delay": -1}, "negative"),
        ({"delay": float("nan")}, "not a number"),
        ({"delay": 367 * 86400}, "366 days at most"),
        ({"delay": 10**400}, "366 days at most"),
        ({"deliver_at": 1e12}, "366 days at most"),
        ({"delay": -(10**400)}, "negative"),
        ({"deliver_at": datetime.min}, r"datetime\(1, 1, 1, 0, 0\): "),
    ],
)
def test_times_that_are_refused(lent: orbitmq.Broker, lent_topic: str, how: dict[str, float], why: str) -> None:
    with lent.producer() as producer:
        with pytest.raises(SettingError, match=why):
            producer.send(lent_topic, b"x", **how)  # type: ignore[arg-type]
        with pytest.raises(SettingError, match=why):
            producer.send_batch(lent_topic, [b"x"], **how)  # type: ignore[arg-type]


def test_kinds_that_are_refused(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        for how in ({"delay": "1"}, {"deliver_at": "tomorrow"}, {"delay": datetime.now()}, {"deliver_at": timedelta(1)}):
            with pytest.raises(TypeError, match=next(iter(how))):
                producer.send("t", b"x", **how)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="more than one"):
            producer.send("t", b"x", delay=1, delay_level=1)
        with pytest.raises(PropertyError, match="deliver_at="):
            producer.send("t", b"x", properties={"TIMER_DELIVER_MS": "5"})
        with pytest.raises(NoPermission, match="messages with a time wait there"):
            producer.send("t", b"x", delay=1)
            producer.send("rmq_sys_wheel_timer", b"x")


def test_asyncio_alone_makes_the_topic(broker: orbitmq.Broker) -> None:
    """The first delayed message of a store asks the coordinator for the topic in which it waits, outside of the event loop."""
    name = broker.name

    async def send() -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            batches = [producer.send_batch("t", [b"a", b"b"], delay_level=1) for _ in range(3)]
            singles = [producer.send("t", b"c", delay_level=1) for _ in range(3)]
            await asyncio.gather(*batches, *singles)

    asyncio.run(send())
    assert [bytes(message) for message in came(broker, "t", 9)] == sorted([b"a", b"b", b"c"] * 3)


def test_asyncio_sends_without_a_delay_go_on(broker: orbitmq.Broker) -> None:
    """If there is no place for the topic in which messages wait, each delayed send says so, and no other send."""
    with suppress(Full):
        for n in range(100):
            broker.create_topic(f"filler{n}", 1)
    name = broker.name

    async def send() -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            for _ in range(2):
                with pytest.raises(Full, match="table of queues is full"):
                    await producer.send("t", b"delayed", delay_level=1)
                await producer.send("t", b"now")
            with pytest.raises(Full, match="table of queues is full"):
                await producer.send_batch("t", [b"delayed"], delay_level=1)
            await producer.send_batch("t", [b"now"])

    asyncio.run(send())
    assert [bytes(message) for message in came(broker, "t", 3)] == [b"now"] * 3


def test_a_time_does_not_need_room_for_levels(tmp_path: Path) -> None:
    """In a table that has 16 queues left, messages with a time can wait, and messages with a level cannot. In one that has 18,
    those of the first kind that comes can wait."""
    with small_broker(tmp_path / "16", queue_capacity=32) as broker:
        broker.create_topic("t", 4)  # and 12 to grow
        with broker.producer() as producer:
            with pytest.raises(Full, match=f"'{SCHEDULE}' with 18 queues: the table of queues is full"):
                producer.send("t", b"level", delay_level=1)
            producer.send("t", b"time", delay=0.01)
        assert [bytes(message) for message in came(broker, "t", 1)] == [b"time"]
    with small_broker(tmp_path / "18", queue_capacity=34) as broker:
        broker.create_topic("t", 4)
        with broker.producer() as producer:
            producer.send("t", b"level", delay_level=1)
            with pytest.raises(Full, match="'rmq_sys_wheel_timer' with 1 queues: the table of queues is full"):
                producer.send("t", b"time", delay=0.01)
        assert [bytes(message) for message in came(broker, "t", 1)] == [b"level"]


def test_asyncio_tells_times_from_levels(tmp_path: Path) -> None:
    """Tasks that send at the same time: each learns what became of its own kind of delay."""

    async def send(name: str) -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            levels = [producer.send("t", b"level", delay_level=1) for _ in range(3)]
            times = [producer.send("t", b"time", delay=0.01) for _ in range(3)]
            ended = await asyncio.gather(*levels, *times, return_exceptions=True)
            for error in ended[:3]:
                assert isinstance(error, Full) and error.topic == SCHEDULE
            assert all(isinstance(receipt, orbitmq.Receipt) for receipt in ended[3:])

    with small_broker(tmp_path, queue_capacity=32) as broker:
        broker.create_topic("t", 4)
        asyncio.run(send(broker.name))
        assert [bytes(message) for message in came(broker, "t", 3)] == [b"time"] * 3


def test_what_cannot_be_sent(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        with pytest.raises(SettingError, match="delay_level -1: levels are numbered from 1"):
            producer.send("t", b"x", delay_level=-1)
        with pytest.raises(SettingError, match="delay_level -1"):
            producer.send_batch("t", [b"x"], delay_level=-1)
        for argument in ("delay_level", "queue", "flag", "timeout"):
            with pytest.raises(TypeError, match=f"{argument} must be .*, not <class 'str'>"):
                producer.send("t", b"x", **{argument: "3"})  # type: ignore[arg-type]
        with pytest.raises(UnknownTopic):
            producer.send("none", b"x", delay_level=3)
        with pytest.raises(UnknownQueue):
            producer.send("t", b"x", queue=9, delay_level=3)
        for name in ("DELAY", "REAL_TOPIC", "REAL_QID"):
            with pytest.raises(PropertyError, match=name):
                producer.send("t", b"x", properties={name: "3"}, delay_level=3)
        with pytest.raises(PropertyError, match="delay_level="):
            producer.send("t", b"x", properties={"DELAY": "3"})
        producer.send("t", b"x", delay_level=18)
        for level in (None, 1):
            with pytest.raises(NoPermission, match="delayed messages wait there"):
                producer.send(SCHEDULE, b"x", delay_level=level)
    assert came(broker, SCHEDULE, 1)


def test_the_scheduler_dies_again_and_again(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        for first in range(0, 1000, 100):
            producer.send_batch("t", [b"%04d" % n for n in range(first, first + 100)], delay_level=1)
            kill(broker, "scheduler")
    assert [int(bytes(message)) for message in came(broker, "t", 1000)] == list(range(1000))
    assert broker.status().positions.reput == broker.status().positions.wrote


def test_over_a_stop(tmp_path: Path) -> None:
    """What waits at a stop comes after the next start, and what came does not come again."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"first", delay_level=1)
            came(broker, "t", 1)
            producer.send("t", b"second", delay_level=2)
    # The second may have come, if the stop took as long as its level.
    assert config.load_delay_offsets(StoreLayout.at(tmp_path)) in ({1: 1}, {1: 1, 2: 1})
    with small_broker(tmp_path) as broker:
        assert [bytes(message) for message in came(broker, "t", 2)] == [b"first", b"second"]
        until(lambda: broker.status().positions.reput == broker.status().positions.wrote, "reput")
        assert sum(queue.max_offset for topic in broker.status().topics for queue in topic.queues if topic.name == "t") == 2


def test_without_its_own_file(tmp_path: Path) -> None:
    """If orbitmq/delayed was removed, what came at a level does not come again, because RocketMQ's file says so. That file
    knows nothing of messages with a time."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"level", delay_level=1)
            producer.send("t", b"time", delay=0.1)
        came(broker, "t", 2)
    StoreLayout.at(tmp_path).delayed.unlink()
    with small_broker(tmp_path) as broker:
        with broker.producer() as producer:
            producer.send("t", b"next of the level", delay_level=1)
        assert [bytes(message) for message in came(broker, "t", 4)] == [b"level", b"next of the level", b"time", b"time"]
