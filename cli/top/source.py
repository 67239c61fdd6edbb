"""The live view's connection to a broker that comes and goes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import orbitmq
from orbitmq.cli.looks import Look
from orbitmq.cli.top.model import Life, Seen
from orbitmq.cli.web.browse import Asked, Page, page_of
from orbitmq.client.admin.status import ActorStatus
from orbitmq.client.client import Client
from orbitmq.errors import BrokerNotRunning, BrokerStopped, OrbitError
from orbitmq.shm.process_stat import process_stat

TIMEOUT_S = 3.0  # for an answer of the coordinator
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Source:
    """One thread at a time takes looks."""

    def __init__(self, name: str | None, store: Path | None, timeout: float = TIMEOUT_S) -> None:
        self._name, self._store, self._timeout = name, store, timeout
        self._client: Client | None = None

    def look(self) -> Seen:
        """Connects if there is no connection, also to a broker that has come back.

        Raises: OrbitError: BrokerNotRunning, BrokerStopped; TimedOut: the coordinator does not answer."""
        try:
            if self._client is None:
                self._client = orbitmq.connect(self._name, store=self._store, timeout=self._timeout)
            status = self._client.status()
        except (BrokerNotRunning, BrokerStopped):
            self.close()  # and with it the memory of the tree that is gone
            raise
        return Seen(Look(status), busy_of(status.actors))

    def page(self, asked: Asked) -> Page:
        """Messages of a topic. It may be called while a look is under way: each call attaches anew, also to a broker that came
        back. Raises: OrbitError."""
        with orbitmq.connect(self._name, store=self._store, timeout=self._timeout) as client:
            return page_of(client.connection.attachment, asked)

    def close(self) -> None:
        with suppress(OrbitError):
            if self._client is not None:
                self._client.close()
        self._client = None


def busy_of(actors: tuple[ActorStatus, ...]) -> dict[Life, float]:
    """Seconds of processor time by actor, of those that live."""
    found = ((actor, processor_s(actor.pid)) for actor in actors if actor.pid > 0)
    return {(actor.pid, actor.epoch): seconds for actor, seconds in found if seconds is not None}


def processor_s(pid: int) -> float | None:
    """Processor time that a process has used, in user mode and in the kernel. None: it is gone, or cannot be read."""
    with suppress(OSError):
        stat = process_stat(pid)
        return None if stat is None else stat.used_ticks / TICKS_A_SECOND
    return None
