"""Goal: producers and consumers that wait for their broker need no loop of their own around it. The whole tree is killed, or
stopped, and started again under load; each message gets one verdict, what is acknowledged is stored where the receipt says,
nothing is stored twice, and the consumers get all of it. Method: numbered messages, exact accounts at the end."""

from __future__ import annotations

import asyncio
import itertools
import random
import select
import struct
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq import aio, errors
from tests.client.pauses import waiting
from tests.client.restarts import Restarts
from tests.client.test_wait import PATIENT_S
from tests.trees import everything
from tests.waiting import WATCHDOG_S, until

ROUNDS = 8
BETWEEN = 150  # messages acknowledged between two ends of the tree
BODY = struct.Struct(">II")  # producer, number


class Ledger:
    """What one producer learned about its messages: number -> (queue, offset), or None for one that is perhaps stored."""

    def __init__(self, who: int, over: threading.Event) -> None:
        self.who = who
        self.over = over
        self.verdicts: dict[int, tuple[int, int] | None] = {}

    def body(self, number: int) -> bytes:
        return BODY.pack(self.who, number)

    def note(self, number: int, verdict: Callable[[], orbitmq.Receipt]) -> None:
        assert number not in self.verdicts, "one verdict each"
        try:
            receipt = verdict()
        except errors.PerhapsStored:
            self.verdicts[number] = None
        else:
            self.verdicts[number] = (receipt.queue, receipt.offset)

    @property
    def acknowledged(self) -> int:
        return sum(verdict is not None for verdict in list(self.verdicts.values()))


def send_singly(client: orbitmq.Client, ledger: Ledger) -> None:
    with client.producer() as producer:
        for number in itertools.count():
            if ledger.over.is_set():
                return
            ledger.note(number, lambda number=number: producer.send("load", ledger.body(number)))  # type: ignore[misc]
            select.poll().poll(1)  # a stream would fill the disk


def send_batches(client: orbitmq.Client, ledger: Ledger) -> None:
    """Messages that are not sent (any more) when the tree ends have no verdict, and are sent again under their numbers."""
    number = 0
    with client.producer(window=32, message_max=1024) as producer:
        while not ledger.over.is_set():
            bodies = [ledger.body(number + each) for each in range(50)]
            try:
                receipts: Any = producer.send_batch("load", bodies)
            except errors.BrokerStopped as error:  # of which PerhapsStored is one
                try:
                    receipts = error.pending.result(WATCHDOG_S)
                except errors.PerhapsStored as lost:
                    receipts = lost.receipts
                assert len(receipts) == error.sent
            for each in range(len(receipts)):
                ledger.note(number + each, lambda each=each: receipts[each])  # type: ignore[misc]
            number += len(receipts)
            select.poll().poll(5)


def send_awaiting(name: str, ledger: Ledger) -> None:
    async def main() -> None:
        async with aio.connect(name, wait=PATIENT_S, timeout=WATCHDOG_S) as client, await client.producer() as producer:
            numbers = itertools.count()

            async def one() -> None:
                number = next(numbers)
                try:
                    receipt = await producer.send("load", ledger.body(number))
                except errors.PerhapsStored as error:
                    lost = error
                    ledger.note(number, lambda: _raise(lost))
                else:
                    ledger.note(number, lambda: receipt)

            while not ledger.over.is_set():
                await asyncio.gather(*(one() for _ in range(5)))
                await asyncio.sleep(0.002)

    asyncio.run(main())


def _raise(error: Exception) -> orbitmq.Receipt:
    raise error


Place = tuple[int, int]
Got = list[tuple[Place, bytes]]


def read_alone(client: orbitmq.Client, got: Got, over: threading.Event) -> None:
    with client.consumer(None, ["load"]) as consumer:
        while not over.is_set():
            got += [((each.queue, each.offset), bytes(each.body)) for each in consumer.poll_batch(100, 0.2)]


def read_in_a_group(client: orbitmq.Client, got: Got, over: threading.Event) -> None:
    with client.consumer("g", ["load"]) as consumer:
        while not over.is_set():
            got += [((each.queue, each.offset), bytes(each.body)) for each in consumer.poll_batch(100, 0.2)]
            with suppress(errors.Fenced):  # they come again
                consumer.commit()


def test_trees_come_and_go_under_load(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    over, done = threading.Event(), threading.Event()
    ledgers = [Ledger(who, over) for who in range(4)]
    alone: Got = []
    shared: list[Got] = [[], []]
    with Restarts(tmp_path / "store", log_file_size=1 << 22, index_entries=100_000) as tree, ThreadPoolExecutor(7) as pool:
        tree.start()
        with tree.connect(wait=PATIENT_S, timeout=WATCHDOG_S) as client:
            client.create_topic("load", 4)
            try:
                producers = [
                    pool.submit(send_singly, client, ledgers[0]),
                    pool.submit(send_singly, client, ledgers[1]),
                    pool.submit(send_batches, client, ledgers[2]),
                    pool.submit(send_awaiting, tree.name, ledgers[3]),
                ]
                consumers = [pool.submit(read_alone, client, alone, done)]
                consumers += [pool.submit(read_in_a_group, client, got, done) for got in shared]

                def grown(before: int) -> bool:
                    for each in (*producers, *consumers):
                        if each.done():
                            each.result()
                    return sum(ledger.acknowledged for ledger in ledgers) > before + BETWEEN

                for _ in range(ROUNDS):
                    before = sum(ledger.acknowledged for ledger in ledgers)
                    until(lambda before=before: grown(before), "messages to be acknowledged")  # type: ignore[misc]
                    (tree.stop if rng.random() < 0.3 else tree.kill)()
                    if rng.random() < 0.7:
                        until(waiting, "somebody to wait")
                    tree.start()
                before = sum(ledger.acknowledged for ledger in ledgers)
                until(lambda: grown(before), "messages to be acknowledged at last")
                over.set()
                for producer in producers:
                    producer.result(WATCHDOG_S)
                stored = [((queue, offset), body) for body, queue, offset, _ in everything(client, "load")]
                until(lambda: len(alone) >= len(stored), "the lone consumer to have it all")
                until(lambda: set(itertools.chain(*shared)) >= set(stored), "the group to have it all")
            finally:
                over.set()
                done.set()
            for consumer in consumers:
                consumer.result(WATCHDOG_S)
    settle(ledgers, stored)
    assert Counter(alone) == Counter(stored), "alone, each message once"
    for queue in range(4):
        offsets = [offset for (of, offset), _ in alone if of == queue]
        assert offsets == sorted(offsets)
    assert set(itertools.chain(*shared)) == set(stored), "and nothing that is not there"


def settle(ledgers: list[Ledger], stored: Got) -> None:
    places = dict(stored)
    for body, times in Counter(body for _, body in stored).items():
        assert times == 1, f"{BODY.unpack(body)} is stored {times} times"
    for ledger in ledgers:
        assert sorted(ledger.verdicts) == list(range(len(ledger.verdicts))), "no message without a verdict"
        for number, place in ledger.verdicts.items():
            assert place is None or places.get(place) == ledger.body(number), f"{ledger.who}'s {number} is not at {place}"
        known = {ledger.body(number) for number in ledger.verdicts}
        assert {body for body in places.values() if BODY.unpack(body)[0] == ledger.who} <= known, "stored without a verdict"
        lost = len(ledger.verdicts) - ledger.acknowledged
        print(f"producer {ledger.who}: {ledger.acknowledged} acknowledged, {lost} perhaps stored")
