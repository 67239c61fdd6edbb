"""Producers that write down every verdict, and the count that compares the verdicts with the log.

A producer's messages are numbered; a body is (producer, number, padding of a seeded length). Verdicts go to a file of its own,
a line a message: number and physical offset, or number and the error's name. What a killed producer did not write down is
unknown, and may be in the log at most once.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orbitmq
from orbitmq.errors import PerhapsStored

FORK = multiprocessing.get_context("fork")
BODY = struct.Struct("<II")
TOPIC = "ledger"
QUEUES = 4
STOP = "stop"


def ledgers(folder: Path) -> dict[int, Path]:
    """The ledgers of start_producers, by producer."""
    return {int(path.name.partition("-")[2]): path for path in folder.glob("ledger-*")}


def produce(broker: str, producer: int, messages: int, path: Path, seed: int, durability: str) -> None:
    """Sends all messages, or until stop(), in batches of seeded sizes, some of them one by one, and records each verdict."""
    rng = random.Random(seed)
    with orbitmq.connect(broker, timeout=30) as client, path.open("w", buffering=1) as ledger:
        sender = client.producer(window=1024, timeout=60, durability=durability)
        number = 0
        while number < messages and not (path.parent / STOP).exists():
            count = min(rng.choice((1, 1, 3, 50, 300)), messages - number)
            bodies = [BODY.pack(producer, number + n) + bytes(rng.randrange(300)) for n in range(count)]
            try:
                if count == 1:
                    offsets = [sender.send(TOPIC, bodies[0]).physical_offset]
                else:
                    offsets = [receipt.physical_offset for receipt in sender.send_batch(TOPIC, bodies)]
            except PerhapsStored:
                ledger.write("".join(f"{number + n} perhaps\n" for n in range(count)))
                return
            ledger.write("".join(f"{number + n} {offset}\n" for n, offset in enumerate(offsets)))
            number += count
        sender.close()
    os._exit(0)


def start_producers(
    broker: str, folder: Path, count: int, messages: int, seed: int, durability: str = "appended"
) -> list[multiprocessing.process.BaseProcess]:
    """Running processes; their ledgers are folder/ledger-<n>."""
    started = []
    for producer in range(count):
        arguments = (broker, producer, messages, folder / f"ledger-{producer}", seed * 1000 + producer, durability)
        process = FORK.Process(target=produce, args=arguments, daemon=True)
        process.start()
        started.append(process)
    return started


def stop(folder: Path) -> None:
    """Lets the producers of this folder end after their current batch."""
    (folder / STOP).touch()


@dataclass
class Account:
    """What the ledgers say compared with what the log holds. `wrong` is empty if everything adds up."""

    acknowledged: int = 0
    stored: int = 0
    perhaps: int = 0
    refused: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, who: str, got: set[tuple[int, ...]], wanted: set[tuple[int, ...]]) -> None:
        """Messages as a consumer gets them: (queue, queue offset, producer, number)."""
        missing, foreign = wanted - got, got - wanted
        self.lost += len(missing)
        if missing:
            self.wrong.append(f"{who} lacks {len(missing)} messages, such as {min(missing)}")
        if foreign:
            self.wrong.append(f"{who} has {len(foreign)} messages that the log does not hold there, such as {min(foreign)}")


def settle(ledgers: Mapping[int, Path], stored: Iterable[tuple[bytes, int, int, int]]) -> Account:
    """Compares.

    Args:
        ledgers: the producers' files, by producer.
        stored: (body, queue, queue offset, physical offset) of every message that a consumer got.
    """
    account = Account()
    places: dict[tuple[int, int], int] = {}
    seen: Counter[tuple[int, int]] = Counter()
    queues: dict[int, list[int]] = {}
    for body, queue, offset, physical in stored:
        message = BODY.unpack_from(body)
        seen[message] += 1
        places[message] = physical
        queues.setdefault(queue, []).append(offset)
        account.stored += 1
    for queue, offsets in queues.items():
        if sorted(offsets) != list(range(len(offsets))):
            account.wrong.append(f"queue {queue}: offsets are not dense")
    twice = {message: times for message, times in seen.items() if times > 1}
    account.duplicated = sum(times - 1 for times in twice.values())
    account.wrong += [f"message {message} is stored {times} times" for message, times in twice.items()]
    for producer, path in ledgers.items():
        _settle_one(account, producer, path.read_text(), places)
    return account


def _settle_one(account: Account, producer: int, ledger: str, places: Mapping[tuple[int, int], int]) -> None:
    verdicts = 0
    for line in ledger.split("\n")[:-1]:  # a line without an end was cut off by the producer's death
        number, _, place = line.partition(" ")
        message = (producer, int(number))
        if int(number) != verdicts:
            account.wrong.append(f"message {(producer, verdicts)} has not exactly one verdict")
        if place == "end":
            continue
        verdicts = int(number) + 1
        if place == "perhaps":
            account.perhaps += 1
        elif place == "refused":
            account.refused += 1
            if message in places:
                account.wrong.append(f"message {message} was refused and is at {places[message]}")
        else:
            account.acknowledged += 1
            if message not in places:
                account.lost += 1
                account.wrong.append(f"message {message} was acknowledged at {place} and is lost")
            elif places[message] != int(place):
                account.wrong.append(f"message {message} was acknowledged at {place} and is at {places[message]}")
