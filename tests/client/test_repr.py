"""Goal: a client, producer, consumer or broker in a log or a debugger says which one it is. Method: their reprs while they are
open, when they are closed, in a forked child, without a broker, and half made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.producer.producer import Producer
from orbitmq.client.work.session import WorkSession
from tests.client.test_connection import in_child
from tests.client.thread_broker import ThreadBroker
from tests.trees import small_broker


def test_reprs(tmp_path: Path) -> None:
    """Open and closed, and in a forked child: names, group and topics are in it, and nobody is asked for them."""
    with small_broker(tmp_path / "store", name="shop") as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        client = orbitmq.connect("shop")
        producer = client.producer()
        member = client.consumer("billing", ["orders", "bills"])
        reader = client.consumer(topics=["orders"])
        session = client.work_session("packing", ["orders", "bills"])
        expected = {
            "client": "<Client of the broker 'shop', open>",
            "producer": "<Producer of the broker 'shop', open>",
            "member": "<Consumer of the broker 'shop', group 'billing', topics 'orders', 'bills', open>",
            "reader": "<Consumer of the broker 'shop', no group, topics 'orders', open>",
            "session": "<WorkSession of the broker 'shop', group 'packing', topics 'orders', 'bills', open>",
            "broker": f"<Broker 'shop', pid {broker.pid}, open>",
        }
        named = dict(client=client, producer=producer, member=member, reader=reader, session=session, broker=broker)
        assert {name: repr(each) for name, each in named.items()} == expected
        assert in_child(lambda: None if {name: repr(each) for name, each in named.items()} == expected else 1 / 0) == 0
    # The broker has ended: the repr does not look.
    assert {name: repr(each) for name, each in named.items() if name != "broker"} == {
        name: text for name, text in expected.items() if name != "broker"
    }
    assert repr(broker) == "<Broker 'shop', closed>"
    client.close()
    for each in (client, producer, member, reader, session):
        assert repr(each).endswith(", closed>"), repr(each)


def test_reprs_of_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with orbitmq.aio.connect("shop") as client:
            producer, consumer = await client.producer(), await client.consumer(topics=["orders"])
            assert repr(client) == "<AsyncClient of the broker 'shop', open>"
            assert repr(producer) == "<AsyncProducer of the broker 'shop', open>"
            assert repr(consumer) == "<AsyncConsumer of the broker 'shop', no group, topics 'orders', open>"
        assert all(repr(each).endswith(", closed>") for each in (client, producer, consumer))

    with small_broker(tmp_path / "store", name="shop") as broker:
        broker.create_topic("orders")
        asyncio.run(main())


@pytest.mark.parametrize(
    "kind",
    [
        *(orbitmq.Client, orbitmq.Broker, orbitmq.Consumer, orbitmq.Producer, orbitmq.Worker, WorkSession),
        *(orbitmq.aio.AsyncClient, orbitmq.aio.AsyncConsumer, orbitmq.aio.AsyncProducer),
    ],
)
def test_half_made_objects_have_a_repr(kind: type) -> None:
    """Goal: a traceback with local variables shows an object whose making failed, and does not itself fail."""
    assert repr(kind.__new__(kind)) == f"<{kind.__name__}, not made>"


def test_a_producer_of_another_opener(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path) as broker, Producer(broker) as producer:
        assert repr(producer) == f"<Producer of the broker {broker.name!r}, open>"
