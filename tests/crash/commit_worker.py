"""A member that notes each commit before it is made and after it has returned: `commit_worker.py BROKER LEDGER SEED`.

A line is `try` or `done`, then a queue and an offset for each of its queues. Lines of all members go to one file, each in one
write, so a kill leaves whole lines. It outlives the broker, and continues until it is killed."""

from __future__ import annotations

import os
import random
import sys
from contextlib import suppress

import orbitmq
from orbitmq import errors

TOPIC = "t"
GROUP = "g"
AWAY = (errors.BrokerError, errors.TimedOut, errors.Fenced)


def main(name: str, path: str, seed: int) -> None:
    rng = random.Random(seed)
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND)

    def note(word: str, positions: dict[tuple[str, int], int]) -> None:
        places = " ".join(f"{queue} {offset}" for (_, queue), offset in positions.items())
        os.write(ledger, f"{word} {places}\n".encode())

    client = orbitmq.connect(name, timeout=60, wait=60)
    while True:
        with suppress(*AWAY), client.consumer(GROUP, [TOPIC]) as consumer:
            while True:
                with suppress(errors.Fenced):
                    consumer.poll_batch(rng.choice((1, 3, 20)), timeout=0.2)
                    positions = consumer.position()
                    note("try", positions)
                    consumer.commit()
                    note("done", positions)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
