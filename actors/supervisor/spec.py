"""Child specs: what the supervisor knows about each actor, as data. The list gives the order of starts; stops go backwards.

The supervisor imports the modules of all actors with this one. So a child imports nothing after its fork, and a restart does
not depend on what has become of the files since. Modules of the gateways, a third of all, are imported only for trees that
have gateways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from orbitmq.actors import pages
from orbitmq.actors.actor import Actor
from orbitmq.actors.allocator import Allocator
from orbitmq.actors.coordinator.coordinator import Coordinator
from orbitmq.actors.dispatcher import Dispatcher
from orbitmq.actors.flush import Flush
from orbitmq.actors.handler import Handler
from orbitmq.actors.notifier import Notifier
from orbitmq.actors.reput import Reput
from orbitmq.actors.scheduler import Scheduler
from orbitmq.actors.stages import Stages
from orbitmq.actors.tree import Tree
from orbitmq.actors.writer import Writer


class ChildSpec(NamedTuple):
    """One process. id names it in `ps`. roles: what it does, by the names that status shows, each with its page in the control
    block. start makes its actor, in the child."""

    id: str
    roles: tuple[tuple[str, int], ...]
    start: Callable[[Tree], Actor]
    serves: bool = False  # takes the control socket and the descriptor store
    gateway: int | None = None  # which of the gateways; 0 is the lead

    @property
    def pages(self) -> list[int]:
        return [page for _, page in self.roles]


def child_specs(handlers: int, *, together: bool, gateways: int = 0) -> list[ChildSpec]:
    """All processes of a tree in the order of starting; stopping goes backwards. together: one process for the handler, the
    writer and reput. gateways: processes to which RocketMQ's clients connect.

    Each actor comes before those that feed it. So at a stop the actors that take work in end first, and the flush service,
    which makes the work durable, has seen everything that the others did."""
    reput, writer = ("reput", pages.PAGE_REPUT), ("writer", pages.PAGE_WRITER)
    lanes = [(f"handler {lane}", pages.PAGE_HANDLER + lane) for lane in range(handlers)]
    alone = [
        _alone(*reput, Reput),
        _alone(*writer, Writer),
        *(_alone(*role, partial(Handler, lane=lane)) for lane, role in enumerate(lanes)),
    ]
    return [
        _alone("flush", pages.PAGE_FLUSH, Flush),
        _alone("allocator", pages.PAGE_ALLOCATOR, Allocator),
        *([ChildSpec("stages", (reput, writer, *lanes), Stages)] if together else alone),
        _alone("scheduler", pages.PAGE_SCHEDULER, Scheduler),
        _alone("notifier", pages.PAGE_NOTIFIER, Notifier),
        _alone("dispatcher", pages.PAGE_DISPATCHER, Dispatcher),
        _alone("coordinator", pages.PAGE_COORDINATOR, Coordinator, serves=True),
        *map(_gateway, range(gateways)),
    ]


def _gateway(number: int) -> ChildSpec:
    """The fronts come after the lead, to which they pass on."""
    from orbitmq.actors.gateway.front import Front
    from orbitmq.actors.gateway.gateway import Gateway

    name = f"gateway {number}" if number else "gateway"
    start = partial(Front, number=number) if number else Gateway
    return ChildSpec(name, ((name, pages.PAGE_GATEWAY + number),), start, gateway=number)


def _alone(name: str, page: int, start: Callable[[Tree], Actor], *, serves: bool = False) -> ChildSpec:
    return ChildSpec(name, ((name, page),), start, serves)
