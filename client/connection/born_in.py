"""To which process something belongs that a forked child must not end."""

from __future__ import annotations

import os

from orbitmq.errors import UsageError


class BornIn:
    """The process that made it."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def here(self) -> bool:
        """Whether this is that process, and no child that was forked from it."""
        return os.getpid() == self._pid

    def check(self, doing: str, hint: str) -> None:
        """doing: what cannot be done here, as in "commit the transaction 7". Raises: UsageError: this is a forked child."""
        if not self.here():
            text = f"could not {doing}: it belongs to the process {self._pid}, which this one was forked from"
            raise UsageError(text, hint=hint)
