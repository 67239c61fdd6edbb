"""The flights through RocketMQ's Java client: one program sends them, another one consumes them, as if both had been written
for RocketMQ."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

from rich.progress import Progress

from orbitmq.cli.quickstart.flights import Flight, body, flights, plane
from orbitmq.cli.quickstart.java_program import Java, JavaProgram, Report
from orbitmq.cli.quickstart.summary import Stage, check, stored_and_left
from orbitmq.cli.quickstart.workers import GROUP, TOPIC
from orbitmq.client.client import Client

SENDER, COUNTER = "SendFlights", "CountFlights"
CONSUMERS = 2
QUEUES = 8
LOOK_S = 0.2
SETTLE_S = 30.0  # how long what the consumers have committed at their end, one-way, may take to be seen


class Counted:
    """What the two programs have done so far. sums: what the consumer has added up, once it has ended."""

    def __init__(self) -> None:
        self.reports: queue.Queue[Report] = queue.Queue()
        self.sent = self.seen = 0
        self.sums: dict[str, list[int]] | None = None
        self.ready: set[str] = set()
        self.ended: set[str] = set()

    def until(
        self, reached: Callable[[], bool], programs: dict[str, JavaProgram], told: Callable[[], None] = lambda: None
    ) -> None:
        """Takes reports until the condition holds. Raises: BrokerError: a program failed."""
        while not reached():
            with suppress(queue.Empty):
                name, word, rest = self.reports.get(timeout=LOOK_S)
                if word == "ended":
                    if rest != "0":
                        raise programs[name].failure(rest)
                    self.ended.add(name)
                else:
                    self._take(name, word, rest)
            told()

    def _take(self, name: str, word: str, rest: str) -> None:
        if word == "ready":
            self.ready.add(name)
        elif word == "sent":
            self.sent += int(rest)
        elif word == "seen":
            self.seen += int(rest)
        elif word == "done":
            found: dict[str, Any] = json.loads(rest)
            self.sums = {carrier: list(map(int, found[carrier])) for carrier in sorted(found)}
            self.seen = sum(each[0] for each in self.sums.values())


def lines(some: Iterable[Flight]) -> Iterator[str]:
    """As SendFlights reads them: the airline, the tail number or nothing, the body."""
    for flight in some:
        yield f"{flight['carrier']}\t{plane(flight) or ''}\t{body(flight)}\n"


def send_and_count(broker: Client, total: int, progress: Progress, stages: list[Stage], java: Java) -> dict[str, list[int]]:
    """Returns what the consumers have added up. Raises: BrokerError: a program failed."""
    broker.create_topic(TOPIC, QUEUES)
    names, counted = broker.status().listens, Counted()
    waiting = progress.add_task("Java compiles and starts", total=None)
    with ExitStack() as running:
        programs = {}
        for name, arguments in ((COUNTER, (GROUP, CONSUMERS, total)), (SENDER, ())):
            program = JavaProgram(java, name, (names, TOPIC, *arguments), counted.reports)
            programs[name] = running.enter_context(closing(program))
        counted.until(lambda: counted.ready == programs.keys(), programs)
        progress.remove_task(waiting)
        produced = progress.add_task("Java's producer", total=total)
        consumed = progress.add_task(f"Java's {CONSUMERS} consumers", total=total)
        begun = time.perf_counter()
        programs[SENDER].feed(lines(flights(total)))
        ends: dict[str, float] = {}

        def show() -> None:
            progress.update(produced, completed=counted.sent)
            progress.update(consumed, completed=counted.seen)
            for what, count in (("produced", counted.sent), ("consumed", counted.seen)):
                if count >= total:
                    ends.setdefault(what, time.perf_counter() - begun)

        counted.until(lambda: counted.sums is not None and SENDER in counted.ended, programs, show)
        show()
        counted.until(lambda: counted.ended == programs.keys(), programs)
    deadline = time.monotonic() + SETTLE_S
    while (found := stored_and_left(broker, GROUP))[1] and time.monotonic() < deadline:
        with suppress(queue.Empty):
            counted.reports.get(timeout=LOOK_S)
    stored, left = found
    sums = counted.sums or {}
    stages.append(Stage("produced by Java's client", counted.sent, ends.get("produced"), check(counted.sent, total)))
    stages.append(Stage("stored in the topic", stored, None, check(stored, total)))
    stages.append(Stage(f"consumed by {CONSUMERS} of Java's", counted.seen, ends.get("consumed"), check(counted.seen, total)))
    stages.append(Stage("left for the group", left, None, check(left, 0)))
    return sums
