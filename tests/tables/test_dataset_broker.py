"""Goal: orbitmq.dataset agrees with an ordinary consumer: on a running store, one that is being written, one whose broker was
stopped or killed, and one from which retention removes. Method: real trees, whose messages are read both ways."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import OffsetOutOfRange
from tests.client.restarts import Restarts
from tests.trees import SMALL, actors, small_broker
from tests.waiting import until

Place = tuple[str, int, int]
# place, body, tags, keys, properties, stored, born, id, flag
Seen = dict[Place, tuple[Any, ...]]


def read(found: orbitmq.Dataset) -> Seen:
    """Each message once."""
    seen: Seen = {}
    for batch in found:
        for row in batch.to_pylist():
            place = row["topic"], row["partition"], row["offset"]
            assert place not in seen
            times = row["timestamp"].timestamp(), row["born_timestamp"].timestamp()
            rest = row["value"], row["tags"], tuple(row["keys"] or ()), dict(row["properties"]), *times, row["physical_offset"]
            seen[place] = *rest, row["flag"]
    return seen


def consumed(client: orbitmq.Client, *topics: str, **filters: Any) -> Seen:
    """The same by a consumer without a group, up to where the queues end now."""
    until(lambda: client.status().positions.reput == client.status().positions.wrote, "reput")
    known = {topic.name: topic.queues for topic in client.status().topics}
    last = {(topic, queue.queue): queue.max_offset for topic in topics for queue in known[topic]}
    seen: Seen = {}
    with client.consumer(None, topics=list(topics), start="earliest", **filters) as consumer:
        while consumer.position() != last:
            for each in consumer.poll_batch(60, timeout=0.1):
                times = each.stored_ms / 1000, each.born_ms / 1000
                rest = bytes(each), each.tags, tuple(each.keys), dict(each.properties), *times, each.physical_offset
                seen[each.topic, each.queue, each.offset] = *rest, each.flag
    return seen


def ends(seen: Seen) -> dict[tuple[str, int], int]:
    """Where each queue ends. The messages of each queue have no gap."""
    found: dict[tuple[str, int], int] = defaultdict(int)
    for topic, queue, offset in sorted(seen):
        assert offset == found[topic, queue]
        found[topic, queue] += 1
    return found


def send_some(broker: orbitmq.Client, count: int) -> None:
    """Messages of every kind, in two topics."""
    with broker.producer() as producer:
        for number in range(count):
            named = {"properties": {"price": str(number % 7)}} if number % 3 else {}
            producer.send("orders", b"%d" % number, tags=f"t{number % 3}", keys=[f"k{number}", "all"], flag=number, **named)
        producer.send("orders", b"", queue=1)
        with producer.batch() as batch:
            batch.send("orders", b"together")
            batch.send("bills", b"together")
        producer.transaction("orders", b"never seen").rollback()
        producer.transaction("orders", b"open")
        with producer.transaction("bills", b"done"):
            pass


def test_as_a_consumer_sees_it(tmp_path: Path) -> None:
    """Running, by name and by path, and stopped."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", 3)
        broker.create_topic("bills", 1)
        send_some(broker, 300)
        whole = consumed(broker, "orders", "bills")
        assert len(whole) == 304 and not any(row[0] == b"open" for row in whole.values())
        both = {"tags": "t1", "sql": "price IS NOT NULL"}
        filters: list[dict[str, Any]] = [{}, {"tags": "t1 || t2"}, {"sql": "price > 3"}, both]
        expected = [consumed(broker, "orders", **each) for each in filters]
        assert 0 < len(expected[3]) < len(expected[1]) < len(expected[0])
        for source in (broker.name, tmp_path / "store"):
            assert read(orbitmq.dataset(source)) == whole
            assert [read(orbitmq.dataset(source, ["orders"], **each)) for each in filters] == expected
        half = orbitmq.dataset(broker.name, ["RMQ_SYS_TRANS_HALF_TOPIC"])
        assert {row[0] for row in read(half).values()} == {b"never seen", b"open", b"done"}
    assert read(orbitmq.dataset(tmp_path / "store")) == whole
    assert read(half)


@pytest.mark.parametrize("state", ["flushed", "appended"])
def test_while_it_is_written(tmp_path: Path, state: Any) -> None:
    """Goal: a dataset of a store that never rests is finite, begins at the first message, has no gap, holds all that was
    acknowledged before it was made, and stays the same."""
    with small_broker(tmp_path / "store", flush_interval_ms=20) as broker:
        broker.create_topic("orders", 2)
        over, acknowledged = Event(), [0, 0]

        def write() -> None:
            with broker.producer() as producer:
                while not over.is_set():
                    receipt = producer.send("orders", b"%d" % sum(acknowledged), queue=sum(acknowledged) % 2)
                    acknowledged[receipt.queue] += 1

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                made = []
                for _ in range(5):
                    before = acknowledged[:]
                    until(lambda: sum(acknowledged) > sum(before) + 20 or writing.done(), "more messages")
                    known = acknowledged[:]
                    found = orbitmq.dataset(broker.name, read=state)
                    first = read(found)
                    end = ends(first)
                    assert all(end["orders", queue] >= known[queue] for queue in range(2))
                    assert len(first) == found.offsets
                    made.append((found, first))
                until(lambda: sum(acknowledged) > len(first) or writing.done(), "a message behind the last dataset")
            finally:
                over.set()
            writing.result()
        whole = consumed(broker, "orders")
        for found, first in made:
            assert read(found) == first and first.items() <= whole.items()
        assert len(whole) > len(made[-1][1]) > len(made[0][1])


def test_after_the_broker_was_killed(tmp_path: Path) -> None:
    """Goal: a killed store can be read before anybody has recovered it: what its queues hold, without a gap, and the same that
    comes after the recovery. Method: several deaths, once with a reput that lags behind."""
    seen: Seen = {}
    sent = 0
    with Restarts(tmp_path / "store", flush_interval_ms=60_000) as tree:
        for life in range(3):
            tree.start()
            with tree.connect() as client:
                if life == 0:
                    client.create_topic("orders", 2)
                recovered = consumed(client, "orders")
                assert seen.items() <= recovered.items()
                assert len(recovered) == sent
                with client.producer() as producer:
                    producer.send_batch("orders", [b"%d.%d" % (life, number) for number in range(500)])
                    known = consumed(client, "orders")
                    if life == 2:
                        os.kill(actors(client)["reput"].pid, signal.SIGSTOP)
                        producer.send_batch("orders", [b"late"] * 100)
                    tree.kill()
            sent = 500 * (life + 1) + 100 * (life == 2)
            seen = read(orbitmq.dataset(tmp_path / "store"))
            assert sum(ends(seen).values()) == len(seen) <= sent
            assert known.items() <= seen.items()
            assert read(orbitmq.dataset(tmp_path / "store", read="appended")) == seen
        assert len(seen) == 1500
        tree.start()
        with tree.connect() as client:
            whole = consumed(client, "orders")
            assert len(whole) == 1600 and seen.items() <= whole.items()
            assert read(orbitmq.dataset(tree.name)) == whole


def trimmed(broker: orbitmq.Client, store: Path, kept: int) -> bool:
    """Whether files have gone, and no more will: those that are reserved ahead, which count as well, are there."""
    seen, size = broker.status().positions, SMALL["log_file_size"]
    whole = seen.allocated >= seen.wrote - seen.wrote % size + 2 * size and seen.allocated - seen.min_offset <= kept
    return whole and min(int(path.name) for path in (store / "commitlog").iterdir()) == seen.min_offset > 0


def test_while_retention_removes(tmp_path: Path) -> None:
    """Goal: what a dataset no longer finds it tells, or leaves out if it may. Method: datasets that are older than a broker
    which keeps three files."""
    body = b"." * 4000
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", 2)
        with broker.producer() as producer:
            for number in range(1300):
                producer.send("t", body, queue=number % 2)
        whole = consumed(broker, "t")
        strict, lenient, narrow = (
            orbitmq.dataset(broker.name),
            orbitmq.dataset(broker.name, allow_gaps=True),
            orbitmq.dataset(broker.name, columns=["offset"], allow_gaps=True),
        )
        begun = strict.to_batches()
        assert next(begun).num_rows
    kept = 3 * SMALL["log_file_size"]
    with small_broker(tmp_path / "store", retention_bytes=kept, allow_deletion=True) as broker:
        until(lambda: trimmed(broker, tmp_path / "store", kept), "files to go")
        with pytest.raises(OffsetOutOfRange, match="retention has removed it"):
            strict.to_table()
        left = read(orbitmq.dataset(broker.name))
        assert read(lenient) == left == consumed(broker, "t") and 0 < len(left) < len(whole)
        assert narrow.to_table().num_rows == len(left)
