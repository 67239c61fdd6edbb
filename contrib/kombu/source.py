"""A queue that a connection consumes. A thread waits for its messages, and holds one until it is fetched, so that one
`drain_events` can wait for many queues. What nobody fetches goes back soon: a connection that works on a long task holds up
nobody's messages."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from orbitmq.contrib.kombu.envelope import Payload
from orbitmq.shm.means import lacking, means

STALE_S = 0.25  # what was not fetched after so long goes back
LOOKS = 2  # after that: more may have been on its way


class Arrival(NamedTuple):
    """A message for a consumer. hand_out: by which its source settles it."""

    payload: Payload
    hand_out: Any


class Source(ABC):
    """news: the connection's lock, notified of every arrival. The thread begins with the first `want`."""

    def __init__(self, queue: str, news: threading.Condition) -> None:
        self.queue = queue
        self._news = news
        self._wanted = False
        self._arrived: Arrival | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._doing = f"consume the queue {queue!r}"  # what could not be done, for error messages
        self._looks = 0  # how often the thread still looks whether something came that nobody wants
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        return self._closed

    # ---- with the lock held

    def want(self, wanted: bool) -> None:
        """Whether the thread is to wait for a message. It stops by itself when one has come that nobody fetches."""
        if wanted == self._wanted:
            return
        if wanted:
            self._rouse()
        self._wanted = wanted
        if not wanted:
            self._interrupt()

    def look_again(self) -> None:
        """Something was settled, which makes room for another message. If nobody wants one, the thread gives it back."""
        if not self._wanted and not self._closed and self._thread is not None:
            self._looks = LOOKS
            self._rouse()

    def fetch(self) -> Arrival | None:
        """What has arrived. Raises: what ended the thread; once, because the next `want` starts another one."""
        if self._failure is not None:
            failure, self._failure, self._thread, self._wanted = self._failure, None, None, False
            raise failure
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            self._news.notify_all()
        return arrived

    # ---- without it

    def get(self) -> Arrival | None:
        """The next message if there is one, without waiting for more."""
        with self._news:
            arrived = self.fetch()
        if arrived is None and (arrived := self._get()) is None:
            with self._news:
                self._looks = LOOKS
                self._rouse()
        return arrived

    def close(self) -> None:
        """Ends the thread, if this is not a forked child, which has none."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._thread is not None:
            self._interrupt()
            self._thread.join()

    # ---- what a kind of queue does

    @abstractmethod
    def _take(self) -> Arrival | None:
        """Waits for the next message; None after `_interrupt`. Raises: OrbitError."""

    @abstractmethod
    def _get(self) -> Arrival | None: ...

    @abstractmethod
    def _interrupt(self) -> None:
        """Ends `_take`, or else the next one. Any thread may call it."""

    @abstractmethod
    def _rest(self, arrival: Arrival | None) -> None:
        """Nobody wants more for now, nor this one."""

    # ---- the thread

    def _rouse(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"orbitmq-kombu-{self.queue}", daemon=True)
            with means(self._doing):
                thread.start()
            self._thread = thread
        else:
            self._news.notify_all()

    def _run(self) -> None:
        try:
            while (wanted := self._waits()) is not None:
                arrival = self._take() if wanted else None
                if arrival is None or not self._held(arrival):
                    self._rest(arrival)
                    if wanted:
                        self._looks = LOOKS
        except BaseException as error:
            with self._news:
                self._failure = lacking(error, self._doing)
                self._news.notify_all()

    def _waits(self) -> bool | None:
        """True: a message is wanted. False: none is, and it is time to look for one that came all the same. None: the end."""
        with self._news:
            self._news.wait_for(lambda: self._closed or self._wanted or self._looks)
            if not self._closed and not self._wanted:
                self._looks -= 1
                self._news.wait_for(lambda: self._closed or self._wanted, STALE_S)
            return None if self._closed else self._wanted

    def _held(self, arrival: Arrival) -> bool:
        """Holds it until it is fetched. False: it was not; then nothing is wanted until somebody says so."""
        with self._news:
            self._arrived = arrival
            self._news.notify_all()
            stale = time.monotonic() + STALE_S
            while self._arrived is arrival and not self._closed and (left := stale - time.monotonic()) > 0:
                self._news.wait(left)
            if self._arrived is not arrival:
                return True
            self._arrived = None
            self._wanted = False
            return False
