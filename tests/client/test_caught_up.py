"""Goal: what was acknowledged counts for searches, purges, resets, lists and seeks, however far reput is behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.admin.status import read_positions
from tests.trees import small_broker, stopped
from tests.waiting import WATCHDOG_S

Ask = Callable[[orbitmq.Client, orbitmq.Consumer, orbitmq.Receipt], Any]


def sought(_: orbitmq.Client, consumer: orbitmq.Consumer, receipt: orbitmq.Receipt) -> Any:
    consumer.seek("orders", 0, receipt.offset + 1)
    return consumer.position()


ASKED: dict[str, tuple[Ask, Any]] = {
    "message": (lambda client, _, receipt: client.message(receipt.id).body, b"one tea"),
    "find": (lambda client, *_: [each.body for each in client.find("orders", "o-1")], [b"one tea"]),
    "purge": (lambda client, *_: [(each.before, each.after) for each in client.purge_topic("orders")], [(0, 1)]),
    "reset": (lambda client, *_: [each.after for each in client.reset_group("billing", "latest", topic="orders")], [1]),
    "delayed": (lambda client, *_: [each.body for each in client.delayed()], [b"a late tea"]),
    "transactions": (lambda client, *_: [each.body for each in client.open_transactions()], [b"a half"]),
    "seek": (sought, {("orders", 0): 1}),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_was_acknowledged_counts(tmp_path: Path, name: str) -> None:
    """One client waits for reput, which hangs; another does not have the time, and is told so instead of something wrong."""
    ask, expected = ASKED[name]
    with small_broker(tmp_path, timeout=WATCHDOG_S) as broker, ThreadPoolExecutor(1) as other:
        broker.create_topic("orders", 1)
        with broker.consumer("billing", ["orders"]):
            pass
        producer = broker.producer()
        producer.send("orders", b"another", delay=3600)  # makes the topic in which such messages wait
        broker.cancel(broker.delayed()[0])
        shop = broker.producer(group="shop")
        shop.transaction("orders", b"another").rollback()
        hurried = orbitmq.connect(broker.name)
        patient, brief = broker.consumer(None, ["orders"]), hurried.consumer(None, ["orders"])
        hurried.connection.timeout = 0.05
        with stopped(broker, "reput"), hurried:
            receipt = producer.send("orders", b"one tea", keys=["o-1"])
            producer.send("orders", b"a late tea", delay=3600)
            shop.transaction("orders", b"a half")
            assert read_positions(broker.connection.attachment).reput <= receipt.physical_offset
            asked = other.submit(ask, broker, patient, receipt)
            with pytest.raises(errors.TimedOut, match=r"reput, .* is behind the log's end") as caught:
                ask(hurried, brief, receipt)
            assert caught.value.timeout == 0.05
        assert asked.result(WATCHDOG_S) == expected
