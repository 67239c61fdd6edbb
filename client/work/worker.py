"""The worker: takes jobs of a group, hands them to a loop or to a handler, and settles them by how that ends.

Threads may share a worker. A job that is not settled when its worker ends comes again, so nothing is lost whatever ends a
program; docs/workers.md says what is promised.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from orbitmq.client.argument import seconds_or_none
from orbitmq.client.parameters import Unknown, made_with, refuse_unknown, spelled
from orbitmq.client.unclosed import Shown, state, warn_unclosed
from orbitmq.client.work.failure import Failure
from orbitmq.client.work.hand import Handler
from orbitmq.client.work.handed import HandOut, Session
from orbitmq.client.work.job import TOO_LATE, Job
from orbitmq.client.work.loop import LoopBody
from orbitmq.client.work.open_jobs import OpenJobs
from orbitmq.client.work.run import Run
from orbitmq.client.work.stop_signals import StopSignals
from orbitmq.client.work.supply import Supply, never
from orbitmq.client.work.worker_settings import WorkerSettings
from orbitmq.errors import Closed, JobLost, OrbitError, SettingError, UsageError
from orbitmq.errors.remedy import hint
from orbitmq.native._types import Loop

Opener = Callable[[WorkerSettings], Session[HandOut]]


@spelled
class Worker(Shown):
    """Made by `Client.worker()`, which documents the settings.

        with client.worker("billing", ["orders"]) as worker:
            for job in worker:
                charge(job.body)

    Leaving the loop's body normally, also with `continue` or `break`, acks the job; an exception nacks it, with a reason, and
    propagates.
    """

    @made_with(WorkerSettings)
    def __init__(self, opener: Opener, *group_and_topics: Any, **settings: Any) -> None:
        asked = WorkerSettings(*group_and_topics, **settings)
        self.settings = asked
        self._session = opener(asked)
        self._made_by = os.getpid()
        self._supply = Supply(self._session, in_hand=asked.in_hand)
        self._jobs = OpenJobs(
            self._session, self._supply, visibility=asked.visibility, extend=asked.extend, timeout=asked.timeout
        )
        self._signals = StopSignals(self._supply.stop, wanted=asked.signals)
        self._left: list[Job] = []  # of loops that were left by `break`
        self._closed = False

    # ---- taking jobs

    def __iter__(self) -> Iterator[Job]:
        """Jobs as they come, each acked when the loop asks for the next one. Ends when the worker is stopped or closed, or was
        `idle`. Raises: BrokerStopped; Closed."""
        body = self._body(lambda: self._one(threading.get_ident()))
        return Loop(body.next_job, body.left)

    def batches(self, most: int = 1000) -> Iterator[list[Job]]:
        """Lists of up to so many jobs, as soon as there is one at least. Leaving the loop's body normally acks those that are
        still open, all at once; an exception nacks them. Ends and raises as iteration does.

        Raises: SettingError: `most` is below 1, or above in_hand.
        """
        self._check_most(most)
        body = self._body(lambda: self._some(most, self.settings.idle))
        return Loop(body.next_jobs, body.left)

    def take(self, most: int = 1, timeout: float | None = None, **unknown: Unknown) -> list[Job]:
        """Up to so many jobs, as soon as there is one at least; none if `timeout` seconds are over (None: waits for ever) or
        the worker is stopped. The program settles them itself: `with job:`, or `job.ack()` and `job.nack()`.

        Raises: SettingError: `most` is below 1, or above in_hand. BrokerStopped; Closed.
        """
        if unknown:
            refuse_unknown(self.take, unknown)
        self._check_most(most)
        return self._some(most, seconds_or_none(timeout, "take jobs"))

    # ---- handlers

    def run(
        self, handler: Handler | Callable[[Job], Awaitable[object]], *, executor: str | None = None, jobs: int | None = None
    ) -> int:
        """Calls the handler with every job, in `concurrency` threads or processes at once; a coroutine function in as many
        tasks of an event loop, which has a thread of its own. A handler that returns acks its job, unless it has settled it;
        one that raises nacks it, and the exception goes to the log `orbitmq`. Returns how many jobs were worked on, when the
        worker is stopped, was `idle`, or after `jobs` jobs.

        executor: "threads" or "processes", instead of the worker's setting.

        Raises: SettingError: the handler cannot be called with a job alone, or not in processes. UsageError: a worker process
            ended before it was ready. BrokerStopped; Closed.
        """
        self._check()
        with self._signals:
            self._supply.at_once = self.settings.concurrency
            run = Run(self._next, self._jobs, handler, executor or self.settings.executor, self.settings.concurrency, jobs)
            try:
                return run.go()
            finally:
                self._rest()

    # ---- the end

    def stop(self) -> None:
        """Ends loops and `run` after the jobs that they work on. What was not begun is given back. Any thread and any signal
        handler may call it."""
        self._supply.stop()

    @property
    def stopped(self) -> bool:
        """True once it was asked to stop, by `stop` or a signal."""
        return self._supply.stopped

    def flush(self, timeout: float | None = None) -> None:
        """Waits until the broker has applied all answers. Those that it has applied survive the death of any process, and a
        power cut may lose those of the last seconds.

        Raises: JobLost: it has refused some since the last flush, because the jobs were not this worker's any more; `ids` says
            which. TimedOut. BrokerStopped.
        """
        self._check()
        refused = self._session.settled(seconds_or_none(timeout, "flush"))
        if refused:
            raise JobLost(
                f"could not settle {len(refused)} jobs: they were not this worker's any more, and come again",
                hint=TOO_LATE,
                ids=[each.message.id for each in refused],
            )

    def close(self, timeout: float | None = 5.0) -> None:
        """Acks the job of a loop that was left by `break`, nacks what was taken and not settled, gives back the rest, and the
        session. Returns when the broker has all that, or after `timeout` seconds. Closing again does nothing."""
        self._end(None, seconds_or_none(timeout, "close a worker"))

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def __enter__(self) -> Self:
        self._check()
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._signals.__exit__(kind, error, traceback)
        if error is None:
            self._end(None, 5.0)
            return
        with suppress(OrbitError):  # the error that ended the block matters more
            self._end(error, 5.0)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warn_unclosed(self, self._made_by)
            self._supply.stop()
            self._jobs.stop(wait=False)  # its thread lets go of the session, which gives itself back

    def _words(self) -> str:
        asked = self.settings
        topics = ", ".join(map(repr, asked.topics))
        return f"of the group {asked.group!r}, topics {topics}, {state(self._closed)}"

    # ---- behind them

    def _body(self, take: Callable[[], list[Job]]) -> LoopBody:
        self._check()
        return LoopBody(take, self._jobs, self._left)

    def _check(self) -> None:
        if self._closed:
            raise Closed("could not use this worker: it is closed", hint="make another one")
        if os.getpid() != self._made_by:
            text = f"could not use this worker: it belongs to the process {self._made_by}, which this one was forked from"
            raise UsageError(text, hint="make one here")

    def _check_most(self, most: int) -> None:
        self._check()
        number = isinstance(most, int) and not isinstance(most, bool)
        if not number or not 1 <= most <= self.settings.in_hand:
            raise SettingError(
                f"could not take {most!r} jobs at once: it is a number from 1 to in_hand, {self.settings.in_hand}",
                hint=hint("raise {in_hand of worker}") if number and most > 1 else None,
                setting="most",
                value=most,
                limit=self.settings.in_hand,
            )

    def _next(self, over: Callable[[], bool]) -> Job | None:
        """The next job, for a handler; None: the worker is to stop, or `over` is true."""
        found = self._one(threading.get_ident(), over)
        return found[0] if found else None

    def _one(self, thread: int, over: Callable[[], bool] = never) -> list[Job]:
        self._check()
        hand_out = self._supply.one(self.settings.idle, over)
        return [] if hand_out is None else self._jobs.begin((hand_out,), thread)

    def _some(self, most: int, idle: float | None) -> list[Job]:
        self._check()
        return self._jobs.begin(self._supply.some(most, idle))

    def _rest(self) -> None:
        with suppress(OrbitError):  # then they come again when their time is over
            self._supply.give_back()

    def _end(self, error: BaseException | None, timeout: float | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._supply.stop()
        if os.getpid() != self._made_by:
            return
        try:
            if error is None:
                self._jobs.ack(self._left)
            for job in self._jobs.all():
                job.fail(error) if error is not None else job.give_up(0.0, Failure("its worker was closed", ""))
            self._supply.give_back()
        finally:
            self._jobs.stop()
            self._session.close(timeout)


class Inside:
    """What an event loop uses of a worker beside its calls; none of this waits, but for `ready` and `end`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.signals = worker._signals

    def body(self) -> LoopBody:
        """Of a new loop."""
        return self._worker._body(list)

    def check_most(self, most: int) -> None:
        """Raises: SettingError."""
        self._worker._check_most(most)

    def at_once(self, jobs: int) -> None:
        """So many are worked on at the same time."""
        self._worker._supply.at_once = jobs

    def waiting(self) -> bool:
        """True if `begin` would give a job."""
        return self._worker._supply.waiting

    def begin(self, most: int) -> list[Job]:
        """The jobs that are there."""
        self._worker._check()
        return self._worker._jobs.begin(self._worker._supply.pop(most))

    def ready(self, most: int, seconds: float) -> bool:
        """Waits so long for jobs at most. False: there is none, or the worker is to stop."""
        self._worker._check()
        return self._worker._supply.ready(most, seconds)

    def interrupt(self) -> None:
        """Ends a wait of `ready`."""
        self._worker._supply.interrupt()

    def rest(self) -> None:
        """Gives back what was not begun."""
        self._worker._rest()

    def end(self, error: BaseException) -> None:
        """See Worker.__exit__."""
        self._worker._end(error, 5.0)
