"""Goal: a program passes a message on with what its sender chose, however it was sent. Method: messages that carry notes of the
library and of the broker, each passed on with its user_properties."""

from __future__ import annotations

from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import PropertyError
from tests.trees import indexed, small_broker

OWN = {"color": "red", "region": "eu"}


def test_a_message_is_passed_on(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        for topic in ("from", "to"):
            broker.create_topic(topic, 1)
        with broker.producer(name="shop") as named, broker.producer() as producer, broker.consumer(None, ["from"]) as consumer:
            named.send("from", b"named", tags="t", keys=["k"], properties=OWN)
            producer.send("from", b"once", dedup="order-17", properties={**OWN, "UNIQ_KEY": "1"})
            producer.send("from", b"later", delay=0.001, properties=OWN)
            with producer.transaction("from", b"whole", properties=OWN):
                pass
            with producer.batch() as batch:
                batch.send("from", b"first", properties=OWN)
                batch.send("from", b"second", properties=OWN)
            came: list[orbitmq.Message] = []
            while len(came) < 6:
                came += consumer.poll_batch(timeout=10)
            for message in came:
                assert message.user_properties == OWN
                assert message.properties.keys() > OWN.keys()
                with pytest.raises(PropertyError):
                    producer.send("to", message.body, properties=message.properties)
                producer.send("to", message.body, tags=message.tags, keys=message.keys, properties=message.user_properties)
        indexed(broker)
        with broker.consumer(None, ["to"], start="earliest") as consumer:
            assert [message.user_properties for message in consumer.poll_batch(6, timeout=10)] == [OWN] * 6
