"""Goal: what waits for its time is listed, with its time, and nothing else. Method: a real broker, both clients and the
command; times that do not come while the test runs
(client/delay/delayed.py, cli/delay.py)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import orbitmq
from orbitmq.client.delay import delayed
from orbitmq.errors import SettingError, TopicNameError, UnknownTopic
from orbitmq.store import delays
from orbitmq.store.layout import StoreLayout
from tests.cli.commands import run
from tests.trees import small_broker
from tests.waiting import until

DAY_S = 86_400


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path) as running:
        for topic in ("orders", "bills"):
            running.create_topic(topic, 4)
        yield running


def test_what_waits_is_listed(broker: orbitmq.Broker) -> None:
    """The next one first, of levels and of times, with where it is for; what has come is not."""
    assert broker.delayed() == []
    now = time.time()
    with broker.producer() as producer, broker.consumer(None, ["orders"]) as consumer:
        producer.send("orders", b"soon", delay=0.01)
        later = producer.send("orders", b"later", deliver_at=now + 3 * DAY_S, queue=2, keys="k")
        level = producer.send("bills", b"level", delay_level=18)
        producer.send("bills", b"next", delay=DAY_S)
        assert bytes(until(lambda: consumer.poll(timeout=1), "the first")) == b"soon"
    found = until(lambda: (listed := broker.delayed()) and len(listed) == 3 and listed, "all to be indexed")
    assert [each.body for each in found] == [b"level", b"next", b"later"]
    assert [(each.topic, each.queue) for each in found][2] == ("orders", 2)
    assert 0 <= found[2].due_ms - (now + 3 * DAY_S) * 1000 < 1.01
    assert found[2].place == f"rmq_sys_wheel_timer/0@{later.offset}"
    assert found[0].place == f"SCHEDULE_TOPIC_XXXX/17@{level.offset}"
    assert [each.body for each in broker.delayed("bills")] == [b"level", b"next"]
    assert [each.body for each in broker.delayed("orders", most=1)] == [b"later"]
    assert [each.body for each in broker.delayed(most=2)] == [b"level", b"next"]
    name = broker.name

    async def others() -> list[bytes]:
        async with orbitmq.aio.connect(name) as client:
            return [each.body for each in await client.delayed("orders")]

    assert asyncio.run(others()) == [b"later"]
    (line,) = run("delay", "list", "orders", "--json", "--name", name).stdout.splitlines()
    shown = json.loads(line)
    assert (shown["body"], shown["for_topic"], shown["for_queue"], shown["place"]) == ("later", "orders", 2, found[2].place)
    assert shown["due_ms"] == found[2].due_ms
    table = run("delay", "list", "--name", name).stdout
    assert table.index("bills") < table.index("orders")
    broker.create_topic("quiet", 1)
    assert "no message waits" in run("delay", "list", "quiet", "--name", name).stdout
    broker.delete_topic("bills")
    assert len(broker.delayed("bills")) == 2  # they are dropped when they are due


def test_what_came_before_the_clock_was_set_back(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages with a time that were delivered are not listed again, once the broker has written that down."""
    with broker.producer() as producer, broker.consumer(None, ["orders"]) as consumer:
        for delay in (DAY_S, 0.01, 0.02):
            producer.send("orders", b"%g" % delay, delay=delay)
        assert {bytes(until(lambda: consumer.poll(timeout=1), "a message")) for _ in range(2)} == {b"0.01", b"0.02"}
        producer.send("orders", b"another", delay=DAY_S)
    layout = StoreLayout.at(Path(broker.status().store))
    until(lambda: delays.load(layout).timer[0] >= 3, "the files to say so")
    monkeypatch.setattr(delayed, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - 3600 * 10**9))
    assert until(lambda: {each.body for each in broker.delayed()} == {b"%d" % DAY_S, b"another"})


@pytest.mark.parametrize("piece", [1, 3, 4096])
def test_what_was_cancelled_is_not_listed(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Wherever the record that cancels a message lies behind it; with and without a limit."""
    monkeypatch.setattr(delayed, "PIECE_UNITS", piece)
    with broker.producer() as producer:
        receipts = [producer.send("orders", b"%d" % n, delay=DAY_S + n) for n in range(12)]
        assert broker.cancel_batch([receipts[0], receipts[4], receipts[11]]) == [True] * 3
        producer.send("bills", b"bill", delay=DAY_S / 2)
        assert broker.cancel_batch([receipts[5], receipts[0]]) == [True] * 2
    left = [b"bill", *(b"%d" % n for n in (1, 2, 3, 6, 7, 8, 9, 10))]
    assert until(lambda: [each.body for each in broker.delayed()] == left)
    assert [each.body for each in broker.delayed(most=3)] == left[:3]
    assert [each.body for each in broker.delayed("orders", most=3)] == left[1:4]


def test_refusals(broker: orbitmq.Broker) -> None:
    with pytest.raises(SettingError, match="must be at least 1"):
        broker.delayed(most=0)
    with pytest.raises(TopicNameError):
        broker.delayed("a b")
    with pytest.raises(UnknownTopic, match="waits for topic 'ordesr': it does not exist"):
        broker.delayed("ordesr")
