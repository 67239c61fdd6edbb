"""A transaction for asyncio programs: the methods of `Transaction`, awaitable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Self

from orbitmq.client.aio.aside import aside
from orbitmq.client.parameters import spelled
from orbitmq.client.receipt import Receipt
from orbitmq.client.transaction.transaction import State, Transaction
from orbitmq.errors import UsageError
from orbitmq.shm.durability import Durability


@spelled
class AsyncTransaction:
    """See Transaction. Awaiting it, or entering it with `async with`, stores the half message."""

    def __init__(self, begin: Callable[[], Awaitable[Transaction]]) -> None:
        self._begin = begin
        self._begun: Transaction | None = None

    async def _ready(self) -> Self:
        if self._begun is None:
            self._begun = await self._begin()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._ready().__await__()

    @property
    def _transaction(self) -> Transaction:
        if self._begun is None:
            raise UsageError("could not use a transaction that has not begun: await it, or enter it with `async with`")
        return self._begun

    @property
    def id(self) -> str:
        """See Transaction."""
        return self._transaction.id

    @property
    def topic(self) -> str:
        """See Transaction."""
        return self._transaction.topic

    @property
    def half(self) -> Receipt:
        """See Transaction."""
        return self._transaction.half

    @property
    def state(self) -> State:
        """See Transaction."""
        return self._transaction.state

    @property
    def receipt(self) -> Receipt | None:
        """See Transaction."""
        return self._transaction.receipt

    async def commit(self, *, durability: Durability | None = None, timeout: float | None = None) -> Receipt:
        """Sends the message; see Transaction.commit. If the task is cancelled meanwhile, the commit may happen or not."""
        begun = self._transaction
        return await aside(lambda: begun.commit(durability=durability, timeout=timeout), "commit a transaction")

    async def rollback(self, *, durability: Durability | None = None, timeout: float | None = None) -> None:
        """Ends the transaction without sending the message; see Transaction.rollback."""
        begun = self._transaction
        await aside(lambda: begun.rollback(durability=durability, timeout=timeout), "roll back a transaction")

    async def __aenter__(self) -> Self:
        return await self._ready()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun = self._transaction
        await aside(lambda: begun.__exit__(kind, error, trace), "end a transaction")
