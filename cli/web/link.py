"""The console's connection to its broker: one client for all requests, made when it is first needed, so that the console may
run before the broker does; and the looks at the broker, which all pages share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq.cli.looks import Between, Look
from orbitmq.client.admin.status import GroupStatus
from orbitmq.client.client import Client
from orbitmq.errors import OrbitError

FRESH_S = 0.8  # a look that is not older serves all who ask
RATES_S = 15.0  # rates over a longer time would say nothing about now
POSITIONS = ("wrote", "flushed", "reput")


class Link:
    """Many threads use it."""

    def __init__(
        self, name: str | None, store: Path | None, timeout: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._store, self._timeout, self._clock = name, store, timeout, clock
        self._making, self._looking = threading.Lock(), threading.Lock()
        self._client: Client | None = None
        self._before: Look | None = None
        self._now: Look | None = None

    @property
    def client(self) -> Client:
        """Raises: BrokerNotRunning."""
        with self._making:
            if self._client is None:
                self._client = orbitmq.connect(self._name, store=self._store, timeout=self._timeout)
            return self._client

    def look(self) -> tuple[Look, Between | None]:
        """The broker as it is, and what has happened since the look before; None: there is none to compare with.

        Raises: BrokerNotRunning, BrokerStopped, TimedOut.
        """
        client = self.client
        with self._looking:
            if self._now is None or self._clock() - self._now.at >= FRESH_S:
                self._take(Look(client.status(), self._clock()))
            assert self._now is not None
            return self._now, Between(self._before, self._now) if self._before else None

    def _take(self, look: Look) -> None:
        last = self._now
        comparable = (
            last is not None
            and look.at - last.at <= RATES_S
            and last.status.generation == look.status.generation
        )
        self._before, self._now = last if comparable else None, look

    def close(self) -> None:
        with self._making, suppress(OrbitError):
            if self._client is not None:
                self._client.close()
            self._client = None


def as_json(now: Look, between: Between | None) -> dict[str, Any]:
    """What `orbitmq status --json` shows, and rates: per second, by name; None if they are not known yet."""
    health = now.status.health
    return {
        **asdict(now.status),
        "health": {"state": health.state, "reasons": list(health.reasons)},
        "rates": None if between is None else _rates(between),
    }


def _rates(between: Between) -> dict[str, dict[str, float]]:
    status = between.now.status
    before = {each.name: each for each in between.before.status.topics}
    return {
        "topics": {each.name: between.of_topic(each.name) for each in status.topics if each.name in before},
        "groups": {each.name: between.of_group(each.name) for each in status.groups},
        "positions": {name: between.of_position(name) for name in POSITIONS},
    }


def group_json(group: GroupStatus) -> dict[str, Any]:
    """A group with what only a question for it alone knows."""
    return {**asdict(group), "held_up": list(group.held_up)}
