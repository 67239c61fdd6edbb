"""Hands what an embedded broker says to this program's logging: loggers below "orbitmq.broker", one for each process of the
broker, such as "orbitmq.broker.writer".

A program that has configured no logging sees nothing of it: otherwise Python would write it on the error output.
"""

from __future__ import annotations

import atexit
import logging
import os
import select
import threading
import time

from orbitmq.shm.event import Event, Lines, from_record

LOGGER = "orbitmq.broker"
PIECE = 1 << 16
LEAVE_S = 1.0  # longest wait at the program's end for a handler of its logging

logging.getLogger(LOGGER).addHandler(logging.NullHandler())


class BrokerLog:
    """Reads the error output of a supervisor, in a thread that ends with it. broker: its name. writer: the end for the
    supervisor; close it here once it has that.

    If the program ends first, the thread ends before Python shuts logging down: a handler that is closed complains about every
    record. What the broker says after that nobody hears, unless the program still stops it."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._made_by = os.getpid()
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.writer, False)  # a program that hangs must not stop its broker
        os.set_blocking(self._reader, False)
        self._lines = Lines()
        self._left = False
        self._over = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._read, name=f"orbitmq-log-{broker}", daemon=True)
        self._thread.start()
        atexit.register(self._leave)  # runs before logging's own, which was registered when it was imported

    def end(self) -> None:
        """The supervisor is dead. Waits until everything is handed over that the broker said."""
        atexit.unregister(self._leave)
        os.eventfd_write(self._over, 1)
        self._thread.join()
        if self._left:
            self._take()
        os.close(self._over)
        os.close(self._reader)
        for line in self._lines.end():
            self._hand(line)

    def _leave(self) -> None:
        if self._made_by == os.getpid():
            self._left = True
            os.eventfd_write(self._over, 1)
            self._thread.join(LEAVE_S)

    def _read(self) -> None:
        """Until the end of the pipe, or until nothing is left in it and the broker is over: somebody whom another thread has
        forked may still have it open."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        while self._take() and not self._is_over(poll):
            pass

    def _take(self) -> bool:
        """Hands over what is in the pipe. False: it has ended."""
        while True:
            try:
                piece = os.read(self._reader, PIECE)
            except BlockingIOError:
                return True
            if not piece:
                return False
            for line in self._lines.add(piece):
                self._hand(line)

    def _is_over(self, poll: select.poll) -> bool:
        return [descriptor for descriptor, _ in poll.poll()] == [self._over]

    def _hand(self, line: bytes) -> None:
        event = from_record(line)
        if event is None:  # of the supervisor itself: an assertion, or an error of Python's
            event = Event(time.time(), logging.ERROR, "supervisor", 0, line.decode(errors="replace"))
        logger = logging.getLogger(f"{LOGGER}.{event.actor.replace(' ', '-')}")
        if logger.isEnabledFor(event.level):
            logger.handle(self._record(logger.name, event))

    def _record(self, name: str, event: Event) -> logging.LogRecord:
        made = {
            "name": name,
            "levelno": event.level,
            "levelname": logging.getLevelName(event.level),
            "msg": event.message,
            "created": event.at,
            "msecs": event.at * 1000 % 1000,
            "process": event.pid,
            "processName": event.actor,
            "exc_text": event.exception or None,
            "broker": self._broker,
            "actor": event.actor,
            "fields": dict(event.fields),
        }
        return logging.makeLogRecord(made)
