"""One message a call: pipelined, beside a busy thread, and waiting for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable

import orbitmq
from scripts.benchmark import ceiling, load
from scripts.benchmark.disk import syncs_per_second
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

PIPELINED = 1_000_000
BUSY = 1_000_000
SYNCED = 3_000
SYNCED_EACH = 1000
SENDERS = 64
SENDER_NS = 4_500  # time of its own that the client spends on a synced message: interpreter and library, user time


def _pipelined(name: str, topic: str, of: load.Load, messages: int, busy: bool) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer(message_max=of.message_max)
    stop = threading.Event()

    def burn() -> None:
        number = 0
        while not stop.is_set():
            for _ in range(1000):
                number = (number * 31 + 7) & 0xFFFFFF

    def act() -> int:
        if busy:
            threading.Thread(target=burn, daemon=True).start()
        send = producer.send_async
        bodies = of.bodies
        last = None
        for _ in range(messages // len(bodies)):
            for body in bodies:
                last = send(topic, body, tags=load.TAG)
        assert last is not None
        last.result()
        producer.flush()
        stop.set()
        return messages

    return act


def _rate(stage: Stage, of: load.Load, most: int, busy: bool) -> float:
    messages = of.messages(most)
    topic = stage.topic()
    ((begin, end, _),) = together(Role(_pipelined, stage.name, topic, of, messages, busy), warm=stage.folder)
    return messages / ((end - begin) / 1e9)


def _send_pipelined(of: load.Load) -> Callable[[Stage], tuple[Sample, ...]]:
    return lambda stage: (Sample(_rate(stage, of, PIPELINED, busy=False)),)


def send_pipelined_busy(stage: Stage) -> tuple[Sample, ...]:
    return (Sample(_rate(stage, load.SMALL, BUSY, busy=True)),)


def _synced(name: str, topic: str, messages: int) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer(durability="flushed", window=64, message_max=16 * 1024)
    bodies = load.SMALL.bodies

    def act() -> int:
        for number in range(messages):
            producer.send(topic, bodies[number % len(bodies)], tags=load.TAG)
        return messages

    return act


def send_synced(stage: Stage) -> tuple[Sample, ...]:
    """One sender, compared with the bare disk of a moment before; then 64 at once. The ceiling for their total is as many bare
    processes that spend as much on a message as the client library does."""
    topic = stage.topic()
    disk = syncs_per_second(stage.folder)
    ((begin, end, _),) = together(Role(_synced, stage.name, topic, SYNCED))
    alone = SYNCED / ((end - begin) / 1e9)
    found = together(*(Role(_synced, stage.name, topic, SYNCED_EACH) for _ in range(SENDERS)))
    seconds = (max(e for _, e, _ in found) - min(b for b, _, _ in found)) / 1e9
    crowd = SENDERS * SYNCED_EACH / seconds
    bare = ceiling.crowd(SENDERS, SYNCED_EACH, SENDER_NS, stage.folder)
    bare_alone = ceiling.crowd(1, SYNCED, SENDER_NS, stage.folder)
    return Sample(alone, disk), Sample(crowd, bare), Sample(crowd / alone, bare / bare_alone if bare and bare_alone else None)


MEASURES = (
    *(
        Measure(
            ("send_pipelined" + of.suffix,), "messages/s", _send_pipelined(of), targets=(">= 1 M" if of is load.SMALL else "",)
        )
        for of in load.SIZES
    ),
    Measure(("send_pipelined_busy",), "messages/s", send_pipelined_busy, targets=(">= 50 % of send_pipelined",)),
    Measure(
        ("send_synced", "send_synced_64", "send_synced_gain"),
        "messages/s",
        send_synced,
        durability="flushed",
        targets=(">= 6 k", "", ">= 20 times one sender"),
    ),
)
