"""Goal: a str with a lone surrogate is refused with an error of OrbitMQ's wherever it comes in. Method: every argument of the
library that takes a str gets one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import PropertyError, SettingError, TopicNameError, UsageError

BAD = "half \ud800"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with orbitmq.Broker(tmp_path_factory.mktemp("text") / "store", log_file_size=1 << 20) as broker:
        broker.create_topic("t", queues=1)
        yield broker


Call = Callable[[orbitmq.Client, orbitmq.Producer], Any]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client, producer: producer.send(BAD, b""), TopicNameError),
        (lambda client, producer: producer.send("t", BAD), UsageError),
        (lambda client, producer: producer.send("t", b"", tags=BAD), PropertyError),
        (lambda client, producer: producer.send("t", b"", keys=BAD), PropertyError),
        (lambda client, producer: producer.send("t", b"", keys=["k", BAD]), PropertyError),
        (lambda client, producer: producer.send("t", b"", queue_key=BAD), UsageError),
        (lambda client, producer: producer.send("t", b"", properties={BAD: "v"}), PropertyError),
        (lambda client, producer: producer.send("t", b"", properties={"p": BAD}), PropertyError),
        (lambda client, producer: producer.send_async("t", BAD), UsageError),
        (lambda client, producer: producer.send_oneway(BAD, b""), TopicNameError),
        (lambda client, producer: producer.send_batch(BAD, [b""]), TopicNameError),
        (lambda client, producer: producer.send_batch("t", [b"", BAD]), UsageError),
        (lambda client, producer: producer.send_batch("t", [b""], tags=[BAD]), PropertyError),
        (lambda client, producer: producer.send_batch("t", [b""], keys=[[BAD]]), PropertyError),
        (lambda client, producer: producer.send_batch("t", [b""], queue_key=BAD), UsageError),
        (lambda client, producer: client.create_topic(BAD), UsageError),
        (lambda client, producer: client.consumer(BAD, topics=["t"]), UsageError),
        (lambda client, producer: client.consumer(topics=[BAD]), TopicNameError),
        (lambda client, producer: client.consumer(topics=["t"], tags=f"a || {BAD}"), UsageError),
        (lambda client, producer: client.find("t", BAD), UsageError),
        (lambda client, producer: client.find(BAD, "k"), TopicNameError),
        (lambda client, producer: client.message(BAD), UsageError),
        (lambda client, producer: orbitmq.connect(BAD), SettingError),
        (lambda client, producer: orbitmq.Broker(f"/tmp/{BAD}"), SettingError),
    ],
)
def test_half_a_character(broker: orbitmq.Broker, call: Call, error: type[Exception]) -> None:
    with broker.producer() as producer, pytest.raises(error, match=r"'[^']*half \\ud800'"):
        call(broker, producer)


@pytest.mark.parametrize("tag", ["a||b", " a", "a\t", "*"])
def test_tags_that_no_filter_finds(broker: orbitmq.Broker, tag: str) -> None:
    with broker.producer() as producer, pytest.raises(PropertyError, match="filter"):
        producer.send("t", b"", tags=tag)
