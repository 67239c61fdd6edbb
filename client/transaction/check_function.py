"""The functions that a program gives for checks of its transactions (docs/transactions.md)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from orbitmq.errors import SettingError

if TYPE_CHECKING:
    from orbitmq.client.transaction.open_transactions import OpenTransaction

CheckAnswer: TypeAlias = Literal["commit", "rollback", "unknown"] | None
# In asyncio programs it may be a coroutine function.
Check: TypeAlias = "Callable[[OpenTransaction], CheckAnswer | Awaitable[CheckAnswer]]"


def callable_check(check: object) -> None:
    """Raises: SettingError: it cannot be called."""
    if not callable(check):
        hint = 'give a function that takes an open transaction and returns "commit", "rollback" or None'
        text = f"could not check transactions with {check!r:.200}: it cannot be called"
        raise SettingError(text, hint=hint, setting="check", value=check)


def check_function(check: object) -> None:
    """For a thread. Raises: SettingError: it cannot be called, or is a coroutine function."""
    callable_check(check)
    if inspect.iscoroutinefunction(check):
        hint = "use orbitmq.aio, or give a plain function"
        text = f"could not check transactions with {check!r:.200}: it is a coroutine function, and a thread calls it"
        raise SettingError(text, hint=hint, setting="check", value=check)
