"""Work that an asyncio program leaves to a thread: questions to the broker, and what must wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from orbitmq.errors import NoMeans
from orbitmq.shm.means import means

_Result = TypeVar("_Result")


async def aside(work: Callable[[], _Result], doing: str) -> _Result:
    """What `work` gives, run in a thread of the event loop's. Raises: NoMeans: there is none, and `work` will not run."""
    wanted = True

    def run() -> list[_Result]:
        return [work()] if wanted else []

    try:
        with means(doing):
            (result,) = await asyncio.to_thread(run)
            return result
    except NoMeans:
        # The executor has kept it, and would do it as soon as it has a thread.
        wanted = False
        raise


async def aside_or_here(work: Callable[[], _Result], doing: str) -> _Result:
    """The same for what must be done, even if the event loop waits for it."""
    try:
        return await aside(work, doing)
    except NoMeans:
        return work()
