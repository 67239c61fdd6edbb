"""Calls a handler with jobs, in threads of this process. For processes, each thread has one that it feeds (process.py);
for a coroutine function, each waits for a task (tasks.py).

A thread that hangs cannot be ended. Its job is given up after the timeout, and another thread takes its place; should the
handler return after all, the thread ends, and what it returns does not count."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from orbitmq.client.work.failure import Failure
from orbitmq.client.work.hand import Hand, ThreadHand, check_handler
from orbitmq.client.work.job import Job
from orbitmq.client.work.open_jobs import OpenJobs
from orbitmq.client.work.tasks import LoopThread, TaskHand, is_async
from orbitmq.client.work.worker_settings import check_executor
from orbitmq.errors import CorruptRecord
from orbitmq.shm.means import means

_logger = logging.getLogger("orbitmq")
SLICE_S = 0.1  # longest time until a handler of signals runs


class End(NamedTuple):
    """Of a thread: how many jobs it has worked on, and what ended it; None: there was no more to do."""

    done: int
    error: BaseException | None


class Place:
    """One of the threads that work at the same time."""

    def __init__(self, hand: Hand, done: int) -> None:
        self.hand = hand
        self.done = done
        self._tokens = [None]  # one list.pop succeeds: either the thread leaves its place, or another one takes it

    @property
    def kept(self) -> bool:
        """False: another thread has taken it."""
        return bool(self._tokens)

    def leave(self) -> bool:
        """True for the first caller."""
        try:
            self._tokens.pop()
        except IndexError:
            return False
        return True


class Run:
    """next_job: waits for the next one; None: the run is over, or the function that it gets says so."""

    def __init__(
        self,
        next_job: Callable[[Callable[[], bool]], Job | None],
        jobs: OpenJobs,
        handler: Any,
        executor: str,
        concurrency: int,
        limit: int | None,
    ) -> None:
        check_executor(executor)
        check_handler(handler)
        self._next_job = next_job
        self._jobs = jobs
        self._concurrency = concurrency
        self._limit = limit
        self._begun = itertools.count(1)
        self._ends: queue.SimpleQueue[End] = queue.SimpleQueue()
        self._places: dict[int, Place] = {}  # by the thread that has it
        self._over = False
        self._loop: LoopThread | None = None
        self._names = itertools.count(1)
        if executor == "processes":
            from orbitmq.client.work.process import ProcessHand, pickled

            content = pickled(handler)
            self._make: Callable[[], Hand] = lambda: ProcessHand(content)
        elif is_async(handler):
            self._loop = LoopThread()
            loop = self._loop.loop
            self._make = lambda: TaskHand(handler, loop)
        else:
            self._make = lambda: ThreadHand(handler)

    def go(self) -> int:
        """Returns how many jobs were worked on when no thread works any more. Raises what a thread could not take a job for."""
        with self._loop or nullcontext():
            return self._go()

    def _go(self) -> int:
        self._jobs.on_timeout = self._timed_out
        error: BaseException | None = None
        threads = done = 0
        try:
            for _ in range(self._concurrency):
                self._start()
                threads += 1
            while threads:
                try:
                    end = self._ends.get(timeout=SLICE_S)
                except queue.Empty:
                    continue  # handlers of signals run here, and the signal may have come to another thread
                threads -= 1
                done += end.done
                error = error or end.error
                self._over = self._over or error is not None
        except BaseException:
            self._over = True
            for place in list(self._places.values()):
                place.hand.give_up()
            raise
        finally:
            self._jobs.on_timeout = None
        if error is not None:
            raise error
        return done

    def _start(self, done: int = 0) -> None:
        name = f"orbitmq-job-{next(self._names)}"
        with means("start a thread for jobs"):
            threading.Thread(target=self._work, args=(done,), name=name, daemon=True).start()

    def _work(self, done: int) -> None:
        """The body of a thread. done: jobs of the thread whose place it takes."""
        try:
            hand = self._make()
        except BaseException as error:
            self._ends.put(End(done, error))
            return
        place = self._places[threading.get_ident()] = Place(hand, done)
        why: BaseException | None = None
        try:
            while place.kept and (job := self._more()) is not None:
                place.done += 1
                self._do(hand, job)
        except BaseException as error:
            why = error
        if place.leave():
            del self._places[threading.get_ident()]
            hand.close()
            self._ends.put(End(place.done, why))

    def _do(self, hand: Hand, job: Job) -> None:
        try:
            hand.do(job)
        except BaseException as error:  # nobody will work on it here: this thread ends, and with it the run
            if job.state == "open":
                job.give_up(0.0, Failure(f"{type(error).__name__}: {error}", ""))
            raise

    def _more(self) -> Job | None:
        if self._over or (self._limit is not None and next(self._begun) > self._limit):
            return None
        while True:
            try:
                return self._next_job(lambda: self._over)
            except CorruptRecord as error:  # it is handed out again when its time is over; the others need not wait for it
                _logger.error("a message was passed over: %s", error)

    def _timed_out(self, job: Job) -> None:
        """Called by the heartbeat."""
        place = None if job.thread is None else self._places.get(job.thread)
        if place is None or place.hand.give_up() or not place.leave():
            return
        try:
            self._start(place.done)
        except BaseException as error:
            self._ends.put(End(place.done, error))
