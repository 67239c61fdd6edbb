"""The round trip of a request, beside one way: a paced producer and a consumer of the same run. A request has two ways, and a
thread that is woken in between."""

from __future__ import annotations

import time
from collections.abc import Callable

import orbitmq
from scripts.benchmark import latency, load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

RATE = 1000  # a second, of both
REQUESTS = 3000


def _responder(name: str, topic: str, requests: int) -> Callable[[], int]:
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest")

    def act() -> int:
        for number, message in enumerate(consumer, 1):
            message.reply(bytes(message))
            if number == requests:
                break
        return requests

    return act


def _requester(name: str, topic: str, requests: int) -> Callable[[], tuple[float, float]]:
    client = orbitmq.connect(name)

    def act() -> tuple[float, float]:
        found = latency.histogram()
        now, request, bodies = time.monotonic_ns, client.request, load.SMALL.bodies
        due = now()
        for number in range(requests):
            due = max(due + 1_000_000_000 // RATE, now())
            while (wait := due - now()) > 0:
                if wait > latency.SPIN_NS:
                    time.sleep((wait - latency.SPIN_NS) / 1e9)
            begin = now()
            request(topic, bodies[number % len(bodies)], 60)
            if number > requests // 20:  # the first twentieth warms up
                found.record_value(now() - begin)
        return latency.percentiles_us(found)

    return act


def request_reply(stage: Stage) -> tuple[Sample, ...]:
    one_way = latency.e2e_1k(stage)
    topic = stage.topic()
    responder = Role(_responder, stage.name, topic, REQUESTS)
    requester = Role(_requester, stage.name, topic, REQUESTS)
    _, asked = together(responder, requester)
    return tuple(Sample(value, way.value) for value, way in zip(asked[2], one_way, strict=True))


MEASURES = (Measure(("request_reply_p50_us", "request_reply_p99_us"), "us", request_reply, targets=("<= 3 x one way", "")),)
