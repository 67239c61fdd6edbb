"""Goal: what cannot be sent is refused with a clear error, by the producer or by the broker. Method: one wrong request after
another, to the broker's real stages as threads (thread_broker.py)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import (
    MessageTooLarge,
    NoPermission,
    PropertiesTooLarge,
    PropertyError,
    SettingError,
    StoreFull,
    TopicNameError,
    UnknownQueue,
    UnknownTopic,
    UsageError,
)
from orbitmq.native._core import lib
from tests.client.thread_broker import ThreadBroker


def test_names_that_cannot_be(broker: ThreadBroker, producer: Producer) -> None:
    with pytest.raises(UnknownTopic, match="orbitmq topic create nothing") as unknown:
        producer.send("nothing", b"")
    assert unknown.value.topic == "nothing"
    with pytest.raises(UnknownTopic, match="write 'orders' if that is meant, or create it: orbitmq topic create ordesr"):
        producer.send("ordesr", b"")
    for name in ("", "x" * 128, "a b", "ü"):
        with pytest.raises(TopicNameError):
            producer.send(name, b"")
    with pytest.raises(TypeError):
        producer.send(b"orders", b"")  # type: ignore[arg-type]
    with pytest.raises(UnknownQueue, match="queue 8 of topic 'orders': it has 8 queues") as queue:
        producer.send("orders", b"", queue=8)
    assert (queue.value.queue, queue.value.queues) == (8, 8)
    for wrong in (-1, 1 << 70):
        with pytest.raises(UnknownQueue, match=f"queue {wrong}:") as queue:
            producer.send("orders", b"", queue=wrong)
        assert queue.value.queue == wrong
    with pytest.raises(UsageError):
        producer.send("orders", b"", queue=1, queue_key="a")
    assert broker.log() == []


def test_the_brokers_refusals(broker: ThreadBroker, producer: Producer) -> None:
    broker.topic("frozen", perm=4)
    with pytest.raises(NoPermission) as refused:
        producer.send("frozen", b"")
    assert refused.value.topic == "frozen"
    producer.send_oneway("frozen", b"")
    producer.flush()
    assert producer.failed == 1
    with pytest.raises(NoPermission) as batch:
        producer.send_batch("frozen", [b"a", b"b"])
    assert (batch.value.failed, batch.value.index, len(batch.value.receipts)) == (2, 0, 2)
    with pytest.raises(NoPermission):
        batch.value.receipts[1]


def test_properties_that_cannot_be(producer: Producer) -> None:
    bad: list[dict[str, Any]] = [
        {"tags": ""},
        {"tags": "a\x01b"},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"keys": "a\x02"},
        {"properties": {"": "x"}},
        {"properties": {"a": ""}},
        {"properties": {"a\x01": "x"}},
        {"properties": {"TAGS": "x"}},
        {"properties": {"__CRC32#": "x"}},
        {"tags": "a||b"},
        {"tags": "||"},
    ]
    for arguments in bad:
        with pytest.raises(PropertyError):
            producer.send("orders", b"", **arguments)
    with pytest.raises(PropertyError):
        producer.send_batch("orders", [b"", b""], keys=["a", "b c"])
    with pytest.raises(PropertyError, match="separates"):
        producer.send_batch("orders", [b"", b""], tags=["a", "a||b"])
    producer.send("orders", b"", tags="a|b")
    for arguments in ({"tags": 1}, {"keys": [1]}, {"properties": {"a": 1}}, {"nothing": 1}, {"queue_key": 1}):
        with pytest.raises(TypeError):
            producer.send("orders", b"", **arguments)
    with pytest.raises(UsageError):
        producer.send_batch("orders", [b"", b""], keys=["a"])
    with pytest.raises(UsageError, match="2 bodies with 1 properties"):
        producer.send_batch("orders", [b"", b""], properties=[{}])
    with pytest.raises(PropertyError, match="'TAGS'"):
        producer.send_batch("orders", [b"", b""], properties=[{"a": "b"}, {"TAGS": "x"}])
    mistyped: list[Any] = ["ab", b"ab", 1, [1, 2], ["a", "b"], {"a": 1}, [{"a": 1}, None], [[("a", "b")], None]]
    for mapping in mistyped:
        with pytest.raises(TypeError):
            producer.send_batch("orders", [b"", b""], properties=mapping)
    with pytest.raises(TypeError):
        producer.send_batch("orders", b"abc")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"keys": 5}, "keys must be str or a sequence of str, not <class 'int'>"),
        ({"properties": 5}, "properties must be a mapping, not <class 'int'>"),
        ({"properties": "ab"}, "properties must be a mapping, not <class 'str'>"),
        ({"properties": [("a", "b")]}, "properties must be a mapping, not <class 'list'>"),
        ({"body": 5}, "a body must be bytes, str or a buffer, not <class 'int'>"),
    ],
)
def test_an_argument_of_another_type_is_named(producer: Producer, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        producer.send("orders", **{"body": b"", **arguments})


def test_numbers_that_no_word_holds(producer: Producer) -> None:
    """Goal: as for other values that are too large, the error says which argument, or the value means for ever."""
    huge = 10**400
    for flag in (huge, -huge):
        with pytest.raises(SettingError, match="it does not fit in 32 bits"):
            producer.send("orders", b"", flag=flag)
    with pytest.raises(SettingError, match="it is not a number of seconds from 0"):
        producer.send("orders", b"", timeout=-huge)
    assert producer.send("orders", b"", timeout=huge).queue == 0
    assert producer.send_async("orders", b"").result(huge)


def test_limits_on_sizes(broker: ThreadBroker) -> None:
    with Producer(broker, message_max=4096) as producer:
        room = 4096 - 91 - 20 - len("orders")
        assert producer.send("orders", bytes(room)).size == 4096
        for send in (producer.send, lambda topic, body: producer.send_batch(topic, [b"", body])):
            with pytest.raises(MessageTooLarge, match="message_max= of producer") as large:
                send("orders", bytes(room + 1))
            assert (large.value.size, large.value.limit) == (4097, 4096)
        assert len(broker.log()) == 1
        with pytest.raises(MessageTooLarge, match="in parts") as hopeless:
            producer.send("orders", bytes(17 << 20))
        assert "message_max" not in str(hopeless.value), "no knob lets so much through"
    with Producer(broker, message_max=1 << 20) as producer:
        producer.send("orders", b"", properties={"a": "x" * (32746 - 3)})
        for arguments in (
            {"properties": {"a": "x" * (32746 - 2)}},
            {"keys": ["k" * 1000] * 40},
            {"tags": "t" * 40_000},
        ):
            with pytest.raises(PropertiesTooLarge) as properties_error:
                producer.send("orders", b"", **arguments)  # type: ignore[arg-type]
            assert properties_error.value.limit == 32746
        with pytest.raises(PropertiesTooLarge):
            producer.send_batch("orders", [b"", b""], properties=[{"a": "b"}, {"a": "x" * (32746 - 2)}])
        assert len(broker.log()) == 2


def test_a_disk_without_room_is_named(broker: ThreadBroker, producer: Producer, tmp_path: Path) -> None:
    """Goal: StoreFull says where space is missing and how much. Method: the function that C calls for the writer's verdict."""
    settings = lib.control_settings(broker.control)
    with pytest.raises(StoreFull, match="'orders'") as full:
        producer._store_full("orders", errno.ENOSPC)
    assert full.value.need == settings.log_file_size and full.value.free > 0
    assert full.value.mount in full.value.hint and full.value.path.startswith(str(tmp_path))
    with pytest.raises(StoreFull, match=os.strerror(errno.EIO)) as broken:
        producer._store_full("orders", errno.EIO)
    assert broken.value.errno == errno.EIO


def test_settings_that_cannot_be(broker: ThreadBroker, producer: Producer) -> None:
    for arguments in (
        {"window": 0},
        {"window": 1 << 20},
        {"message_max": 1},
        {"message_max": 17 << 20},
        {"on_full": "no"},
        {"durability": "no"},
        {"timeout": -1.0},
    ):
        with pytest.raises(SettingError):
            Producer(broker, **arguments)  # type: ignore[arg-type]
    for arguments in ({"durability": "no"}, {"timeout": -1}, {"timeout": float("nan")}, {"flag": 1 << 32}):
        with pytest.raises(SettingError):
            producer.send("orders", b"", **arguments)  # type: ignore[arg-type]
