"""Goal: what a client of the gateway pulls is whole: the largest record too, and beside retention no message that is still
there. Method: small files, of which retention removes one after the other while a client reads."""

from __future__ import annotations

import os
from pathlib import Path

import orbitmq
from orbitmq.store.settings.settings import MESSAGE_MAX
from tests.actors.remoting_client import Remote, records
from tests.trees import SMALL, small_broker
from tests.waiting import until

SUCCESS, ILLEGAL, NOT_FOUND, RETRY, MOVED = 0, 13, 19, 20, 21
FILE = SMALL["log_file_size"]


def offset_of(record: bytes) -> int:
    return int.from_bytes(record[20:28], "big")


def test_the_largest_record(tmp_path: Path) -> None:
    """It fits with its header into one frame."""
    sizes = {"log_file_size": 64 << 20, "message_max": MESSAGE_MAX, "lane_capacity": 64 << 20}
    with small_broker(tmp_path, listen="127.0.0.1:0", **sizes) as broker:
        broker.create_topic("t", 1)
        body = os.urandom(MESSAGE_MAX - 200)
        with broker.producer(message_max=MESSAGE_MAX) as producer:
            producer.send("t", body)
        with Remote(broker.status().listens) as remote:
            until(lambda: broker.topic("t").queues[0].max_offset == 1, "the record's place")
            (record,) = records(remote.pull("t", 0, 0).body)
            assert body in record
            assert remote.send("t", body, properties=b"k\1" + b"v" * 50).code == SUCCESS
            until(lambda: broker.topic("t").queues[0].max_offset == 2, "the other's place")
            assert body in remote.pull("t", 0, 1).body


def test_a_body_as_large_as_rocketmq_s_clients_send(tmp_path: Path) -> None:
    """4 MiB and 30 KB of properties, without any setting of sizes of messages."""
    sizes = {name: value for name, value in SMALL.items() if name != "lane_capacity"} | {"log_file_size": 32 << 20}
    with orbitmq.Broker(tmp_path, listen="127.0.0.1:0", **sizes) as broker:
        broker.create_topic("t", 1)
        body, properties = os.urandom(4 << 20), b"k\1" + b"v" * 30_000
        with Remote(broker.status().listens) as remote:
            assert remote.send("t", body, properties=properties).code == SUCCESS
            until(lambda: broker.topic("t").queues[0].max_offset == 1, "the record's place")
            (record,) = records(remote.pull("t", 0, 0).body)
            assert body in record and properties in record
            assert remote.send("t", body * 2).code == ILLEGAL


def test_no_message_is_passed_over(tmp_path: Path) -> None:
    """Between two answers the client misses only what the queue no longer begins with."""
    limit = {"queue_file_units": 100, "retention_bytes": 3 * FILE, "allow_deletion": True}
    with small_broker(tmp_path, listen="127.0.0.1:0", **limit) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)

        def begins() -> int:
            return broker.topic("t").queues[0].min_offset

        with Remote(broker.status().listens) as remote:
            while begins() < 3000:
                producer.send_batch("t", [bytes(4000)] * 300)
                following = begins()
                while (said := remote.pull("t", 0, following)).code != NOT_FOUND:
                    begin, following = following, int(said.fields["nextBeginOffset"])
                    came = [offset_of(record) for record in records(said.body)]
                    assert said.code in (SUCCESS, MOVED, RETRY)
                    assert came == list(range(following - len(came), following))
                    assert begin <= following - len(came) <= max(begin, begins())
            assert remote.pull("t", 0, 0).code == MOVED
