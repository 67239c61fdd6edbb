"""Goal: messages out of Arrow's buffers are stored as they are there, and invalid buffers are refused before the first message
is sent. Method: a small broker, buffers made by hand."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import MessageTooLarge, PropertiesTooLarge, UnknownQueue, UnknownTopic
from tests.trees import small_broker
from tests.waiting import until


@pytest.fixture
def producer(lent: orbitmq.Broker, lent_topic: str) -> Iterator[Producer]:
    with lent.producer(message_max=4096) as made:
        yield made
        assert made.send(lent_topic, b"", queue=2).offset == 0, "something was sent"


def column(*cells: bytes) -> tuple[Any, bytes]:
    ends = [sum(map(len, cells[:number])) for number in range(len(cells) + 1)]
    return array("q", ends), b"".join(cells)


def send(producer: Producer, **changed: Any) -> Any:
    given = {"topic": "t", "rows": 2, "bodies": column(b"a", b"b"), "properties": column(b"", b""), "queues": None, **changed}
    given = {"flags": None, "keys": (None, None), **given}
    return producer.send_columns(
        given["topic"],
        given["rows"],
        *given["bodies"],
        *given["properties"],
        given["queues"],
        given["flags"],
        *given["keys"],
        True,
    ).result(30)


def test_what_is_sent_is_stored(tmp_path: Path) -> None:
    rows = 5000
    with small_broker(tmp_path / "store") as broker, broker.producer() as producer:
        broker.create_topic("t", 3)
        bodies = [b"%d" % row * (row % 50) for row in range(rows)]
        names = [b"TAGS\1x\2KEYS\1k%d\2p\1%d\2" % (row, row) if row % 3 else b"" for row in range(rows)]
        keys = [b"key%d" % (row % 7) if row % 2 else b"" for row in range(rows)]
        queues = array("i", [row % 3 if row % 5 == 0 else -1 for row in range(rows)])
        receipts = send(
            producer,
            rows=rows,
            bodies=column(*bodies),
            properties=column(*names),
            keys=column(*keys),
            queues=queues,
            flags=array("i", range(-1, rows - 1)),
        )
        assert [receipt.durability for receipt in receipts[:2]] == ["flushed", "flushed"]
        places = {key: producer.send("t", b"", queue_key=key).queue for key in set(keys) if key}
        until(lambda: broker.status().positions.reput == broker.status().positions.wrote, "reput")
        for row in range(0, rows, 7):
            message = broker.message(receipts[row].id)
            assert bytes(message.body) == bodies[row]
            assert message.properties == ({"TAGS": "x", "KEYS": f"k{row}", "p": str(row)} if row % 3 else {})
            assert message.flag == row - 1
            if queues[row] >= 0:
                assert message.queue == queues[row]
            elif keys[row]:
                assert message.queue == places[keys[row]]
        in_turn = [receipts[row].queue for row in range(rows) if queues[row] < 0 and not keys[row]]
        assert all((before + 1) % 3 == after for before, after in pairwise(in_turn))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"topic": "nowhere"}, UnknownTopic),
        ({"rows": 3}, ValueError),
        ({"bodies": (array("q", [0, 2, 1]), b"abc")}, ValueError),
        ({"bodies": (array("q", [-1, 0, 1]), b"abc")}, ValueError),
        ({"bodies": (array("q", [0, 1, 4]), b"abc")}, ValueError),
        ({"bodies": (array("q", [0, 1, 1 << 40]), b"abc")}, ValueError),
        ({"bodies": (memoryview(bytes(25))[1:], b"abc")}, ValueError),
        ({"queues": array("i", [0])}, ValueError),
        ({"queues": array("i", [0, 3])}, UnknownQueue),
        ({"flags": b""}, ValueError),
        ({"bodies": column(b"a", b"b" * 4096)}, MessageTooLarge),
        ({"properties": column(b"", b"x" * 32_800)}, PropertiesTooLarge),
        ({"bodies": ("text", b"")}, TypeError),
    ],
)
def test_refused_before_the_first(
    producer: Producer, lent_topic: str, changed: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        send(producer, **{"topic": lent_topic, **changed})
