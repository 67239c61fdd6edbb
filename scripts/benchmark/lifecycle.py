"""Starting, resuming after a death, and idling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orbitmq
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage, scratch

IDLE_SECONDS = 30


IMPORTED = """
import sys, time
begin = time.process_time_ns()
import orbitmq
bare = time.process_time_ns()
orbitmq.connect, orbitmq.Producer, orbitmq.Consumer
print((bare - begin) / 1e6, (time.process_time_ns() - begin) / 1e6)
"""


def import_ms() -> tuple[Sample, ...]:
    """Processor time of `import orbitmq` in a new interpreter, alone, and with what connects, sends and reads."""
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    return tuple(Sample(float(found)) for found in done.stdout.split())


def start_s() -> tuple[Sample, ...]:
    """From no broker to the first receipt on an empty store."""
    with scratch() as folder:
        begin = time.monotonic()
        with orbitmq.Broker(folder / "store", name=f"bench-start-{os.getpid()}") as broker:
            broker.create_topic("first", queues=1)
            broker.producer().send("first", b"hello")
            return (Sample(time.monotonic() - begin),)


def resume_s(stage: Stage) -> tuple[Sample, ...]:
    """The longest pause between two receipts while each process in turn is killed; some have several actors."""
    topic = stage.topic()
    producer = stage.broker.producer()
    worst = 0.0
    for actor in {each.pid: each for each in stage.broker.status().actors}.values():
        if actor.name == "supervisor":
            continue
        producer.send(topic, b"before")
        os.kill(actor.pid, signal.SIGKILL)
        begin = time.monotonic()
        producer.send(topic, b"after")
        producer.send(topic, b"and again")
        worst = max(worst, time.monotonic() - begin)
        _wait_restarted(stage, actor.name, actor.pid)
    return (Sample(worst),)


def _wait_restarted(stage: Stage, name: str, old: int) -> None:
    while True:
        if any(actor.name == name and actor.pid != old and actor.state == "running" for actor in stage.broker.status().actors):
            return
        os.sched_yield()


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def idle_cpu_percent(stage: Stage) -> tuple[Sample, ...]:
    """CPU of all processes of the broker, percent of one core, with 2 producers and 4 waiting consumers connected."""
    topic = stage.topic()
    clients = [orbitmq.connect(stage.name) for _ in range(6)]
    producers = [client.producer() for client in clients[:2]]
    for producer in producers:
        producer.send(topic, b"once")
    readers = []
    for client in clients[2:]:
        pid = os.fork()
        if pid == 0:
            try:
                consumer = client.consumer(None, topics=[topic], start="latest")
                consumer.poll(timeout=IDLE_SECONDS * 4)
            finally:
                os._exit(0)
        readers.append(pid)
    pids = [actor.pid for actor in stage.broker.status().actors if actor.pid]
    time.sleep(1)
    before = sum(map(_cpu_ticks, pids))
    time.sleep(IDLE_SECONDS)
    ticks = sum(map(_cpu_ticks, pids)) - before
    for pid in readers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for client in clients:
        client.close()
    return (Sample(100.0 * ticks / os.sysconf("SC_CLK_TCK") / IDLE_SECONDS),)


MEASURES = (
    Measure(
        ("import_ms", "import_client_ms"), "ms", import_ms, runs=15, durability="-", broker=False, targets=("< 50", "< 150")
    ),
    Measure(("idle_cpu_percent",), "% of a core", idle_cpu_percent, runs=1, warm=0, durability="-", targets=("< 1",)),
    Measure(("start_s",), "s", start_s, broker=False, targets=("< 1",)),
    Measure(("resume_s",), "s", resume_s, runs=3, warm=0, targets=("< 2",)),
)
