"""What works on the jobs of one thread: calls a handler, and settles each job by how that ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Protocol

from orbitmq.client.work.job import Job
from orbitmq.errors import SettingError

Handler = Callable[[Job], object]
_logger = logging.getLogger("orbitmq")


def check_handler(handler: object) -> None:
    """Raises: SettingError: it cannot be called with a job as its only argument."""
    if not callable(handler):
        text = f"could not run {handler!r}: it cannot be called"
        raise SettingError(text, hint="give a function that takes a job", setting="handler", value=handler)
    try:  # a decorator may give what it wraps more arguments, so only the outermost function counts
        signature = inspect.signature(handler, follow_wrapped=False)
    except Exception:  # it has none that can be read, or what it says about itself raises something
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise SettingError(
            f"could not run {handler!r:.200}: it cannot take a job as its only argument: {error}",
            hint="give a function that takes one job; functools.partial can give it the rest",
            setting="handler",
            value=handler,
        ) from None


class Hand(Protocol):
    """What does the work of one thread."""

    def do(self, job: Job) -> None:
        """Works on a job, and settles it."""

    def give_up(self) -> bool:
        """The job takes too long. True: `do` returns now; False: its thread is lost."""

    def close(self) -> None: ...


class ThreadHand:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def do(self, job: Job) -> None:
        call(self._handler, job)

    def give_up(self) -> bool:
        return False

    def close(self) -> None:
        pass


def call(handler: Handler, job: Job) -> None:
    """Calls the handler, and settles the job by how that ends."""
    try:
        handler(job)
    except BaseException as error:  # a thread of ours: SystemExit ends only the job
        failed(job, error)
    else:
        job.done()


def failed(job: Job, error: BaseException) -> None:
    """A handler raised this."""
    job.fail(error)
    _logger.error("%r failed", job, exc_info=error)
