"""Child specs: what the supervisor knows about each actor, as data. The list gives the order of starts; stops go backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from orbitmq.actors import pages
from orbitmq.actors.actor import Actor
from orbitmq.actors.allocator import Allocator
from orbitmq.actors.coordinator import Coordinator
from orbitmq.actors.flush import Flush
from orbitmq.actors.handler import Handler
from orbitmq.actors.notifier import Notifier
from orbitmq.actors.reput import Reput
from orbitmq.actors.tree import Tree
from orbitmq.actors.writer import Writer


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One actor. id names it in `ps` and in status; page is its page in the control block; start makes it, in the child."""

    id: str
    page: int
    start: Callable[[Tree], Actor]
    serves: bool = False  # takes the control socket and the descriptor store


def child_specs(handlers: int) -> list[ChildSpec]:
    """All actors of a tree in the order of starting; stopping goes backwards.

    Each actor comes before those that feed it. So at a stop the actors that take work in end first, and the flush service,
    which makes the work durable, has seen everything that the others did."""
    return [
        ChildSpec("flush", pages.PAGE_FLUSH, Flush),
        ChildSpec("allocator", pages.PAGE_ALLOCATOR, Allocator),
        ChildSpec("reput", pages.PAGE_REPUT, Reput),
        ChildSpec("writer", pages.PAGE_WRITER, Writer),
        *(
            ChildSpec(f"handler {lane}", pages.PAGE_HANDLER + lane, partial(Handler, lane=lane))
            for lane in range(handlers)
        ),
        ChildSpec("notifier", pages.PAGE_NOTIFIER, Notifier),
        ChildSpec("coordinator", pages.PAGE_COORDINATOR, Coordinator, serves=True),
    ]
