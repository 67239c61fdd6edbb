"""client/transaction/administration.py for asyncio: the same methods, awaitable."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from orbitmq.client.aio.aside import aside, aside_or_here, running_loop
from orbitmq.client.aio.loop_check import called_in
from orbitmq.client.client import Client
from orbitmq.client.parameters import spelled
from orbitmq.client.receipt import Receipt
from orbitmq.client.transaction.check_function import Check
from orbitmq.client.unclosed import Shown, words_of
from orbitmq.shm.durability import Durability

if TYPE_CHECKING:
    from orbitmq.client.transaction.checker import TransactionChecker
    from orbitmq.client.transaction.open_transactions import OpenTransaction


class AsyncTransactionChecker(Shown):
    """See TransactionChecker. Made by `AsyncClient.check_transactions()`."""

    def __init__(self, checker: TransactionChecker) -> None:
        self._checker = checker

    @property
    def group(self) -> str:
        """See TransactionChecker."""
        return self._checker.group

    @property
    def closed(self) -> bool:
        """See TransactionChecker."""
        return self._checker.closed

    async def close(self) -> None:
        """Ends the checks; see TransactionChecker.close."""
        await aside_or_here(self._checker.close, "end the checks of transactions")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _words(self) -> str:
        return words_of(self._checker)


@spelled
class AsyncTransactionAdministration:
    """A part of AsyncClient."""

    _client: Client

    async def open_transactions(self, group: str | None = None) -> list[OpenTransaction]:
        """The transactions that have begun and not ended, the oldest first; see Client.open_transactions."""
        return await aside(lambda: self._client.open_transactions(group), "list transactions")

    async def check_transactions(self, group: str, check: Check) -> AsyncTransactionChecker:
        """Has the event loop call `check`, a function or a coroutine function, for transactions of this producer group that
        nobody has ended; see Client.check_transactions. Returns an async context manager."""
        doing = "check transactions"
        asked = called_in(running_loop(doing), check)
        assert asked is not None
        return AsyncTransactionChecker(await aside(lambda: self._client.check_transactions(group, asked), doing))

    async def commit_transaction(
        self, transaction: OpenTransaction, *, durability: Durability | None = None, timeout: float | None = None
    ) -> Receipt:
        """Ends a transaction; see Client.commit_transaction."""
        return await aside(
            lambda: self._client.commit_transaction(transaction, durability=durability, timeout=timeout), "commit a transaction"
        )

    async def rollback_transaction(
        self, transaction: OpenTransaction, *, durability: Durability | None = None, timeout: float | None = None
    ) -> None:
        """Ends a transaction; see Client.rollback_transaction."""
        await aside(
            lambda: self._client.rollback_transaction(transaction, durability=durability, timeout=timeout),
            "roll back a transaction",
        )
