"""The jobs that a worker has begun: settles each once, extends those that take long, and gives up those that hang."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from orbitmq.client.work.failure import Failure, stuck
from orbitmq.client.work.handed import HandOut, Session
from orbitmq.client.work.heartbeat import Heartbeat
from orbitmq.client.work.job import Job, State
from orbitmq.client.work.supply import Supply
from orbitmq.errors import OrbitError, UsageError

LOOKS = 4  # in each visibility time, and in each timeout; a job is extended when less than half of the visibility is left
_What = TypeVar("_What")
_logger = logging.getLogger("orbitmq")


class OpenJobs:
    """A Settler. clock: time.monotonic, but for tests. on_timeout: called, in the heartbeat's thread, with each job that was
    given up."""

    def __init__(
        self,
        session: Session[HandOut],
        supply: Supply,
        *,
        visibility: float,
        extend: bool,
        timeout: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._supply = supply
        self._visibility = visibility
        self._extend = extend
        self._timeout = timeout
        self._clock = clock
        self._made_by = os.getpid()
        # each with the time when it was begun; whoever takes a job out of it settles the job
        self._open: dict[Job, float] = {}
        self._heartbeat = Heartbeat(self.look)
        self.on_timeout: Callable[[Job], None] | None = None

    def begin(self, hand_outs: Iterable[HandOut], thread: int | None = None) -> list[Job]:
        """thread: the identifier of the one that works on them."""
        now = self._clock()
        jobs = []
        for each in hand_outs:
            job = Job(each, self)
            job.thread = thread
            self._open[job] = now
            jobs.append(job)
        if self._heartbeat.resting:
            self._heartbeat.wake()
        return jobs

    def all(self) -> list[Job]:
        """Those that are open now."""
        return list(self._open.copy())

    def ack(self, jobs: Sequence[Job]) -> int:
        self._check_process()
        done = [job for job in jobs if self._take_out(job, "acked")]
        if done:
            self._answer(self._session.ack, [job.hand_out for job in done], done)
        return len(done)

    def nack(self, job: Job, delay: float | None, failure: Failure) -> bool:
        self._check_process()
        if not self._take_out(job, "nacked"):
            return False
        nack = self._session.nack
        self._answer(lambda hand_out: nack(hand_out, delay, failure.reason, failure.digest), job.hand_out, (job,))
        return True

    def give_back(self, job: Job) -> None:
        if self._take_out(job, "given back"):
            self._answer(self._session.give_back, (job.hand_out,), (job,))

    def extend(self, job: Job, seconds: float) -> bool:
        self._check_process()
        if job not in self._open:
            return False
        self._session.extend(job.hand_out, seconds)
        return True

    def look(self, now: float) -> float | None:
        """Does what is due. Returns the seconds until something may be due; None: nothing is begun, nor waits to be."""
        waits = self._supply.tidy(now)
        period = min(self._visibility, self._timeout or self._visibility) / LOOKS
        for job, begun in self._open.copy().items():
            if self._timeout is not None and now - begun >= self._timeout:
                self._give_up(job, self._timeout)
                continue
            waits = period if waits is None else min(waits, period)
            if self._timeout is not None:
                waits = min(waits, begun + self._timeout - now)
            if self._extend and job.deadline - now < self._visibility / 2:
                self._try_to_extend(job)
        return waits

    def stop(self, *, wait: bool = True) -> None:
        """Ends the heartbeat; open jobs stay open. wait: until its thread has ended."""
        self._heartbeat.stop(wait=wait)

    def _check_process(self) -> None:
        """Raises: UsageError: this is a forked child, whose answers nobody hears."""
        if os.getpid() != self._made_by:
            text = f"could not settle a job: its worker belongs to the process {self._made_by}, which this one was forked from"
            raise UsageError(text, hint="settle it there, or make a worker here")

    def _take_out(self, job: Job, state: State) -> bool:
        begun = self._open.pop(job, None)
        if begun is None:
            return False
        job.state = state
        self._supply.took(self._clock() - begun)
        return True

    def _answer(self, send: Callable[[_What], None], what: _What, jobs: Sequence[Job]) -> None:
        try:
            send(what)
        except BaseException:  # after a Ctrl-C too, nobody can say any more whether the answer was sent
            for job in jobs:
                job.state = "lost"
            raise

    def _try_to_extend(self, job: Job) -> None:
        try:
            self._session.extend(job.hand_out, self._visibility)
        except OrbitError as error:  # the loop or handler finds out when it settles the job
            _logger.warning("could not extend %r: %s", job, error)

    def _give_up(self, job: Job, timeout: float) -> None:
        failure = stuck(job.thread, timeout)
        try:
            if not self.nack(job, None, failure):
                return
            job.state = "lost"
            _logger.warning("gave up %r: it was not done after %g s, and comes again", job, timeout)
        except OrbitError as error:
            _logger.warning("could not give up %r: %s", job, error)
        if self.on_timeout is not None:
            self.on_timeout(job)
