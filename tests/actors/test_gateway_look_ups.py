"""Goal: remote clients find single messages as local ones do: by id, by key, and by time; and see RocketMQ's properties alone.

Method: what both sides have sent is looked up over the socket and compared with OrbitMQ's own client. Of
remoting/admin/messages.py, log_view.py and remote_record.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import orbitmq
import orbitmq.errors
from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.messages import BYTES_MAX
from orbitmq.remoting.admin.remote_record import remote_record
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.commit_log import record as records_on_disk
from orbitmq.store.layout import StoreLayout
from tests.actors.remoting_client import Remote, Said, records
from tests.actors.shared_broker import OWN_TOPIC
from tests.forged import BODY_AT, foreseen, forged_at
from tests.trees import indexed, small_broker

BY_KEY, OFFSET_AT, EARLIEST, BY_PLACE = 12, 29, 32, 33
SUCCESS, SYSTEM_ERROR, NO_PERMISSION, NOT_FOUND = 0, 1, 16, 22


def by_key(
    remote: Remote, key: str, topic: str = OWN_TOPIC, most: int = 32, begin: int = 0, end: int = 1 << 62, **more: str
) -> Said:
    return remote.ask(BY_KEY, topic=topic, key=key, maxNum=most, beginTimestamp=begin, endTimestamp=end, **more)


def found(said: Said) -> list[Any]:
    assert said.code == SUCCESS, said.remark
    return [records_on_disk.parse(record) for record in records(said.body)]


def bodies(said: Said) -> list[bytes]:
    return [bytes(record.body) for record in found(said)]


def test_by_place(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """A local and a remote send, both as they were sent, without the checksum."""
    with broker.producer() as producer:
        local = producer.send(topic, b"local", keys="k", properties={"region": "eu"})
    remote.send(topic, b"remote", properties=b"KEYS\1k\2region\1us")
    indexed(broker)
    for message in broker.find(topic, "k"):
        said = remote.ask(BY_PLACE, offset=message.physical_offset)
        (record,) = found(said)
        assert (bytes(record.body), record.queue_offset, record.physical_offset) == (
            bytes(message), message.offset, message.physical_offset)  # fmt: skip
        assert record.properties["region"] == message.properties["region"]
        assert b"__CRC32#" in message.record() and b"__CRC32#" not in said.body
    place = broker.message(local.id).physical_offset
    for wrong in (place + 1, 1 << 40, -1):
        assert remote.ask(BY_PLACE, offset=wrong).code == SYSTEM_ERROR
    broker.purge_topic(topic, "latest")
    assert remote.ask(BY_PLACE, offset=place).code == SYSTEM_ERROR, "it is purged"


def test_a_body_that_is_a_record(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Nobody finds it, here or there: in a queue of the topic, and in one that it does not have."""
    for queue in (0, 1, 7):
        for offset in (0, 1, 9):
            with broker.producer() as producer:
                place, receipt = foreseen(
                    broker,
                    lambda place: producer.send(topic, forged_at(place, topic, queue, offset), queue=0),
                )
            indexed(broker)
            assert remote.ask(BY_PLACE, offset=place).code == SYSTEM_ERROR
            assert remote.ask(BY_PLACE, offset=place - BODY_AT).code == SUCCESS
            with pytest.raises(orbitmq.errors.UsageError, match="no message begins there"):
                broker.message(f"{'7F00000100000000'}{place:016X}")
            assert broker.message(receipt.id).id == receipt.id


def test_by_key(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    with broker.producer() as producer:
        for number in range(50):
            producer.send(topic, b"%d" % number, keys=["all", f"k-{number % 10}"])
    indexed(broker)
    assert bodies(by_key(remote, "k-3", topic)) == [b"3", b"13", b"23", b"33", b"43"]
    assert bodies(by_key(remote, "k-3", topic, most=2)) == [b"33", b"43"], "the newest"
    assert len(bodies(by_key(remote, "all", topic, most=1000))) == 50
    assert len(bodies(by_key(remote, "all", topic, most=1, _UNIQUE_KEY_QUERY="true"))) == 32
    (one,) = broker.find(topic, "k-3", most=1)
    later = by_key(remote, "all", topic, begin=one.stored_ms)
    assert bodies(later) and all(record.store_ms >= one.stored_ms for record in found(later))
    far = 1 << 80
    times = ((0, 1), (1 << 61, far), (far, far), (-far, -far))
    outside = [by_key(remote, "all", topic, begin=begin, end=end) for begin, end in times]
    for nothing in (by_key(remote, "none", topic), *outside):
        assert (nothing.code, nothing.body) == (NOT_FOUND, b"") and "indexLastUpdateTimestamp" in nothing.fields
    assert by_key(remote, "all", topic="absent").code == NOT_FOUND
    broker.set_permissions(topic, read=False, write=True)
    assert by_key(remote, "all", topic).code == NO_PERMISSION


def test_the_unique_key_of_a_remote_sender(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    remote.send(topic, b"mine", properties=b"UNIQ_KEY\1AC1100010001")
    remote.send(topic, b"other", properties=b"UNIQ_KEY\1AC1100010002")
    indexed(broker)
    assert bodies(by_key(remote, "AC1100010001", topic, _UNIQUE_KEY_QUERY="true")) == [b"mine"]


def test_an_answer_that_would_be_too_large(tmp_path: Path) -> None:
    """Clients refuse frames above 16 MiB, so an answer has fewer messages then, and one at least."""
    size = 3 << 20
    sizes = {"log_file_size": 16 << 20, "message_max": 4 << 20, "lane_capacity": 16 << 20}
    with small_broker(tmp_path, listen="127.0.0.1:0", **sizes) as broker:
        broker.create_topic("t", 1)
        with broker.producer(message_max=4 << 20) as producer:
            for number in range(4):
                producer.send("t", bytes([number]) * size, keys="k")
        indexed(broker)
        with Remote(broker.status().listens) as remote:
            came = bodies(by_key(remote, "k"))
    assert [body[0] for body in came] == [2, 3] and sum(map(len, came)) < BYTES_MAX


def test_by_time(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    with broker.producer() as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, queue=0)
    indexed(broker)
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        times = [message.stored_ms for message in consumer.poll_batch(20, timeout=10)]

    def at(store_ms: int, topic: str = topic, queue: int = 0) -> int:
        return int(remote.ask(OFFSET_AT, topic=topic, queueId=queue, timestamp=store_ms).fields["offset"])

    def earliest(topic: str = topic, queue: int = 0) -> int:
        return int(remote.ask(EARLIEST, topic=topic, queueId=queue).fields["timestamp"])

    assert all(times[at(each)] == each for each in times)
    assert (at(times[0] - 10_000), at(times[-1] + 10_000), at(-1)) == (0, 19, 0), "as RocketMQ searches"
    assert (at(-(1 << 80)), at(1 << 80)) == (0, 19)
    assert (at(times[0], queue=1), at(times[0], queue=7), at(times[0], topic="absent")) == (0, 0, 0)
    assert (earliest(), earliest(queue=1), earliest(queue=7), earliest("absent")) == (times[0], -1, -1, -1)


def test_how_many_until_then(broker: orbitmq.Broker) -> None:
    """Those of all queues that were stored before."""
    with broker.producer() as producer:
        for number in range(20):
            producer.send("t", b"%d" % number, queue=number % 2)
    indexed(broker)
    with broker.consumer(None, topics=["t"], start="earliest") as consumer:
        times = sorted(message.stored_ms for message in consumer.poll_batch(20, timeout=10))
    attached = broker.connection.attachment
    settings = SimpleNamespace(layout=StoreLayout.at(attached.store), files=SimpleNamespace(log_file_size=1 << 20))
    host: Any = SimpleNamespace(topics=TopicTable(attached.topics), control=attached.control, settings=settings)
    view = LogView(host)
    for then in (*times, times[0] - 1, times[-1] + 1, int(1000 * time.time()) + 1_000_000):
        assert view.count_until(then) == sum(each < then for each in times)


@pytest.mark.parametrize("properties", [b"", b"a\1b\2"])
@pytest.mark.parametrize("flag", [0, 0x10, 0x20, 0x30])
def test_a_record_loses_its_checksum(properties: bytes, flag: int) -> None:
    """With addresses of both sizes; a record without a checksum stays as it is."""
    hosts = bytes(20 if flag & 0x10 else 8), bytes(20 if flag & 0x20 else 8)

    def record(told: bytes) -> bytes:
        tail = b"".join((hosts[0], bytes(8), hosts[1], bytes(12), (3).to_bytes(4, "big"), b"abc", b"\1t"))
        tail += len(told).to_bytes(2, "big") + told
        head = bytes(32) + flag.to_bytes(4, "big")  # what stands between the size and the flag
        return (4 + len(head) + 8 + len(tail)).to_bytes(4, "big") + head + bytes(8) + tail

    plain = record(properties)
    sealed = record(properties + b"__CRC32#\0011234567890\2")
    assert remote_record(sealed) == plain and remote_record(plain) is plain
