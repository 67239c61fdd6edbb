"""What happens to the jobs of a `for` loop when its body is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from orbitmq.client.work.job import Job
from orbitmq.client.work.open_jobs import OpenJobs
from orbitmq.errors import OrbitError


class LoopBody:
    """take: gives the next jobs, none at the end. left_open: gets the jobs of a loop that was left without an exception, by
    `break` or `return`. They are acked when the worker's next loop begins or its block ends normally, and not at once, because
    `next(iter(worker))` looks the same from here, and its job has only begun."""

    def __init__(self, take: Callable[[], list[Job]], jobs: OpenJobs, left_open: list[Job]) -> None:
        jobs.ack(left_open)
        left_open.clear()
        self._take = take
        self._settler = jobs
        self._left_open = left_open
        self._jobs: tuple[Job, ...] = ()  # the program may change the list that it gets

    def settle(self) -> None:
        """Acks what the body has done."""
        if self._jobs:
            done, self._jobs = self._jobs, ()
            self._settler.ack(done)

    def got(self, jobs: list[Job]) -> list[Job]:
        """The body gets these now."""
        self._jobs = tuple(jobs)
        return jobs

    def next_jobs(self) -> list[Job] | None:
        self.settle()
        return self.got(self._take()) or None

    def next_job(self) -> Job | None:
        found = self.next_jobs()
        return found[0] if found else None

    def left(self, error: BaseException | None) -> None:
        """Called when the interpreter drops the loop, while the error is on its way."""
        jobs, self._jobs = self._jobs, ()
        if error is None:
            self._left_open += jobs
            return
        with suppress(OrbitError):  # the error on its way matters more; the jobs come again when their time is over
            for job in jobs:
                job.fail(error)
