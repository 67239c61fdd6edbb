"""The command behind scripts/processor_time: one producer streams messages of one size in batches of 1,000, then one consumer
reads them as message objects, as bytes and as Arrow. The kernel says how long each process has run (schedstat). That hardly
depends on who else uses the machine, so two checkouts can be told apart where messages a second tell nothing.

A checkout is measured by its own interpreter, which runs this file with --once.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scripts.benchmark.processor import actors, ran_ns

BATCH = 1000
LOG_BYTES = 700 << 20  # of one run
RECORD_OVERHEAD = 112  # bytes that a record takes beside its body
ACTORS = ("handler 0", "writer", "reput", "flush", "allocator")


def once(size: int, placement: str) -> dict[str, float]:
    """ns of processor time a message of `size` bytes, by process; and of the clock, while messages were sent. placement: of the
    broker; empty: its default, which older checkouts have too."""
    import orbitmq

    found: dict[str, float] = {}
    settings = {"placement": placement} if placement else {}
    messages = LOG_BYTES // (size + RECORD_OVERHEAD) // BATCH * BATCH
    with tempfile.TemporaryDirectory(prefix="orbitmq-") as folder:
        os.environ["ORBITMQ_RUNTIME_DIR"] = folder
        with orbitmq.Broker(Path(folder, "store"), handlers=1, **settings) as broker:
            broker.create_topic("t", queues=8)
            producer = broker.producer(window=32768)
            bodies = [bytes(size)] * BATCH
            for _ in range(messages // 10 // BATCH):
                producer.send_batch("t", bodies)
            names: dict[int, list[str]] = {}  # several may share a process
            for name, pid in actors(broker, ACTORS).items():
                names.setdefault(pid, []).append(name)
            before = {pid: ran_ns(pid) for pid in names}
            clock, own = time.perf_counter_ns(), time.process_time_ns()
            for _ in range(messages // BATCH):
                producer.send_batch("t", bodies)
            found["clock, while sending"] = (time.perf_counter_ns() - clock) / messages
            found["sender"] = (time.process_time_ns() - own) / messages
            found |= {", ".join(names[pid]): (ran_ns(pid) - before[pid]) / messages for pid in names}
            found["broker"] = sum(ran_ns(pid) - before[pid] for pid in names) / messages
            gc.disable()
            import orbitmq.client.consumer.arrow
            ways: dict[str, Callable[[orbitmq.Consumer], int]] = {
                "consumer, objects": lambda consumer: len(consumer.poll_batch(BATCH, timeout=1)),
                "consumer, bytes of objects": lambda consumer: len([*map(bytes, consumer.poll_batch(BATCH, timeout=1))]),
                "consumer, bytes": lambda consumer: len(consumer.poll_bodies(8192, timeout=1)),
                "consumer, Arrow": lambda consumer: consumer.poll_arrow(65536, timeout=1).num_rows,
            }
            for name, read in ways.items():
                with broker.consumer(None, ["t"], start="earliest") as consumer:
                    count, own = 0, time.process_time_ns()
                    while count < messages:
                        count += read(consumer)
                    found[name] = (time.process_time_ns() - own) / count
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description="Processor time a message, in ns: the median of the runs, and the least.")
    arguments.add_argument("--runs", type=int, default=5, help="of each checkout, in turns (5)")
    arguments.add_argument("--size", type=int, default=100, help="of a body, in bytes (100)")
    arguments.add_argument(
        "--placement", action="append", default=[], help="the broker's setting; if it is given again, a column for each"
    )
    arguments.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("checkouts", nargs="*", type=Path, default=[Path.cwd()])
    given = arguments.parse_args()
    if given.once:
        print(json.dumps(once(given.size, "".join(given.placement))))
        return

    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    placements = given.placement or [""]
    runs: dict[tuple[Path, str], list[dict[str, float]]] = {
        (checkout, placement): [] for checkout in given.checkouts for placement in placements
    }
    for checkout, placement in track(list(runs) * given.runs, "measuring", console=Console(stderr=True)):
        command = [str(checkout / ".venv" / "bin" / "python"), __file__, "--once", "--size", str(given.size)]
        command += ["--placement", placement] if placement else []
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, check=True)
        runs[checkout, placement].append(json.loads(done.stdout))
    table = Table("ns a message, median (least)", *(" ".join(map(str, column)).strip() for column in runs))
    for name in dict.fromkeys(name for each in runs.values() for run in each for name in run):
        values = [[run[name] for run in each if name in run] for each in runs.values()]
        table.add_row(name, *(f"{statistics.median(each):.0f} ({min(each):.0f})" if each else "" for each in values))
    Console().print(table)


if __name__ == "__main__":
    main()
