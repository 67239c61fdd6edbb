"""Handlers that processes of workers can import."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from orbitmq.client.work.function import Decorator
from orbitmq.client.work.job import Job
from orbitmq.client.work.worker import Worker
from orbitmq.errors import UsageError


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


def fork_and_die_at_first(job: Job) -> None:
    """Leaves a process that lives until nobody can write into the FIFO any more."""
    if job.delivery == 1:
        _leave_behind(job)
        os.kill(os.getpid(), signal.SIGKILL)


def fork_at_first(job: Job) -> None:
    """The same without a death, and notes its number."""
    if "fifo" in job.message.properties:
        _leave_behind(job)
        Path(job.message.properties["file"]).write_text(str(os.getpid()))


def settle_in_a_forked_child(job: Job) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            job.ack()
        except UsageError as error:
            os._exit(0 if "forked" in str(error) else 2)
        finally:
            os._exit(1)
    job.nack(delay=7, reason=f"its code is {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")


def _leave_behind(job: Job) -> None:
    end = os.open(job.message.properties["fifo"], os.O_RDONLY)
    if os.fork() == 0:
        os.read(end, 1)
        os._exit(0)
    os.close(end)


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
