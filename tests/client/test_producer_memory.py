"""Goal: a producer takes as much memory as it uses, and makes it ready before it writes. Method: the kernel's account of the
session's mapping, after what has been sent."""

from __future__ import annotations

import re
from pathlib import Path

import orbitmq

KIB = 1024
FIRST, STEP = 32 * KIB, 256 * KIB  # of the ring, made ready at a time (native/client/sender.c); of the verdicts twice as much
RING, VERDICTS = 8 << 20, 1 << 20  # with the default window


def resident(size: int) -> int:
    """Bytes in memory of this process's only mapping of so many bytes, of a file without a name."""
    text = Path("/proc/self/smaps").read_text()
    (found,) = re.findall(rf"/memfd:.*\nSize: +{size // KIB} kB\n(?:.*\n)*?Rss: +(\d+) kB", text)
    return int(found) * KIB


def test_memory_follows_what_is_sent(lent: orbitmq.Broker, lent_topic: str) -> None:
    with lent.producer() as producer:
        size = RING + VERDICTS + 4 * KIB
        assert resident(size) <= 12 * KIB
        producer.send(lent_topic, b"x")
        assert FIRST <= resident(size) <= 3 * FIRST + 16 * KIB
        sent = 0
        while sent < RING:
            producer.send_batch(lent_topic, [bytes(900)] * 200)
            sent += 200 * 900
            assert min(sent, RING) <= resident(size) <= 1.2 * sent + STEP + VERDICTS + 64 * KIB
        producer.send_batch(lent_topic, [bytes(900)] * 400)
        assert resident(size) == size


def test_one_large_message(lent: orbitmq.Broker, lent_topic: str) -> None:
    """What it takes is ready at once, however much more than a step that is."""
    with lent.producer() as producer:
        size = RING + VERDICTS + 4 * KIB
        producer.send(lent_topic, bytes(100 * KIB))
        assert 100 * KIB <= resident(size) <= 3 * 100 * KIB + 32 * KIB
