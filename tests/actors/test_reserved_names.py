"""Goal: what asks RocketMQ for something is refused, and not stored as if it had an effect; a store of RocketMQ's that holds
such topics opens, and can be read. Method: a real tree, both clients, and a log with another broker's topics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import NoPermission, PropertyError, TopicNameError, UnknownTopic
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, indexed, small_broker


def test_neither_topics_nor_properties(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        for name in ("SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102"):
            with pytest.raises(TopicNameError, match="RocketMQ"):
                broker.create_topic(name)
            with pytest.raises(UnknownTopic, match="nobody can make a topic of this name"):
                broker.consumer(None, [name])
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            with pytest.raises(UnknownTopic, match="nobody can make a topic of this name: delayed messages wait there"):
                producer.send("SCHEDULE_TOPIC_XXXX", b"x")
            for name in ("DELAY", "WAIT", "TAGS", "CLUSTER", "__CRC32#", "TRAN_MSG", "TIMER_DELAY_SEC"):
                for send in (producer.send, producer.send_async, producer.send_oneway):
                    with pytest.raises(PropertyError, match=name):
                        send("t", b"x", properties={"mine": "1", name: "3"})
            with pytest.raises(PropertyError, match="durability="):
                producer.send("t", b"x", properties={"WAIT": "false"})
            producer.send("t", b"y", properties={"mine": "1", "UNIQ_KEY": "u-1"})
        indexed(broker)
        assert broker.status().topics[0].queues[0].max_offset == 1
        name = broker.name

        async def one() -> None:
            async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
                with pytest.raises(PropertyError, match="DELAY"):
                    await producer.send("t", b"x", properties={"DELAY": "3"})

        asyncio.run(one())


@pytest.mark.parametrize("described", [True, False])
def test_topics_of_rocketmq(tmp_path: Path, described: bool) -> None:
    """What waits there for RocketMQ can be read, and nobody adds to it; its file says what RocketMQ wants."""
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    topics = ("SCHEDULE_TOPIC_XXXX", "%RETRY%g", "RMQ_SYS_TRANS_HALF_TOPIC", "orders")
    if described:
        config.store_topics(layout, {name: TopicConfig(name, 1, 1, perm=6) for name in topics}, DataVersion())
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    for name in topics:
        log.append(name, body=name.encode())
    with small_broker(tmp_path, retention_hours=0) as broker:
        assert {topic.name for topic in broker.topics()} == set(topics)
        for name in topics:
            with broker.consumer(None, [name]) as consumer:
                (message,) = consumer.poll_batch(10, 10)
                assert bytes(message) == name.encode()
        with broker.producer() as producer:
            for name in topics[:-1]:
                with pytest.raises(NoPermission, match="RocketMQ"):
                    producer.send(name, b"x")
                with pytest.raises(NoPermission):
                    producer.send_batch(name, [b"x"])
            assert producer.send("orders", b"x").offset == 1
    found, _ = config.load_topics(layout)
    assert {name: found[name].perm for name in topics} == dict.fromkeys(topics, 6)
