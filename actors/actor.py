"""An actor: one job, done in bounded steps, and the loop around it that every process of the tree runs."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from orbitmq.actors import signals
from orbitmq.actors.tree import Tree
from orbitmq.errors import BrokerError
from orbitmq.errors.root import Common
from orbitmq.native._core import lib
from orbitmq.shm.counters import ActorState

RUN_MS = 1000  # longest time that a loop in C may run without looking at Python's signals and orders
SPIN_RUN_MS = 20  # the same for one that hardly sleeps: a signal interrupts only a sleep


class ActorError(BrokerError):
    """An actor's loop in C gave up. `actor` and `errno` say which one and why."""

    def __init__(
        self, message: str, *, actor: str | None = None, errno: int | None = None, **common: Unpack[Common]
    ) -> None:
        super().__init__(message, **common)
        self.actor = actor
        self.errno = errno


class Actor(ABC):
    """One process of the tree. It is made in its own process; the supervisor never holds one."""

    in_core = False  # its loop is in C

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @abstractmethod
    def run(self, limit_ms: int) -> None:
        """Works and sleeps for at most limit_ms, or until a signal comes. Raises what the actor cannot survive."""

    @abstractmethod
    def step(self) -> int:
        """One bounded step. Returns how much it did; 0 if there is nothing left to do."""

    @abstractmethod
    def close(self) -> None:
        """Releases what the actor holds. The log and the tables stay as they are."""

    def drain(self) -> None:
        """Finishes what is left when the tree stops. The actors that feed this one have stopped already."""
        while self.step():
            pass


class CoreActor(Actor):
    """An actor whose loop is one call of C: <kind>_run and <kind>_step over a handle."""

    kind: str
    in_core = True

    def __init__(self, tree: Tree, page: int, *arguments: int) -> None:
        super().__init__(tree)
        self.page = page
        self.core: Any = tree.attach(page)
        self._run: Callable[[Any, int], int] = getattr(lib, f"{self.kind}_run")
        self._step: Callable[..., int] = getattr(lib, f"{self.kind}_step")
        self.handle: Any = getattr(lib, f"{self.kind}_open")(self.core, *arguments)
        if not self.handle:
            number = tree.open_errno()
            root = tree.settings.layout.root
            raise ActorError(f"cannot open the {self.kind} of {root}: {os.strerror(number)}", actor=self.kind, errno=number)

    def run(self, limit_ms: int) -> None:
        result = self._run(self.handle, limit_ms)
        if result == lib.RUN_NEED:
            self.need()
        elif result == lib.RUN_FAILED:
            self.fail()

    def need(self) -> None:
        """Does what the loop in C asks Python for. Raises: ActorError: this actor's loop never asks for that."""
        raise ActorError(f"the {self.kind} asked for something that it has no handler for", actor=self.kind, errno=0)

    def fail(self) -> None:
        """Raises: ActorError: always, with the errno that the loop left in its page."""
        number = self.tree.page_error(self.page)
        raise ActorError(f"the {self.kind} failed: {os.strerror(number)}", actor=self.kind, errno=number)

    def step(self) -> int:
        return self._step(self.handle)

    def close(self) -> None:
        getattr(lib, f"{self.kind}_close")(self.handle)
        lib.attachment_close(self.core)


class Stopping:
    """Becomes true when the supervisor sends SIGTERM. Ctrl-C in a terminal reaches the whole process group; only the supervisor
    acts on it."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signals.hear()

    def __bool__(self) -> bool:
        return self._asked

    def _ask(self, number: int, frame: object) -> None:
        self._asked = True


def live(actor: Actor, pages: Iterable[int], stopping: Stopping, running: Callable[[], None]) -> None:
    """An actor's life from its start to its clean end."""
    tree = actor.tree
    if actor.in_core:
        lib.process_shorten_slice()  # if it is refused, a busy machine is slower
    tree.set_states(pages, ActorState.RUNNING)
    running()
    limit_ms = RUN_MS if tree.settings.spin_us <= 1000 else SPIN_RUN_MS
    while not stopping:
        actor.run(limit_ms)
    tree.set_states(pages, ActorState.STOPPING)
    actor.drain()
    actor.close()
    tree.set_states(pages, ActorState.STOPPED)
