"""Goal: a producer takes as much memory as it uses, and makes it ready before it writes. Method: the kernel's account of the
session's mapping, after what has been sent."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import orbitmq

KIB = 1024
FIRST, STEP = 32 * KIB, 256 * KIB  # of the ring, made ready at a time (native/client/sender.c); of the verdicts twice as much
RING, VERDICTS = 8 << 20, 1 << 20  # with the default window
SIZE = RING + VERDICTS + 4 * KIB


def mappings() -> dict[str, int]:
    """Bytes in memory of each mapping of a session's size, of a file without a name, by its address."""
    text = Path("/proc/self/smaps").read_text()
    found = re.findall(rf"^(\S+) .*/memfd:.*\nSize: +{SIZE // KIB} kB\n(?:.*\n)*?Rss: +(\d+) kB", text, re.MULTILINE)
    return {address: int(count) * KIB for address, count in found}


class Mapping:
    """That of the session which begins after this. Others may be left from earlier tests."""

    def __init__(self) -> None:
        gc.collect()
        self._others = mappings().keys()

    def resident(self) -> int:
        (count,) = (count for address, count in mappings().items() if address not in self._others)
        return count


def test_memory_follows_what_is_sent(lent: orbitmq.Broker, lent_topic: str) -> None:
    mapping = Mapping()
    with lent.producer() as producer:
        assert mapping.resident() <= 12 * KIB
        producer.send(lent_topic, b"x")
        assert FIRST <= mapping.resident() <= 3 * FIRST + 16 * KIB
        sent = 0
        while sent < RING:
            producer.send_batch(lent_topic, [bytes(900)] * 200)
            sent += 200 * 900
            assert min(sent, RING) <= mapping.resident() <= 1.2 * sent + STEP + VERDICTS + 64 * KIB
        producer.send_batch(lent_topic, [bytes(900)] * 400)
        assert mapping.resident() == SIZE


def test_one_large_message(lent: orbitmq.Broker, lent_topic: str) -> None:
    """What it takes is ready at once, however much more than a step that is."""
    mapping = Mapping()
    with lent.producer() as producer:
        producer.send(lent_topic, bytes(100 * KIB))
        assert 100 * KIB <= mapping.resident() <= 3 * 100 * KIB + 32 * KIB
