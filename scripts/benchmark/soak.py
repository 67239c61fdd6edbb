"""The command behind scripts/soak: a paced producer, a consumer that checks every message, and each second a sample of all
processes."""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.latency import histogram, percentiles_us
from scripts.benchmark.processor import actors
from scripts.benchmark.roles import FORK, Role
from scripts.benchmark.stage import Stage, stage
from scripts.benchmark.stream import run_stream

STEP_NS = 5_000_000  # a batch is due every 5 ms
RUN = 1000  # messages in a row that go to one queue, at most
IN_FLIGHT = 64  # batches
SETTINGS = {"log_file_size": 64 << 20, "retention_bytes": 512 << 20}
MIB = 1 << 20


def body_type(size: int) -> np.dtype[Any]:
    """What a body holds: when it was due (CLOCK_MONOTONIC, ns), its number in its queue, and padding."""
    return np.dtype([("due", "<i8"), ("number", "<i8"), ("padding", f"V{size - 16}")])


def produce(name: str, topic: str, size: int, rate: float, seconds: float) -> Callable[[], int]:
    """Open loop: what is late is sent at once. Returns how many messages were sent."""
    producer = orbitmq.connect(name).producer()

    def act() -> int:
        numbers = [0] * load.QUEUES
        pending: deque[Any] = deque()
        begin = due = time.monotonic_ns()
        sent = turn = 0
        while due - begin < seconds * 1e9:
            due += STEP_NS
            if (wait := due - time.monotonic_ns()) > 0:
                time.sleep(wait / 1e9)
            owed = int((due - begin) / 1e9 * rate) - sent
            while owed > 0:
                queue, count = turn % load.QUEUES, min(owed, RUN)
                bodies = np.zeros(count, body_type(size))
                bodies["due"] = due
                bodies["number"] = np.arange(numbers[queue], numbers[queue] + count)
                data = bodies.tobytes()
                pieces = [data[at : at + size] for at in range(0, len(data), size)]
                pending.append(producer.send_batch_async(topic, pieces, queue=queue))
                numbers[queue] += count
                sent, owed, turn = sent + count, owed - count, turn + 1
                if len(pending) > IN_FLIGHT:
                    pending.popleft().result()
        for batch in pending:
            batch.result()
        return sent

    return act


@dataclass
class Watch:
    """What the consumer has seen; `seconds` has (p50, p99) in us of each second."""

    received: int = 0
    missing: int = 0
    again: int = 0
    seconds: list[tuple[float, float]] = field(default_factory=list)


def consume(name: str, topic: str, size: int, done: Any) -> Callable[[], Watch]:
    """Every message is looked at: its number is the next one of its queue."""
    consumer = orbitmq.connect(name).consumer("soak", topics=[topic], start="earliest")
    kind = body_type(size)
    consumer.poll_arrow(1, timeout=0, columns=["queue", "body"])

    def act() -> Watch:
        watch, numbers = Watch(), [0] * load.QUEUES
        found, until = histogram(), time.monotonic() + 1
        while True:
            batch = consumer.poll_arrow(65536, timeout=0.2, columns=["queue", "body"])
            now = time.monotonic_ns()
            if not batch.num_rows and done.is_set():
                return watch
            if batch.num_rows:
                bodies = np.frombuffer(batch["body"].buffers()[2], kind, batch.num_rows)
                for late, count in zip(*np.unique((now - bodies["due"]) // 1000, return_counts=True), strict=True):
                    found.record_value(max(1, int(late) * 1000), int(count))
                queues = batch["queue"].to_numpy()
                for queue in np.unique(queues):
                    got = bodies["number"][queues == queue]
                    ahead = np.diff(got, prepend=numbers[queue] - 1) - 1
                    watch.missing += int(ahead[ahead > 0].sum())
                    watch.again += int((ahead < 0).sum())
                    numbers[queue] = int(got[-1]) + 1
                watch.received += batch.num_rows
            if time.monotonic() >= until:
                consumer.commit()
                watch.seconds.append(percentiles_us(found) if found.get_total_count() else (0.0, 0.0))
                found, until = histogram(), time.monotonic() + 1

    return act


def own_memory(pid: int) -> int:
    """Bytes of memory that the process shares with nobody: neither the log's pages nor the segments."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _blocks(path: Path) -> int:
    """Of 512 bytes; 0 for a file that retention has removed meanwhile."""
    try:
        return path.stat().st_blocks
    except FileNotFoundError:
        return 0


def sample(pids: dict[str, int], store: Path) -> dict[str, float]:
    found: dict[str, float] = {f"memory of {name}, MiB": own_memory(pid) / MIB for name, pid in pids.items()}
    found["descriptors"] = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids.values())
    found["log on disk, MiB"] = sum(map(_blocks, (store / "commitlog").iterdir())) * 512 / MIB
    return found


def slope(values: list[float]) -> float:
    """Growth over all of them: the median of the slopes of pairs half a run apart (Theil and Sen), times the run's length."""
    half = len(values) // 2
    return statistics.median((values[at + half] - values[at]) / half for at in range(len(values) - half)) * len(values)


def allowed(name: str, values: list[float]) -> float:
    """Growth that counts as none: what the allocator and the machine's noise do."""
    usual = statistics.median(values)
    if name.startswith("memory"):
        return 2 + usual / 20
    return usual / 2 if name.startswith("p") else max(3, usual / 4 if "disk" in name else 0)


def soak(playing: Stage, size: int, rate: float, seconds: int, console: Console) -> tuple[Watch, int, dict[str, list[float]]]:
    topic = playing.topic()
    done = FORK.Event()
    receiver = Role(consume, playing.name, topic, size, done)
    sender = Role(produce, playing.name, topic, size, rate, seconds)
    pids = actors(playing.broker) | {"producer": sender.pid, "consumer": receiver.pid}
    rows: list[dict[str, float]] = []
    stop = threading.Event()
    for role in (receiver, sender):
        role.go()
    for _ in track(range(seconds), f"{rate:,.0f} messages/s", console=console):
        rows.append(sample(pids, playing.folder / "store"))
        stop.wait(1)
    _, _, sent = sender.result()
    done.set()
    _, _, watch = receiver.result()
    series = {name: [row[name] for row in rows] for name in rows[0]}
    series["p50, us"] = [p50 for p50, _ in watch.seconds]
    series["p99, us"] = [p99 for _, p99 in watch.seconds]
    for role in (receiver, sender):
        role.finish()
    return watch, sent, series


def report(series: dict[str, list[float]], console: Console) -> bool:
    """Prints each series with its growth; the first quarter, in which caches fill, does not count. True if nothing grows."""
    table = Table("what", "first", "median", "largest", "growth", "allowed", "", title="A sample a second")
    flat = True
    for name, every in series.items():
        values = every[len(every) // 4 :]
        growth, limit = slope(values), allowed(name, values)
        flat &= growth <= limit
        cells = (values[0], statistics.median(values), max(values), growth, limit)
        table.add_row(name, *(f"{cell:,.1f}" for cell in cells), "flat" if growth <= limit else "[red]grows[/red]")
    console.print(table)
    return flat


def plot(series: dict[str, list[float]], path: Path) -> None:
    from scripts.benchmark.plots import plt

    groups: dict[str, list[str]] = {}
    for name in series:
        unit = "memory, MiB" if name.startswith("memory") else "us" if name.startswith("p") else name
        groups.setdefault(unit, []).append(name)
    figure, axes = plt.subplots(len(groups), sharex=True, figsize=(9, 2.4 * len(groups)))
    for each, (unit, names) in zip(axes, groups.items(), strict=True):
        for name in names:
            each.plot(series[name], label=name.removeprefix("memory of ").removesuffix(", MiB"), linewidth=1)
        each.set_ylabel(unit)
        each.set_ylim(bottom=0)
        each.legend(fontsize=6, ncols=4, loc="lower right")
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="A day's worth in small.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, help="messages a second; half of the maximum, which is measured first")
    parser.add_argument("--size", type=int, default=100, help="bytes of a body, 16 at least (100)")
    parser.add_argument("--plot", type=Path, help="a picture of all series (SVG)")
    options = parser.parse_args()
    console = Console(width=120 if not sys.stdout.isatty() else None)
    seconds = max(20, int(options.minutes * 60))
    with stage(dict(SETTINGS)) as playing:
        of = load.Load(options.size, "")
        rate = options.rate or run_stream(playing, of.messages(2_000_000), of)[0] / 2
        watch, sent, series = soak(playing, options.size, rate, seconds, console)
    flat = report(series, console)
    right = watch.received == sent and not watch.missing and not watch.again
    console.print(
        f"sent {sent:,} in {seconds} s; received {watch.received:,}, "
        f"{watch.missing:,} missing, {watch.again:,} twice or out of order"
    )
    if options.plot:
        plot(series, options.plot)
    return 0 if flat and right else 1


if __name__ == "__main__":
    sys.exit(main())
