"""Makes a small store, or visits one, with whatever version of OrbitMQ this Python imports:

    PYTHONPATH=<checkout of that version> python program.py record ARCHIVE.tar.xz [killed]
    PYTHONPATH=<checkout of that version> python program.py visit FOLDER

ARCHIVE, and FOLDER, hold a folder `store` and `told.json`, which says what a reader of the store must find. A visit reads
everything, sends more, and adds that to `told.json`. `scripts/upgrade_drill` does both with another revision.

What a version does not know yet, it leaves out; so this program uses only calls that have not changed since they came.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orbitmq.errors

SIZES: dict[str, Any] = {"log_file_size": 64 << 10, "queue_file_units": 40, "index_slots": 61, "index_entries": 150}
TOPIC, QUEUES = "orders", 2
FAR_S = 300 * 24 * 3600
Told = dict[str, Any]


def body(number: int) -> bytes:
    return b"%d." % number + bytes([number % 251]) * (number * 37 % 200)


def send(producer: Any, told: Told, numbers: range) -> None:
    """Messages with all that a message can have, each on disk when it is told."""
    for number in numbers:
        tags = f"t{number % 5}" if number % 4 else None
        keys = [f"k{number}"] if number % 3 else []
        properties = {"color": "red"} if number % 2 else {}
        named = {"tags": tags, "keys": keys, "properties": properties, "durability": "flushed"}
        receipt = producer.send(TOPIC, body(number), queue=number % QUEUES, **named)
        told["messages"].append([receipt.queue, receipt.offset, number, tags, keys, properties])


# ---- what later versions have added; each is left out by those that do not know it ----


def batch(broker: Any, producer: Any, told: Told) -> None:
    """Messages of one call."""
    for queue in range(QUEUES):
        numbers = range(1000 + queue * 20, 1020 + queue * 20)
        producer.send_batch(TOPIC, [body(number) for number in numbers], queue=queue, durability="flushed")
        told["messages"] += [[queue, following(told, queue) + at, number, None, [], {}] for at, number in enumerate(numbers)]


def atomic(broker: Any, producer: Any, told: Told) -> None:
    with producer.batch() as together:
        for queue in range(QUEUES):
            together.send(TOPIC, body(2000 + queue), queue=queue)
    told["messages"] += [[each.queue, each.offset, 2000 + each.queue, None, [], {}] for each in together.receipts]


def transactions(broker: Any, producer: Any, told: Told) -> None:
    """One that is committed, and one that is rolled back."""
    producer.transaction(TOPIC, body(3000), queue=0).commit()
    producer.transaction(TOPIC, body(3001), queue=0).rollback()
    told["messages"].append([0, following(told, 0), 3000, None, [], {}])


def level(broker: Any, producer: Any, told: Told) -> None:
    """By RocketMQ's first level; due within a second, before the store is closed or after."""
    producer.send(TOPIC, body(4000), delay_level=1)
    told["late"].append(4000)


def timer(broker: Any, producer: Any, told: Told) -> None:
    """Waits, unless the store is old."""
    producer.send(TOPIC, body(4001), delay=FAR_S)
    told["late"].append(4001)


def ids(broker: Any, producer: Any, told: Told) -> None:
    receipt = producer.send(TOPIC, body(5000), queue=0, dedup="id-5000")
    told["messages"].append([0, receipt.offset, 5000, None, [], {}])


def exact(broker: Any, producer: Any, told: Told) -> None:
    """Offsets that are committed with messages."""
    with broker.consumer("exact", topics=[TOPIC], start="earliest") as consumer, producer.batch() as together:
        assert consumer.poll_batch(1, timeout=10.0)
        together.send(TOPIC, body(6000), queue=1)
        together.commit(consumer)
    told["messages"].append([1, together.receipts[0].offset, 6000, None, [], {}])


def deletion(broker: Any, producer: Any, told: Told) -> None:
    """A topic that is gone, and whose messages are still in the log."""
    broker.create_topic("gone", 1)
    producer.send("gone", b"gone")
    broker.delete_topic("gone")


FEATURES = (batch, atomic, transactions, ids, exact, deletion, timer, level)  # the last may come at any moment
NOTES = {level: "delayed", transactions: "transactions", exact: "group_commits"}  # written a while after that


def following(told: Told, queue: int) -> int:
    return 1 + max(offset for of, offset, *_ in told["messages"] if of == queue)


def record(folder: Path, *, killed: bool) -> Told:
    """Fills the store in `folder`, and says what a reader of it must find."""
    told: Told = {"killed": killed, "messages": [], "late": [], "features": []}
    with orbitmq.Broker(folder, handlers=1, offsets_interval_s=0.1, **SIZES) as broker:
        broker.create_topic(TOPIC, QUEUES)
        with broker.producer() as producer:
            send(producer, told, range(120))
            for act in FEATURES:
                with suppress(AttributeError, TypeError):
                    act(broker, producer, told)
                    told["features"].append(act.__name__)
        told["committed"] = commit(broker, 50)
        notes = [folder / "orbitmq" / note for act, note in NOTES.items() if act.__name__ in told["features"]]
        while not all(note.exists() for note in notes):
            time.sleep(0.05)
        if killed:
            os.kill(broker.pid, signal.SIGKILL)  # and with it the whole tree
    return told


def commit(broker: Any, count: int) -> dict[str, int]:
    """A group consumes so many messages. Returns where it is then, by queue."""
    with broker.consumer("billing", topics=[TOPIC], start="earliest") as consumer:
        got = 0
        while got < count:
            got += len(consumer.poll_batch(count - got, timeout=10.0))
        consumer.commit()
        return {str(queue): offset for (_, queue), offset in consumer.position().items()}


def visit(folder: Path, told: Told, **settings: Any) -> None:
    """Finds everything that was told, and nothing else; then adds to the store, to its queues' ends."""
    with opened(folder, settings) as broker:
        with broker.consumer(None, topics=[TOPIC], start="earliest") as consumer:
            wanted = {(queue, offset): rest for queue, offset, *rest in told["messages"]}
            late = {body(number) for number in told["late"]}
            found: dict[tuple[int, int], Any] = {}
            while len(wanted.keys() - found.keys()):
                messages = consumer.poll_batch(500, timeout=10.0)
                assert messages, f"{len(wanted)} messages are told, and {len(found)} are there"
                found.update({(each.queue, each.offset): each for each in messages})
        for place, (number, tags, keys, properties) in wanted.items():
            each = found.pop(place)
            assert bytes(each) == body(number), (place, number)
            assert (each.tags, list(each.keys)) == (tags, keys), (place, each)
            assert {name: each.properties[name] for name in properties} == properties, (place, each)
        extra = [bytes(each) for each in found.values()]
        assert len(extra) == len({*extra}) and {*extra} <= late, extra
        assert {bytes(each) for each in broker.find(TOPIC, "k1")} == {body(1)}
        with broker.producer() as producer:
            before = [(each[0], each[1]) for each in told["messages"]] + list(found)
            begun = 1 + max(each[2] for each in told["messages"])
            send(producer, told, range(begun, begun + 40))
            added = told["messages"][-40:]
            assert not {(each[0], each[1]) for each in added} & set(before)
        goes_on = commit(broker, 1)
        behind = {queue: offset - goes_on[queue] for queue, offset in told["committed"].items()}
        assert told["killed"] or sum(behind.values()) == -1, behind
        told["committed"], told["killed"] = goes_on, False


def opened(folder: Path, settings: dict[str, Any]) -> Any:
    """A broker that removes nothing because it is old; the first versions never did."""
    with suppress(orbitmq.errors.SettingError):
        return orbitmq.Broker(folder, handlers=1, retention_hours=0, **settings)
    return orbitmq.Broker(folder, handlers=1, **settings)


def main(what: str, place: str, *how: str) -> None:
    if what == "visit":
        folder = Path(place)
        told = json.loads((folder / "told.json").read_text())
        visit(folder / "store", told)
        (folder / "told.json").write_text(json.dumps(told))
        return
    archive = Path(place).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
        (folder / "told.json").write_text(json.dumps(record(folder / "store", killed="killed" in how)))
        # Sparse, because nearly all of a store's files are holes; and without owners.
        kept = ["--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        command = ["tar", *kept, "--use-compress-program=xz -9e", "-cf", str(archive), "store", "told.json"]
        subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
