"""The main program of `scripts/quickstart`: a broker, two producers, a group of two consumers, Spark; every count is
checked."""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import orbitmq
from orbitmq.cli.console import err, show_error
from orbitmq.cli.quickstart.flights import FLIGHTS, Delays, flights
from orbitmq.cli.quickstart.folder import prepare
from orbitmq.cli.quickstart.java_program import Java
from orbitmq.cli.quickstart.remote import send_and_count
from orbitmq.cli.quickstart.summary import Stage, check, show_summary, stored_and_left
from orbitmq.cli.quickstart.workers import GROUP, TOPIC, Reports, consume, produce
from orbitmq.client.client import Client
from orbitmq.client.setting_types import BrokerSettings
from orbitmq.errors import BrokerError, OrbitError
from orbitmq.store.settings.settings import PAGE

PRODUCERS = 2
CONSUMERS = 2
QUEUES = 8
LOG_BYTES = 400  # of a log file, a flight: two files hold them all; the default of 1 GiB would be reserved for nothing
REMOTE_BYTES = 500  # the same if RocketMQ's client sends them, which adds properties
LOOK_S = 0.2


class Workers:
    """The processes of one run, and what they report."""

    def __init__(self, broker: str, flights: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.go, self.stop = spawn.Event(), spawn.Event()
        self.reports: Reports = spawn.Queue()
        self.sent = self.seen = 0
        self.results: dict[str, Any] = {}
        self._ready: set[str] = set()
        self._processes: dict[str, BaseProcess] = {}
        for number in range(PRODUCERS):
            arguments = (broker, flights, number, PRODUCERS, self.go, self.reports)
            self._processes[f"producer {number}"] = spawn.Process(target=produce, args=arguments, daemon=True)
        for number in range(CONSUMERS):
            told = (broker, number, QUEUES // CONSUMERS, self.stop, self.reports)
            self._processes[f"consumer {number}"] = spawn.Process(target=consume, args=told, daemon=True)

    def start(self) -> None:
        for process in self._processes.values():
            process.start()
        self.until(lambda: len(self._ready) == PRODUCERS + CONSUMERS)

    def until(self, reached: Callable[[], bool], told: Callable[[], None] = lambda: None) -> None:
        """Takes reports until the condition holds. Raises: BrokerError: a worker failed or died."""
        while not reached():
            try:
                self._take(*self.reports.get(timeout=LOOK_S))
                told()
            except queue.Empty:
                for name, process in self._processes.items():
                    if process.exitcode not in (None, 0):
                        raise BrokerError(f"cannot go on: {name} ended with code {process.exitcode}") from None

    def _take(self, kind: str, *values: Any) -> None:
        if kind == "ready":
            self._ready.add(values[0])
        elif kind == "sent":
            self.sent += values[0]
        elif kind == "seen":
            self.seen += values[0]
        elif kind == "done":
            self.results[values[0]] = values[1]
        else:
            raise BrokerError(f"cannot go on: {values[0]} failed: {values[1]}")

    def finish(self) -> None:
        """Lets consumers end, and collects all results."""
        self.stop.set()
        self.until(lambda: len(self.results) == len(self._processes))
        for process in self._processes.values():
            process.join()

    def end(self) -> None:
        """Ends all workers that still run, however the run ended."""
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
                process.join()


def produce_and_consume(broker: Client, total: int, progress: Progress, stages: list[Stage]) -> dict[str, list[int]]:
    """Returns what the consumers have added up."""
    broker.create_topic(TOPIC, QUEUES)
    workers = Workers(broker.name, total)
    try:
        waiting = progress.add_task("producers read the flights", total=None)
        workers.start()
        progress.remove_task(waiting)
        produced = progress.add_task(f"{PRODUCERS} producers", total=total)
        consumed = progress.add_task(f"{CONSUMERS} consumers", total=total)
        begun = time.perf_counter()
        workers.go.set()
        ends: dict[str, float] = {}

        def show() -> None:
            progress.update(produced, completed=workers.sent)
            progress.update(consumed, completed=workers.seen)
            if workers.sent >= total:
                ends.setdefault("produced", time.perf_counter() - begun)

        workers.until(lambda: workers.sent >= total and workers.seen >= total, show)
        show()
        consumed_s = time.perf_counter() - begun
        workers.finish()
    finally:
        workers.end()
    delays = Delays()
    for number in range(CONSUMERS):
        delays.merge(workers.results[f"consumer {number}"])
    stored, lag = stored_and_left(broker, GROUP)
    stages.append(Stage(f"produced by {PRODUCERS} processes", workers.sent, ends["produced"], check(workers.sent, total)))
    stages.append(Stage("stored in the topic", stored, None, check(stored, total)))
    stages.append(Stage(f"consumed by {CONSUMERS} processes", workers.seen, consumed_s, check(delays.flights, total)))
    stages.append(Stage("left for the group", lag, None, check(lag, 0)))
    return delays.plain()


def run(folder: Path, total: int, *, remote: bool = False, jars: Path | None = None) -> bool:
    """Runs everything. True if every count was right. remote, jars: with RocketMQ's Java client, and where its jars are."""
    begun = time.perf_counter()
    prepare(folder, "quickstart")
    java = None
    if remote:
        say("looking for Java, and for RocketMQ's client at Maven Central")
        java = Java.find(folder, jars)
    stages: list[Stage] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # A descriptor of its own, because Spark's part redirects standard error.
    screen = Console(file=os.fdopen(os.dup(2), "w"))
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as progress:
        reading = progress.add_task("read the source", total=total)
        expected = Delays()
        for number, flight in enumerate(flights(total), 1):
            expected.add(flight)
            if number % 10_000 == 0:
                progress.update(reading, completed=number)
        progress.update(reading, completed=expected.flights)
        stages.append(Stage("flights in the source", expected.flights, None, check(expected.flights, total)))
        say("starting a broker")
        # Ports that are free, because RocketMQ may run on this machine.
        settings: BrokerSettings = {} if java is None else {"gateway": True, "name_server_port": 0, "broker_port": 0}
        settings["log_file_size"] = (total * (LOG_BYTES if java is None else REMOTE_BYTES) // PAGE + 1) * PAGE
        with orbitmq.Broker(folder / "store", **settings) as broker:
            if java is None:
                say(f"{PRODUCERS} producers send {total:,} flights, {CONSUMERS} consumers add up their delays")
                counted = produce_and_consume(broker, total, progress, stages)
            else:
                say(f"Java's producer sends {total:,} flights to {broker.status().listens}, its consumers add up their delays")
                counted = send_and_count(broker, total, progress, stages, java)
            stages.append(Stage("delays as in the source", len(counted), None, check(counted, expected.plain())))
            say("Spark reads the topic out of the store")
            from orbitmq.cli.quickstart.spark_part import ask_spark, chatter_in

            exporting = progress.add_task("Spark writes Parquet", total=None)
            with chatter_in(folder / "spark.log"):
                answer = ask_spark(
                    broker.name,
                    TOPIC,
                    folder / "parquet",
                    lambda done, total, _: progress.update(exporting, completed=done, total=total),
                    lambda: progress.update(exporting, description="Spark answers a query"),
                )
        rows = answer.export.rows
        stages.append(Stage("rows in Parquet", rows, answer.export.seconds, check(rows, total)))
        stages.append(Stage("of them different", answer.ordered, None, check(answer.ordered, total)))
        stages.append(Stage("Spark's answer as the source's", len(answer.counts), None, check(answer.counts, expected.plain())))
    show_summary(stages, answer.counts, folder, time.perf_counter() - begun)
    return all(stage.right for stage in stages)


def say(text: str) -> None:
    """A line about what comes next, when no progress bar says it."""
    if not err.is_terminal:
        err.print(f"quickstart: {text}")


def main(
    folder: Annotated[Path, typer.Option(help="Where the store and the Parquet files go; emptied first if it is ours.")] = Path(
        "data/quickstart"
    ),
    flights: Annotated[int, typer.Option(help="How many, from the first of January on.", min=3000, max=FLIGHTS)] = FLIGHTS,
    remote: Annotated[
        bool, typer.Option("--remote", help="Send and consume with RocketMQ's Java client, over TCP; this needs a JDK.")
    ] = False,
    jars: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where that client's jars are; else they are fetched from Maven Central.")
    ] = None,
) -> None:
    """Run the whole pipeline on real data: producers, broker, consumers, Spark."""
    try:
        right = run(folder.absolute(), flights, remote=remote, jars=jars and jars.absolute())
    except OrbitError as error:
        show_error(error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        err.print("stopped; nothing runs any more")
        raise typer.Exit(130) from None
    if not right:
        err.print("[bold red]error:[/] a count is wrong; see the marks above, and the store in " + escape(str(folder)))
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    sys.exit(app())
