"""Programs with workers, as users write them, for processes of their own: python -m tests.client.worker_programs KIND BROKER
TOPIC FOLDER."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import orbitmq

KIND, BROKER, TOPIC, FOLDER = sys.argv[1:] if sys.argv[0].endswith("worker_programs.py") else ("", "", "", "")


def begin(job: orbitmq.Job) -> None:
    """Says which process works on it, and goes on when it may."""
    note = Path(FOLDER) / f"{job.body.decode()}-{job.delivery}"
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    while job.delivery == 1 and not (Path(FOLDER) / "go").exists():
        os.sched_yield()


def loop(client: orbitmq.Client) -> None:
    with client.worker("g", [TOPIC]) as worker:
        for job in worker:
            begin(job)
    print("stopped", worker.stopped)


def run(client: orbitmq.Client) -> None:
    handle = client.work("g", [TOPIC], concurrency=2)(begin)
    print("worked on", handle.run())


if __name__ == "__main__":
    with orbitmq.connect(BROKER) as client:
        {"loop": loop, "run": run}[KIND](client)
