"""The producers and the consumers, each a process of its own. They report their progress to the main program.

What they put into the queue of reports: ("ready", worker), ("sent", count), ("seen", count), and at their end ("done", worker,
result) or ("failed", worker, the error's text).
"""

from __future__ import annotations

import json
import signal
from collections import deque
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Any, TypeAlias

import orbitmq
from orbitmq.cli.quickstart.flights import Delays, body, flights, plane, share
from orbitmq.errors import OrbitError

TOPIC = "flights"
GROUP = "delays"
IN_FLIGHT = 4096
REPORT = 5_000  # messages between two reports of a producer
LOOK_S = 0.2  # how often an idle consumer looks whether it should end

Reports: TypeAlias = "Queue[tuple[Any, ...]]"


def produce(name: str, count: int, worker: int, producers: int, go: Event, reports: Reports) -> None:
    """Sends this producer's flights of the first `count`, one message each: JSON, the airline as tag, the tail number as key
    and queue key."""

    def work() -> int:
        mine = [
            (body(flight), str(flight["carrier"]), plane(flight))
            for flight in flights(count)
            if share(flight, producers) == worker
        ]
        reports.put(("ready", f"producer {worker}"))
        go.wait()
        sent = 0
        waiting: deque[Any] = deque()
        with orbitmq.connect(name) as broker, broker.producer() as producer:
            for text, airline, tail in mine:
                keys = [tail] if tail else []
                waiting.append(producer.send_async(TOPIC, text, tags=airline, keys=keys, queue_key=tail or airline))
                # Sending continues while receipts come in. Each receipt is looked at, so no loss goes unnoticed.
                if len(waiting) == IN_FLIGHT:
                    for _ in range(REPORT // 2):
                        waiting.popleft().result(producer.timeout)
                    sent += REPORT // 2
                    reports.put(("sent", REPORT // 2))
            rest = len(waiting)
            for pending in waiting:
                pending.result(producer.timeout)
            reports.put(("sent", rest))
        return sent + rest

    _report(f"producer {worker}", reports, work)


def consume(name: str, worker: int, queues: int, stop: Event, reports: Reports) -> None:
    """Adds up delays as the flights arrive, and commits what it has added. Ends when it is told to.

    queues: its share of the topic's. It is ready once it has that: if a queue changes hands while messages arrive, the old and
        the new owner may both see some of them.
    """

    def work() -> dict[str, list[int]]:
        delays = Delays()
        with orbitmq.connect(name) as broker:
            consumer = broker.consumer(GROUP, topics=[TOPIC])
            while len(consumer.assignment) != queues and not stop.is_set():
                consumer.poll(timeout=LOOK_S)
            reports.put(("ready", f"consumer {worker}"))
            while not stop.is_set():
                messages = consumer.poll_batch(1000, timeout=LOOK_S)
                for message in messages:
                    delays.add(json.loads(bytes(message)))
                if messages:
                    consumer.commit()
                    reports.put(("seen", len(messages)))
            consumer.close()
        return delays.plain()

    _report(f"consumer {worker}", reports, work)


def _report(worker: str, reports: Reports, work: Callable[[], Any]) -> None:
    # Ctrl-C is for the main program, which ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        reports.put(("done", worker, work()))
    except OrbitError as error:
        reports.put(("failed", worker, str(error)))
