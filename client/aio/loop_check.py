"""Check functions of asyncio programs: the checker's thread has their event loop call them, and waits."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from orbitmq.client.transaction.check_function import Check, CheckAnswer, callable_check

if TYPE_CHECKING:
    from orbitmq.client.transaction.open_transactions import OpenTransaction

LOOK_S = 0.1  # between two looks whether there is still a loop


def called_in(loop: asyncio.AbstractEventLoop, check: Check | None) -> Check | None:
    """For a thread. Without a loop that runs, the answer is that it is not known. Raises: SettingError: it cannot be called."""
    if check is None:
        return None
    callable_check(check)
    given = check

    async def call(transaction: OpenTransaction) -> Any:
        answer = given(transaction)
        return await answer if inspect.isawaitable(answer) else answer

    def ask(transaction: OpenTransaction) -> CheckAnswer:
        called = call(transaction)
        try:
            future = asyncio.run_coroutine_threadsafe(called, loop)
        except RuntimeError:  # it is closed
            called.close()
            return None
        while True:
            try:
                answer: CheckAnswer = future.result(LOOK_S)
                return answer
            except TimeoutError:
                if future.done():
                    raise  # the function's own
                if loop.is_closed():
                    return None
            except CancelledError:
                return None

    return ask
