"""client/transaction_administration.py for asyncio: the same methods, awaitable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbitmq.client.aside import aside
from orbitmq.client.client import Client
from orbitmq.client.receipt import Receipt
from orbitmq.shm.durability import Durability

if TYPE_CHECKING:
    from orbitmq.client.open_transactions import OpenTransaction


class AsyncTransactionAdministration:
    """A part of AsyncClient."""

    _client: Client

    async def open_transactions(self, group: str | None = None) -> list[OpenTransaction]:
        """The transactions that have begun and not ended, the oldest first; see Client.open_transactions."""
        return await aside(lambda: self._client.open_transactions(group), "list transactions")

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
