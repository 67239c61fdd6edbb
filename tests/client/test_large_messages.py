"""Goal: a broker that is asked to takes the largest records; every way to read, repeat and recover a message does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.trees import kill, small_broker

MIB = 1 << 20
MOST = 16 * MIB - 65536
AROUND = 200  # more than a record has around the body of a message without properties
SIZES = {"log_file_size": 64 * MIB, "message_max": MOST, "lane_capacity": 64 * MIB}
LENGTHS = (4 * MIB, MOST - AROUND, 1, 9 * MIB, MOST - AROUND, 100)


def bodies() -> list[bytes]:
    return [(os.urandom(4099) * (length // 4099 + 1))[:length] for length in LENGTHS]


def read(broker: orbitmq.Broker, topic: str, count: int) -> list[bytes]:
    with broker.consumer(topics=[topic], start="earliest") as consumer:
        seen: list[bytes] = []
        while len(seen) < count:
            seen += [bytes(message) for message in consumer.poll_batch(timeout=240)]
        return seen


def test_every_way_to_send_and_read(tmp_path: Path) -> None:
    """One at a time and in a batch, before and after deaths and a start; as objects, bodies and Arrow."""
    sent = bodies()
    with small_broker(tmp_path, **SIZES) as broker:
        broker.create_topic("large", 1)
        with broker.producer(message_max=MOST) as producer:
            for body in sent[:3]:
                producer.send("large", body)
            producer.send_batch("large", sent[3:])
            kill(broker, "writer")
            kill(broker, "reput")
            sent.append(bodies()[1])
            producer.send("large", sent[-1], timeout=240)
        assert read(broker, "large", len(sent)) == sent
        with broker.consumer(topics=["large"], start="earliest") as consumer:
            seen: list[bytes] = []
            while len(seen) < len(sent):
                seen += consumer.poll_bodies(timeout=240)
            assert seen == sent
        with broker.consumer(topics=["large"], start="earliest") as consumer:
            seen = []
            while len(seen) < len(sent):
                seen += consumer.poll_arrow(timeout=240).column("body").to_pylist()
            assert seen == sent
    layout = StoreLayout.at(tmp_path)
    findings: list[str] = []
    assert verify(layout, layout.settings(), lambda finding: findings.append(str(finding))).whole, findings
    # A broker whose own limit is smaller reads what is there.
    with small_broker(tmp_path, **{**SIZES, "message_max": MIB, "lane_capacity": 4 * MIB}) as broker:
        assert read(broker, "large", len(sent)) == sent


def test_four_mebibytes_and_their_properties(tmp_path: Path) -> None:
    """What RocketMQ's clients may send: a body of 4 MiB with 30 KB of properties around it."""
    body, properties = bodies()[0], {f"key{number}": "x" * 1000 for number in range(29)}
    with small_broker(tmp_path, **{**SIZES, "message_max": 5 * MIB, "lane_capacity": 16 * MIB}) as broker:
        broker.create_topic("large", 1)
        with broker.producer(message_max=5 * MIB) as producer:
            producer.send("large", body, properties=properties)
        with broker.consumer(topics=["large"], start="earliest") as consumer:
            message = consumer.poll(timeout=240)
            assert message is not None and bytes(message) == body and properties.items() <= message.properties.items()


def test_it_comes_again(tmp_path: Path) -> None:
    """A worker fails with it; the copy in the retry topic has more properties, for which its size leaves room."""
    body = bodies()[1][: MOST - 1000]
    with small_broker(tmp_path, **SIZES) as broker:
        broker.create_topic("large", 1)
        with broker.producer(message_max=MOST) as producer:
            producer.send("large", body)
        attempts = []
        with broker.worker("again", ["large"]) as worker:
            for job in worker:
                attempts.append(job.delivery)
                assert job.body == body
                if len(attempts) == 2:
                    job.ack()
                    break
                job.nack(delay=0)
    assert attempts == [1, 2]


def test_beyond_every_broker(tmp_path: Path) -> None:
    with small_broker(tmp_path, **SIZES) as broker:
        broker.create_topic("large", 1)
        with broker.producer(message_max=MOST) as producer, pytest.raises(errors.MessageTooLarge) as caught:
            producer.send("large", bytes(MOST))
    assert caught.value.limit == MOST and "16711680" in str(caught.value)
