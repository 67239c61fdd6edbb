"""What is sent and what was found, in one form for all senders and readers, so that they can be compared."""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orbitmq
from orbitmq.client.message import Message
from orbitmq.client.receipt import Receipt
from tests.interop.judge import Judge
from tests.waiting import until

# Properties that client and broker add, or that have a field of their own here.
SYSTEM = {"TAGS", "KEYS", "UNIQ_KEY", "WAIT", "CLUSTER", "__CRC32#", "ATOMIC"}
BATCH_MAX = 60_000  # bytes
TAGS = [None, "paid", "open", "bezahlt-ü", "日本"]


@dataclass(frozen=True, slots=True)
class Letter:
    """One message. Its place is not known before it was sent."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    flag: int = 0
    queue: int = -1
    offset: int = -1
    id: str = ""
    stored_ms: int = field(default=0, compare=False)

    @property
    def place(self) -> tuple[int, int]:
        return self.queue, self.offset


def random_letters(rng: random.Random, topic: str, count: int, queues: int, *, empty: bool, prefix: str) -> Iterator[Letter]:
    """Letters of every shape. Some bodies are empty, unless a client refuses that; some are as large as a file allows."""
    for number in range(count):
        size = rng.choice((0 if empty else 1, 10, 100, 100, 100, 1000, 3000, 9000))
        if number % 400 == 399:
            size = 40_000
        body = rng.randbytes(size) if number % 3 else (f"{prefix} {number} " * (size // 4 + 1)).encode()[:size]
        keys = (f"{prefix}-{number}", f"customer-{rng.randrange(count // 16)}", f"ключ-{number % 97}")
        yield Letter(
            topic,
            body,
            tags=rng.choice(TAGS),
            keys=keys[: rng.choice((0, 1, 1, 2, 3))],
            properties=(("colour", "blue"), ("größe", "ü=1;2"))[: rng.choice((0, 0, 0, 1, 2))],
            flag=rng.choice((0, 0, 7)),
            queue=rng.randrange(queues),
        )


def of(letters: Iterable[Letter], topic: str) -> list[Letter]:
    """Those of one topic."""
    return [letter for letter in letters if letter.topic == topic]


def of_orbitmq(message: Message) -> Letter:
    """A message as OrbitMQ's client sees it."""
    own = tuple(sorted((name, value) for name, value in message.properties.items() if name not in SYSTEM))
    return Letter(
        message.topic,
        bytes(message),
        message.tags,
        tuple(message.keys),
        own,
        message.flag,
        message.queue,
        message.offset,
        message.id,
        message.stored_ms,
    )


def of_rocketmq(shown: dict[str, Any]) -> Letter:
    """A message as RocketMQ's client sees it."""
    own = tuple(sorted((name, value) for name, value in shown["properties"].items() if name not in SYSTEM))
    return Letter(
        shown["topic"],
        base64.b64decode(shown["body"]),
        shown.get("tags"),
        tuple(shown.get("keys", "").split()),
        own,
        shown["flag"],
        shown["queue"],
        shown["offset"],
        shown["id"],
        shown["stored_ms"],
    )


def send_to_orbitmq(rng: random.Random, broker: orbitmq.Client, letters: Iterable[Letter], sent: list[Letter]) -> None:
    """Sends each letter, some in batches; adds them to `sent`, with their places, as they are acknowledged."""
    producer = broker.producer(message_max=60_000)
    waiting = iter(letters)
    while batch := list(itertools.islice(waiting, rng.choice((1, 1, 1, 20, 100)))):
        one = batch[0]
        if len(batch) == 1:
            extras: dict[str, Any] = {"properties": dict(one.properties), "flag": one.flag, "queue": one.queue}
            receipts = [producer.send(one.topic, one.body, tags=one.tags, keys=one.keys, **extras)]
        else:  # a batch has one queue, and neither properties nor flags
            batch = [replace(letter, properties=(), flag=0, queue=one.queue) for letter in batch]
            tags, keys = [letter.tags for letter in batch], [letter.keys for letter in batch]
            bodies = [letter.body for letter in batch]
            receipts = list(producer.send_batch(one.topic, bodies, tags=tags, keys=keys, queue=one.queue))
        sent += [_placed(letter, receipt) for letter, receipt in zip(batch, receipts, strict=True)]
    producer.close()


def _placed(letter: Letter, receipt: Receipt) -> Letter:
    assert receipt.queue == letter.queue
    return replace(letter, offset=receipt.offset, id=receipt.id)


def send_to_rocketmq(rng: random.Random, judge: Judge, letters: Iterable[Letter], sent: list[Letter]) -> None:
    """Sends letters of one topic with RocketMQ's client, some in batches; adds them to `sent`, with their places, as they are
    acknowledged."""
    waiting = iter(letters)
    while part := list(itertools.islice(waiting, 200)):
        batches = _batches_of_a_queue(rng, part)
        receipts = judge.ask("send", topic=part[0].topic, batches=[list(map(_for_judge, batch)) for batch in batches])
        for letter, (queue, offset, message_id) in zip(itertools.chain(*batches), receipts, strict=True):
            assert letter.queue == queue
            sent.append(replace(letter, offset=offset, id=message_id))


def _batches_of_a_queue(rng: random.Random, waiting: list[Letter]) -> list[list[Letter]]:
    batches = []
    while waiting:
        batch, waiting = waiting[: (size := rng.choice((1, 1, 1, 5, 20)))], waiting[size:]
        # A batch goes into one log file, and here files are small.
        if sum(len(letter.body) for letter in batch) > BATCH_MAX:
            batches += [[letter] for letter in batch]
        else:
            batches.append([replace(letter, queue=batch[0].queue) for letter in batch])
    return batches


def send_specials(judge: Judge, rng: random.Random, sent: int) -> None:
    """Messages that RocketMQ stores in topics of its own first: transactions, of which 20 end in the topic `orders`, and
    delays, longer than any test. sent: how many messages were sent to `orders` before; the queues may not have all yet."""
    letters = [_for_judge(letter) for letter in random_letters(rng, "orders", 40, 4, empty=False, prefix="special")]
    judge.ask("transact", topic="orders", letters=letters[:20], group="judge-transactions", end="commit")
    judge.ask("transact", topic="orders", letters=letters[20:30], group="judge-transactions", end="rollback")
    until(lambda: sum(end for _, end in judge.bounds("orders").values()) == sent + 20, "the transactions")
    judge.ask("send", topic="orders", batches=[[{**letter, "delay": 14 + n % 5}] for n, letter in enumerate(letters[30:])])


def _for_judge(letter: Letter) -> dict[str, Any]:
    """The letter in the judge's form."""
    return {
        "queue": letter.queue,
        "body": base64.b64encode(letter.body).decode(),
        "tags": letter.tags or "",
        "keys": " ".join(letter.keys),
        "properties": dict(letter.properties),
        "flag": letter.flag,
    }
