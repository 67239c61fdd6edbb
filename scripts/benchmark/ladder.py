"""The latency ladder: from the moment a message was due to its receipt, and to the consumer's hands, from 1,000 messages a
second up to 80 % of the maximum.

The load is open loop: a message is due at its time whether or not those before it were prompt, and its latency counts from
there. So a stall counts for every message that was due during it (no coordinated omission). From 100,000 a second on, messages
are due ten and more at a time, in batches, so that the sender's own Python does not limit them.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.latency import PR_SET_TIMERSLACK
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import run_stream

TICK_NS = 100_000  # at least, between two sends
IN_FLIGHT = 4096  # sends whose receipts are not there yet; more wait
BEGIN_NS = 20_000_000  # from the start of the roles to the first message
WARM = 0.05  # share of the messages, at the start, that does not count
# The sender sleeps until this long before a send is due, then spins. It does not yield, because that may cost milliseconds.
SPIN_NS = 50_000
RUNGS: dict[str, float] = {"1k": 1e3, "10k": 1e4, "100k": 1e5, "500k": 5e5, "80pc": 0}  # messages a second; 0: of the maximum
CROWD_RUNGS = ("1k", "10k", "100k")  # for more than one consumer
CROWDS = (1, 4, 16)
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
BODY = np.dtype([("due", "<i8"), ("padding", f"V{load.SMALL.size - 8}")])


def _send(name: str, topic: str, rate: float, messages: int) -> Callable[[], np.ndarray[Any, Any]]:
    """Receipts: ns from the moment that each was due."""
    producer = orbitmq.connect(name).producer()
    padding = b"x" * (load.SMALL.size - 8)
    step = max(1e9 / rate, TICK_NS)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def act() -> np.ndarray[Any, Any]:
        now, pack = time.monotonic_ns, struct.Struct("<q").pack
        receipts: list[int] = []
        pending: deque[tuple[int, int, Any]] = deque()
        begin = now() + BEGIN_NS
        sent = number = 0

        def settle() -> None:
            due, count, receipt = pending.popleft()
            receipt.result()
            receipts.extend([now() - due] * count)

        while sent < messages:
            due = begin + int(number * step)
            while (wait := due - now()) > 0:
                if pending and pending[0][2].done():
                    settle()
                elif wait > SPIN_NS and not pending:
                    time.sleep((wait - SPIN_NS) / 1e9)
            number += 1
            count = min(round(number * step * rate / 1e9), messages) - sent
            body = pack(due) + padding
            if count == 1:
                receipt: Any = producer.send_async(topic, body, tags=load.TAG)
            else:
                receipt = producer.send_batch_async(topic, [body] * count, tags=load.TAG)
            pending.append((due, count, receipt))
            sent += count
            while pending and (pending[0][2].done() or len(pending) > IN_FLIGHT):
                settle()
        while pending:
            settle()
        return np.array(receipts[int(len(receipts) * WARM) :])

    return act


def _receive(name: str, topic: str, messages: int, spin: float) -> Callable[[], np.ndarray[Any, Any]]:
    """Arrivals: ns from the moment that each message was due."""
    settings = {"spin": spin} if spin else {}
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest", **settings)

    def act() -> np.ndarray[Any, Any]:
        count = 0
        found = []
        while count < messages:
            bodies = consumer.poll_bodies(8192, timeout=60)
            arrived = time.monotonic_ns()
            due = np.frombuffer(b"".join(bodies), BODY)["due"]
            found.append(np.stack((due, arrived - due)))
            count += len(bodies)
        due, late = np.concatenate(found, axis=1)
        return np.asarray(late[np.argsort(due, kind="stable")][int(messages * WARM) :])

    return act


def _samples(ns: np.ndarray[Any, Any]) -> tuple[Sample, ...]:
    return tuple(Sample(float(value) / 1e3) for value in np.percentile(ns, list(PERCENTILES.values())))


def _rung(stage: Stage, *, rate: float, consumers: int, spin: bool) -> tuple[Sample | None, ...]:
    if not rate:
        stage.rate = stage.rate or run_stream(stage, load.SMALL.messages(2_000_000))[0]
        rate = 0.8 * stage.rate
    messages = int(rate * (10 if rate <= 1e3 else 4 if rate <= 1e4 else 2))
    topic = stage.topic()
    receivers = [Role(_receive, stage.name, topic, messages, math.inf if spin else 0.0) for _ in range(consumers)]
    sender = Role(_send, stage.name, topic, rate, messages)
    *arrived, sent = together(*receivers, sender, warm=stage.folder)
    return _samples(sent[2]) + _samples(np.concatenate([each[2] for each in arrived]))


def _measures() -> list[Measure]:
    found = []
    for consumers in CROWDS:
        for spin in (False, True):
            for rung in RUNGS if consumers == 1 else CROWD_RUNGS:
                name = f"ladder_{rung}" + (f"_x{consumers}" if consumers > 1 else "") + ("_spin" if spin else "")
                names = (*(f"{name}_receipt_{at}_us" for at in PERCENTILES), *(f"{name}_{at}_us" for at in PERCENTILES))
                act = partial(_rung, rate=RUNGS[rung], consumers=consumers, spin=spin)
                found.append(Measure(names, "us", act, runs=3, warm=0, settings={"spin_us": 1000} if spin else {}))
    return found


MEASURES = tuple(_measures())
