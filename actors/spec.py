"""Child specs: what the supervisor knows of each actor, as data. Start and stop orders are those of the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orbitmq.native._core import lib

if TYPE_CHECKING:
    from orbitmq.actors.actor import Actor
    from orbitmq.actors.tree import Tree

PAGE_SUPERVISOR: int = lib.ACTOR_SUPERVISOR
PAGE_REPUT: int = lib.ACTOR_REPUT
PAGE_WRITER: int = lib.ACTOR_WRITER
PAGE_FLUSH: int = lib.ACTOR_FLUSH
PAGE_NOTIFIER: int = lib.ACTOR_NOTIFIER
PAGE_COORDINATOR: int = lib.ACTOR_COORDINATOR
PAGE_ALLOCATOR: int = lib.ACTOR_ALLOCATOR
PAGE_HANDLER: int = lib.ACTOR_HANDLER


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One actor. id names it in `ps` and in status; page is its page in the control block; start makes it, in the
    child."""

    id: str
    page: int
    start: Callable[[Tree], Actor]
    serves: bool = False  # takes the control socket and the descriptor store


def child_specs(handlers: int) -> list[ChildSpec]:
    """All actors of a tree in starting order; stopping goes backwards.

    Each stands before those that feed it: at a stop whoever takes work in goes first, and whoever makes it durable,
    the flush service, sees everything that the others did."""
    return [
        ChildSpec("flush", PAGE_FLUSH, _flush),
        ChildSpec("allocator", PAGE_ALLOCATOR, _allocator),
        ChildSpec("reput", PAGE_REPUT, _reput),
        ChildSpec("writer", PAGE_WRITER, _writer),
        *(ChildSpec(f"handler {lane}", PAGE_HANDLER + lane, _handler(lane)) for lane in range(handlers)),
        ChildSpec("notifier", PAGE_NOTIFIER, _notifier),
        ChildSpec("coordinator", PAGE_COORDINATOR, _coordinator, serves=True),
    ]


# The supervisor has imported all of these before it forks; the names are looked up late only so that a spec stays data.
def _flush(tree: Tree) -> Actor:
    from orbitmq.actors.flush import Flush

    return Flush(tree)


def _allocator(tree: Tree) -> Actor:
    from orbitmq.actors.allocator import Allocator

    return Allocator(tree)


def _reput(tree: Tree) -> Actor:
    from orbitmq.actors.reput import Reput

    return Reput(tree)


def _writer(tree: Tree) -> Actor:
    from orbitmq.actors.writer import Writer

    return Writer(tree)


def _handler(lane: int) -> Callable[[Tree], Actor]:
    def start(tree: Tree) -> Actor:
        from orbitmq.actors.handler import Handler

        return Handler(tree, lane)

    return start


def _notifier(tree: Tree) -> Actor:
    from orbitmq.actors.notifier import Notifier

    return Notifier(tree)


def _coordinator(tree: Tree) -> Actor:
    from orbitmq.actors.coordinator import Coordinator

    return Coordinator(tree)
