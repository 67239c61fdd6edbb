"""Hands what an embedded broker says to this program's logging: loggers below "orbitmq.broker", one for each process of the
broker, such as "orbitmq.broker.writer".

A program that has configured no logging sees nothing of it: otherwise Python would write it on the error output.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time

from orbitmq.shm.event import Event, Lines, from_record

LOGGER = "orbitmq.broker"
PIECE = 1 << 16

logging.getLogger(LOGGER).addHandler(logging.NullHandler())


class BrokerLog:
    """Reads the error output of a supervisor, in a thread that ends with it. broker: its name. writer: the end for the
    supervisor; close it here once it has that."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.writer, False)  # a program that hangs must not stop its broker
        os.set_blocking(self._reader, False)
        self._over = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._read, name=f"orbitmq-log-{broker}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The supervisor is dead. Waits until everything is handed over that the broker said."""
        os.eventfd_write(self._over, 1)
        self._thread.join()
        os.close(self._over)

    def _read(self) -> None:
        """Until the end of the pipe, or until nothing is left in it and the broker is over: somebody whom another thread has
        forked may still have it open."""
        lines = Lines()
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        with os.fdopen(self._reader, "rb", buffering=0) as pipe:
            while (piece := pipe.read(PIECE)) or (piece is None and not self._is_over(poll)):
                for line in lines.add(piece or b""):
                    self._hand(line)
        for line in lines.end():
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
