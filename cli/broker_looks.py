"""Looks at a broker that comes and goes, for a process that outlives it and answers many who ask at once."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orbitmq
from orbitmq.client.admin.health import DEGRADED, STOPPED, Health
from orbitmq.client.admin.metrics import Metric, look, metrics_of_health
from orbitmq.client.client import Client
from orbitmq.errors import BrokerNotRunning, BrokerStopped, OrbitError, TimedOut

TIMEOUT_S = 3.0  # for an answer of the coordinator; Prometheus gives up after 10 s


@dataclass(frozen=True, slots=True)
class Seen:
    health: Health
    metrics: tuple[Metric, ...]


class BrokerLooks:
    """Many threads use it. One look at a time is under way. A thread that comes in its middle waits for the next look, and all
    waiting threads share that look. So a broker that does not answer holds up a thread for two looks at most."""

    def __init__(self, name: str | None, store: Path | None, timeout: float = TIMEOUT_S) -> None:
        self._name, self._store, self._timeout = name, store, timeout
        self._client: Client | None = None
        self._state = threading.Condition()
        self._looking = False
        self._begun = 0  # looks
        self._ended: tuple[int, Seen | OrbitError] = (0, Seen(Health(STOPPED), ()))

    def look(self) -> Seen:
        """A look that began after this call. Raises: OrbitError: nobody can say whether the broker runs."""
        with self._state:
            wanted = self._begun + 1
            while self._looking and self._ended[0] < wanted:
                self._state.wait()
            found = self._ended[1] if self._ended[0] >= wanted else None
            if found is None:
                self._looking, self._begun = True, wanted
        if found is None:
            found = self._shared(wanted)
        if isinstance(found, OrbitError):
            raise found
        return found

    def _shared(self, number: int) -> Seen | OrbitError:
        found: Seen | OrbitError = OrbitError("could not look at the broker: the look failed")
        try:
            found = self._look()
        except OrbitError as error:
            found = error
        finally:
            with self._state:
                self._looking, self._ended = False, (number, found)
                self._state.notify_all()
        return found

    def _look(self) -> Seen:
        try:
            if self._client is None:
                self._client = orbitmq.connect(self._name, store=self._store, timeout=self._timeout)
            health, found = look(self._client)
        except (BrokerNotRunning, BrokerStopped) as error:
            self._drop()  # and with it the memory of the tree that is gone
            return _of_health(Health(STOPPED, (error.message,), running=False))
        except TimedOut as error:  # clients that are connected go on, and no other one can come
            return _of_health(Health(DEGRADED, (error.message,), silent=("coordinator",)))
        return Seen(health, tuple(found))

    def _drop(self) -> None:
        with suppress(OrbitError):
            if self._client is not None:
                self._client.close()
        self._client = None


def _of_health(health: Health) -> Seen:
    return Seen(health, tuple(metrics_of_health(health)))
