"""A consumer's patience with an absent broker: `wait` seconds from when it was found absent, counted over all calls. Without
patience (0) the caller gets the end of the broker as an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from orbitmq.client.connection.bell import Bell
from orbitmq.client.connection.session import ConsumerOpener, PatientOpener, SessionHandle
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Closed


class Patience:
    """True if there is patience, which needs a PatientOpener. open_session: opens one, as an attempt of `outlast`."""

    def __init__(self, opener: ConsumerOpener, wait: float) -> None:
        self._patient = cast("PatientOpener", opener)
        self._wait = wait
        self._since: float | None = None  # when the broker was found absent
        self._bell = Bell()
        self.open_session: Callable[..., SessionHandle] = opener.open_session if wait <= 0 else self._patient.open_session_now

    def __bool__(self) -> bool:
        return self._wait > 0

    def outlast(self, attempt: Callable[[], Any], deadline: float | None, look: Callable[[], None]) -> bool:
        """Runs `attempt` until it finds a broker. False: the deadline (by time.monotonic) came first.

        look: raises what ends the wait, after a call of `ring`. Raises: what `look` or `attempt` raises; BrokerNotRunning: the
            broker was absent for too long.
        """
        if not self:
            attempt()
            return True
        now = time.monotonic()
        since = self._since = now if self._since is None else self._since
        while True:
            bell = self._bell = Bell()
            look()
            try:
                left = since + self._wait - now
                self._patient.outlast(attempt, left if deadline is None else min(left, deadline - now), bell, starting=0.0)
                self._since = None
                return True
            except Closed:
                if not bell.rung:
                    raise
            except (BrokerNotRunning, BrokerStopped):
                if deadline is not None and deadline < since + self._wait:
                    return False
                self._since = None
                raise
            now = time.monotonic()

    def ring(self) -> None:
        """Makes a wait that is under way call `look` at once."""
        self._bell.ring()
