"""What a client can do about transactions that have not ended, whichever process began them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orbitmq.client.connection.connection import Connection
from orbitmq.client.parameters import spelled
from orbitmq.errors import OrbitError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means

if TYPE_CHECKING:
    from orbitmq.client.producer.producer import Producer
    from orbitmq.client.receipt import Receipt
    from orbitmq.client.transaction.check_function import Check
    from orbitmq.client.transaction.checker import TransactionChecker
    from orbitmq.client.transaction.open_transactions import OpenTransaction

AT_ONCE = 1024  # half messages in one question


@spelled
class TransactionAdministration:
    """A part of Client."""

    _connection: Connection

    def open_transactions(self, group: str | None = None) -> list[OpenTransaction]:
        """The transactions that have begun before this call and not ended, the oldest first (docs/transactions.md).

        Args:
            group: only those of this producer group.

        Raises: CorruptRecord: one of the half messages is damaged. BrokerNotRunning. GroupNameError. TimedOut: the
            broker has just started, and does not know it yet; or reput is behind the log's end, and does not say that it
            cannot go on, as on a full disk: then the list has what is there.
        """
        from orbitmq.client.group_name import check_producer_group

        if group is not None:
            check_producer_group(group)
        with means(doing := "list transactions"):
            from orbitmq.client.transaction.open_transactions import open_transactions, question_about

            attachment = self._connection.caught_up(doing, partly=True)
            if not attachment.wait_halves(limit := self._connection.timeout):
                raise TimedOut(
                    "could not list transactions: the broker's writer has not yet read which of them have ended",
                    hint=hint("look with `orbitmq status` what it does || raise {timeout of connect}"),
                    timeout=limit,
                )
            found = list(open_transactions(attachment, group))
            noted: list[Any] = []
            for begin in range(0, len(found), AT_ONCE):
                halves = [question_about(each.message) for each in found[begin : begin + AT_ONCE]]
                noted += self._connection.ask("noted_checks", halves=halves)
            now_ms = time.time_ns() // 1_000_000
            return [
                replace(each, checks=checks, check_due_ms=now_ms + left_ms)
                for each, (checks, left_ms) in zip(found, noted, strict=True)
            ]

    def commit_transaction(
        self, transaction: OpenTransaction, *, durability: Durability | None = None, timeout: float | None = None
    ) -> Receipt:
        """Ends a transaction, as Transaction.commit does; any process may do it. Arguments and errors: as there."""
        from orbitmq.client.transaction.settling import COMMIT

        stored = self._settle("commit", COMMIT, transaction, durability, timeout)
        return replace(stored, topic=transaction.topic)

    def rollback_transaction(
        self, transaction: OpenTransaction, *, durability: Durability | None = None, timeout: float | None = None
    ) -> None:
        """Ends a transaction, as Transaction.rollback does; any process may do it. Arguments and errors: as there."""
        from orbitmq.client.transaction.settling import ROLLBACK

        self._settle("roll back", ROLLBACK, transaction, durability, timeout)

    def check_transactions(self, group: str, check: Check) -> TransactionChecker:
        """Has a thread ask `check` how each open transaction of this producer group ends, whichever process began it. The
        `check` of a producer is asked in the same way. This call is for a process that has no producer, or only checks
        (docs/transactions.md).

        Args:
            check: gets an OpenTransaction and returns "commit", "rollback", or None for not known yet.

        Returns a context manager; `close()` ends it, and so does the end of the client.

        Raises: GroupNameError, SettingError; NoMeans: there is no thread.
        """
        from orbitmq.client.group_name import check_producer_group
        from orbitmq.client.transaction.check_function import check_function
        from orbitmq.client.transaction.checker import TransactionChecker

        check_producer_group(group)
        check_function(check)
        made = TransactionChecker(self._connection, group, check, self._settler)
        made.start()
        return self._kept(made)

    def _settle(
        self, doing: str, how: int, transaction: OpenTransaction, durability: Durability | None, timeout: float | None
    ) -> Receipt:
        from orbitmq.client.transaction.open_transactions import OpenTransaction
        from orbitmq.client.transaction.settling import settle
        from orbitmq.client.transaction.transaction import reworded

        if not isinstance(transaction, OpenTransaction):
            raise TypeError(f"could not {doing} a transaction: {transaction!r:.100} is not an OpenTransaction")
        half = transaction.message
        try:
            place = half.offset, half.physical_offset
            return settle(self._settler(), place, how, transaction.id, durability=durability, timeout=timeout)
        except OrbitError as error:
            raise reworded(error, doing, transaction.id, transaction.topic) from None

    def _kept(self, made: TransactionChecker) -> TransactionChecker:
        """The client closes it."""
        raise NotImplementedError

    def _settler(self) -> Producer:
        """The session by which transactions end."""
        raise NotImplementedError
