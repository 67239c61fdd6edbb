"""Handlers that processes of workers can import."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from orbitmq.client.job import Job
from orbitmq.client.work_function import Decorator
from orbitmq.client.worker import Worker


def write_pid(job: Job) -> None:
    Path(job.message.properties["file"]).write_text(f"{os.getpid()} {job.delivery} {job.topic} {job.body.decode()}")


def fail_in_a_process(job: Job) -> None:
    raise ValueError(f"no {job.body.decode()}")


def nack_in_a_process(job: Job) -> None:
    job.nack(delay=7, reason="later")


def extend_in_a_process(job: Job) -> None:
    job.extend(77)
    job.ack()


def die_at_first(job: Job) -> None:
    if job.delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def exit_at_first(job: Job) -> None:
    if job.delivery == 1:
        os._exit(7)


def hang_at_first(job: Job) -> None:
    while job.delivery == 1:
        signal.pause()


async def slept(job: Job) -> None:
    await asyncio.sleep(0)


def hang_after_noting(job: Job) -> None:
    Path(job.message.properties["file"]).write_text(str(os.getpid()))
    while True:
        signal.pause()


def nobody() -> Worker:
    raise AssertionError("a process of a worker makes no worker")


@Decorator(nobody)
def decorated(job: Job) -> None:
    job.nack(delay=7, reason=f"decorated {os.getpid()}")


@Decorator(nobody)
async def decorated_too(job: Job) -> None:
    await asyncio.sleep(0)
    job.nack(delay=7, reason="awaited")
