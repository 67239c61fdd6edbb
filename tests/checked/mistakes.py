"""Mistakes that users make, one a line. tests/test_types.py has mypy and pyright refuse each of them, and no other line."""
# ruff: noqa: B018

from __future__ import annotations

import orbitmq
from orbitmq import aio


def settings(broker: orbitmq.Broker) -> None:
    orbitmq.Broker("store", flsh="batch")
    orbitmq.Broker("store", flush="batsh")
    orbitmq.Broker("store", handlers="2")
    orbitmq.Broker("store", log_file_size=1.5e9)
    orbitmq.Broker("store", owner=1)
    orbitmq.Broker()
    broker.change_settings({"flsh": "batch"})
    broker.change_settings({"flush": "batsh"})
    broker.change_settings({"flush": None})
    broker.change_settings({"log_file_size": 1 << 30})
    broker.change_settings(forget="flush")
    orbitmq.connect("default", 5)
    orbitmq.connect(tiemout=5)
    broker.create_topic("orders", queues="8")
    broker.create_topic("orders", durability="replicated")
    broker.create_topic(["orders"])
    broker.reset_group("billing")
    broker.reset_group("billing", 1.5)
    broker.set_permissions("orders", 6)
    broker.purge_topic("orders", "latest", 0)
    broker.reset_group("billing", "latest", topic=["orders"])


def tables() -> None:
    orbitmq.dataset("store", "orders")
    orbitmq.dataset("store", columns="value")
    orbitmq.dataset("store", start=17)
    orbitmq.dataset("store", read="all")
    orbitmq.dataset("store", allow_gaps=True).to_tabel()


def hand_out(broker: orbitmq.Broker) -> None:
    broker.worker("billing")
    broker.worker("billing", "orders")
    broker.worker("billing", ["orders"], concurency=8)
    broker.worker("billing", ["orders"], executor="fibers")


def settle(job: orbitmq.Job) -> None:
    job.nack("later")
    job.body.encode()


def send(broker: orbitmq.Broker) -> None:
    broker.producer(512)
    broker.producer(windw=512)
    broker.producer(on_full="raise")
    broker.producer(timeout="30")
    broker.producer(durability="flush")
    producer = broker.producer()  # right
    producer.send(b"orders", b"body")
    producer.send("orders", 17)
    producer.send("orders", {"id": 17})
    producer.send("orders")
    producer.send("orders", b"body", tag="new")
    producer.send("orders", b"body", queue="0")
    producer.send("orders", b"body", properties={"number": 1})
    producer.send("orders", b"body", durability="flush")
    producer.send_batch("orders", b"body")
    producer.send_batch("orders", "body")
    producer.send_batch("orders", [1, 2])
    producer.send_batch("orders", [b"a", b"b"], keys="ab")
    producer.send_async("orders", b"body").offset
    producer.send_batch_async("orders", [b"body"])[0]
    producer.send_oneway("orders", b"body").result()


def consume(broker: orbitmq.Broker) -> None:
    broker.consumer("group", "orders")
    broker.consumer(topics="orders")
    broker.consumer("group", b"orders")
    broker.consumer("group", [b"orders"])
    broker.consumer(["orders"])
    broker.consumer("group", ["orders"], "tag")
    broker.consumer("group", ["orders"], start="begin")
    broker.consumer("group", ["orders"], bach=10)
    broker.consumer("group", ["orders"], batch="10")
    broker.consumer("group", ["orders"], removed="error")
    broker.consumer("group", ["orders"], tags=["a", "b"])
    broker.consumer("group", ["orders"], on_revoked=lambda queues: None)
    consumer = broker.consumer("group", ["orders"])  # right
    consumer.poll().body
    consumer.poll("1")
    consumer.poll(timout=1)
    consumer.wait(timout=1)
    consumer.commit(offset={("orders", 0): 10})
    consumer.poll_batch(max_message=10)
    consumer.poll_arrow(columns="body")
    consumer.commit(10)
    consumer.commit({"orders": 10})
    consumer.pause(("orders", 0))
    consumer.seek("orders", 0)
    consumer.acknowledge()


async def with_asyncio(client: aio.AsyncClient) -> None:
    aio.connect(tiemout=5)
    await client.producer(windw=512)
    await client.consumer("group", "orders")
    await client.consumer("group", ["orders"], bach=10)
    await client.change_settings({"flsh": "batch"})
    (await client.consumer("group", ["orders"])).poll().body
    client.consumer("group", ["orders"]).poll()
    producer = await client.producer()  # right
    await producer.send("orders", 17)
    await producer.send("orders", b"body", tag="new")
    await producer.send_batch("orders", "body")
    await producer.send_batch("orders", [b"a"], keys="a")
    (await producer.send_async("orders", b"body")).offset
    aio.connect().topics()
