"""Check-back: asks the program how transactions of its producer group end that nobody has ended, and ends them so
(docs/transactions.md).

A thread of its own does it. It ends transactions through the session of ends, so no send holds it up (settling.py)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from orbitmq.client.argument import seconds_or_none
from orbitmq.client.connection.connection import Connection
from orbitmq.client.parameters import spelled
from orbitmq.client.transaction.check_function import Check
from orbitmq.client.transaction.due_checks import DueCheck, DueChecks
from orbitmq.client.transaction.open_transactions import OpenTransaction
from orbitmq.client.transaction.settling import COMMIT, GIVE_UP, ROLLBACK, settle
from orbitmq.client.unclosed import Shown, state
from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    Closed,
    OrbitError,
    TransactionSettled,
    UnknownTransaction,
)
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import means
from orbitmq.store.halves import OP_TOPIC

if TYPE_CHECKING:
    from orbitmq.native._types import ProducerBase

AGAIN_S = 0.2  # until the next attempt
CLOSE_S = 5.0  # how long close() waits for a check that is under way
_HOWS = {"commit": COMMIT, "rollback": ROLLBACK}
_UNKNOWN = (None, "unknown")
_logger = logging.getLogger("orbitmq")


@spelled
class TransactionChecker(Shown):
    """Checks transactions of a producer group until it is closed. Made by `Client.check_transactions()`.

    Attributes:
        group: the producer group.
    """

    def __init__(self, connection: Connection, group: str, check: Check | None, ends: Callable[[], ProducerBase]) -> None:
        """check: None: only those with functions of their own (`own`). ends: gives the session by which they end; it raises
        Closed if there is none any more."""
        self.group = group
        self._connection = connection
        self._check = check
        self._ends = ends
        self._own: dict[str, Check] = {}
        self._closed = False
        self._pid = 0
        self._complaint = ""

    @property
    def closed(self) -> bool:
        """True once `close` was called, or its client was closed."""
        return self._closed

    def start(self) -> None:
        """Begins, also in a forked child, which has no thread of its parent's. Raises: NoMeans: there is no thread."""
        if self._closed or self._pid == os.getpid():
            return
        if self._pid:
            self._own = {}  # those are the parent's, which answers for them
        self._pid = os.getpid()
        self._over = threading.Event()
        due = DueChecks(self._connection, self._wants, self._over.is_set)
        self._thread = threading.Thread(target=self._run, args=(due,), name="orbitmq-checks", daemon=True)
        with means("check transactions"):
            self._thread.start()

    def add(self, id: str, check: Check) -> None:
        """A transaction that is about to begin, with a function of its own."""
        self.start()
        self._own[id] = check

    def forget(self, id: str) -> None:
        """It has ended."""
        self._own.pop(id, None)

    def close(self) -> None:
        """Ends the checks; waits for one that is under way, 5 s at most. Closing again does nothing."""
        self.leave()
        if self._pid == os.getpid() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    def leave(self) -> None:
        """The same without waiting."""
        self._closed = True
        if self._pid == os.getpid():
            self._over.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is closed, for so many seconds at most. Returns whether it is."""
        return self._over.wait(seconds_or_none(timeout, "wait for a checker"))

    def _wants(self, transaction: OpenTransaction) -> bool:
        return transaction.id in self._own or (self._check is not None and transaction.group == self.group)

    def _run(self, due: DueChecks) -> None:
        while not self._over.is_set():
            try:
                for each in due.take():
                    if self._over.is_set():
                        return
                    self._do(each)
                self._complaint = ""
                self._over.wait(due.pause_s)
            except Closed:
                return self.leave()
            except OrbitError as error:
                self._complain(error)
                self._over.wait(AGAIN_S)

    def _do(self, due: DueCheck) -> None:
        """Raises: Closed."""
        transaction = due.transaction
        how = GIVE_UP if due.gives_up else self._answer(transaction)
        if how is None:
            return
        crash_point("transaction_checker_answered")
        place = transaction.message.offset, transaction.message.physical_offset
        try:
            if due.gives_up:  # a store of RocketMQ's may not have the topic for it yet
                self._connection.ask("prepare_waiting", topic=OP_TOPIC)
            settle(self._ends(), place, how, transaction.id, durability=None, timeout=None)
            crash_point("transaction_checker_ended")
            self.forget(transaction.id)
            if due.gives_up:
                _logger.warning("gave up %s after %d checks", _words(transaction), transaction.checks)
        except (TransactionSettled, UnknownTransaction):
            self.forget(transaction.id)  # somebody else was faster
        except Closed:
            raise
        except OrbitError as error:
            _logger.warning("could not end %s, which is checked again later: %s", _words(transaction), error)

    def _answer(self, transaction: OpenTransaction) -> int | None:
        """What the program says, once more if it says nothing useful. None: not known yet."""
        check = self._own.get(transaction.id) or self._check
        if check is None:
            return None
        try:
            answer = check(transaction)
        except Exception:
            _logger.exception("could not check %s: the function raised", _words(transaction))
            return None
        if isinstance(answer, str) and answer in _HOWS:
            return _HOWS[answer]
        if answer not in _UNKNOWN:
            text = 'could not check %s: the function returned %.200r, which is not "commit", "rollback" or None'
            _logger.error(text, _words(transaction), answer)
        return None

    def _complain(self, error: OrbitError) -> None:
        """Once for each. A broker that is absent comes back, or it is not for us to say."""
        if not isinstance(error, BrokerNotRunning | BrokerStopped) and str(error) != self._complaint:
            self._complaint = str(error)
            _logger.warning("cannot check transactions of the producer group %r now: %s", self.group, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _words(self) -> str:
        return f"of the producer group {self.group!r}, {state(self._closed)}"


def _words(transaction: OpenTransaction) -> str:
    return f"the transaction {transaction.id} of topic {transaction.topic!r}"
