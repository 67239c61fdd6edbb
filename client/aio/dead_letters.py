"""client/dead_letter/dead_letters.py for asyncio: the same methods, awaitable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from orbitmq.client.aio.aside import aside
from orbitmq.client.dead_letter.dead_letters import DeadLetters
from orbitmq.client.parameters import spelled
from orbitmq.client.unclosed import Shown, words_of

if TYPE_CHECKING:
    from datetime import datetime

    from orbitmq.client.dead_letter.dead_letter import DeadLetter
    from orbitmq.client.dead_letter.dead_letters import Letters
    from orbitmq.client.several import Several


@spelled
class AsyncDeadLetters(Shown):
    """Made by `AsyncClient.dead_letters()`."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters
        self.group = letters.group
        self.topic = letters.topic

    async def __aiter__(self) -> AsyncIterator[DeadLetter]:
        """Those that were not sent again, oldest first."""
        for letter in await self.list():
            yield letter

    async def list(self, *, redriven: bool | None = False, most: int | None = None) -> Letters:
        """See DeadLetters.list."""
        return await aside(lambda: self._letters.list(redriven=redriven, most=most), f"list the dead letters of {self.group!r}")

    async def letter(self, offset: int) -> DeadLetter:
        """See DeadLetters.letter."""
        return await aside(lambda: self._letters.letter(offset), f"look at dead letter {offset} of {self.group!r}")

    async def redrive(self, offsets: Several[int] | None = None, *, most: int | None = None) -> Letters:
        """See DeadLetters.redrive. If the task is cancelled, a thread does the rest."""
        return await aside(lambda: self._letters.redrive(offsets, most=most), f"redrive the dead letters of {self.group!r}")

    async def purge(self, to: str | int | datetime = "latest", *, dry_run: bool = False) -> int:
        """See DeadLetters.purge."""
        return await aside(lambda: self._letters.purge(to, dry_run=dry_run), f"purge the dead letters of {self.group!r}")

    def _words(self) -> str:
        return words_of(self._letters)
