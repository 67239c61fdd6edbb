"""A process's pointers into the tree's shared segments. The supervisor makes them, and every actor inherits them by fork."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from orbitmq.actors.listener import Listener
from orbitmq.actors.supervisor.front_ends import FrontEnds
from orbitmq.native._core import ffi, lib
from orbitmq.shm.death import Death
from orbitmq.store.note import Note
from orbitmq.store.settings.tree_settings import TreeSettings


@dataclass(slots=True)
class Tree:
    """Pointers into this process's mappings, and what the coordinator serves clients with.

    wake_memfd: the wake words, for clients to map.
    listener: the control socket, bound by the supervisor, so that it outlives a coordinator.
    keeper: the coordinator's end of its socket to the supervisor's descriptor store, one for each life.
    gateway: the sockets at which RocketMQ's clients connect, if they may; the supervisor's, so that they outlive a gateway.
        listens: where these clients find their name server. addresses: all of them. gateway_event: an eventfd by which reput
        and the dispatcher end the gateway's sleep, or -1.
    fronts: what the gateways beside that one have.
    notes: what the start reports to those who look at the tree. deaths: the last one of each actor that died, by its name.
    post: the coordinator's end of what the supervisor sends it (post.py).
    """

    settings: TreeSettings
    generation: int
    control: Any
    topics: Any
    wake: Any
    lanes: list[Any]
    supervisor_pid: int
    wake_memfd: int = -1
    listener: socket.socket | None = None
    keeper: socket.socket | None = None
    post: socket.socket | None = None
    gateway: Listener | None = None
    gateway_event: int = -1
    fronts: tuple[FrontEnds, ...] = ()
    listens: str = ""
    addresses: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    deaths: dict[str, Death] = field(default_factory=dict)
    _lane_array: Any = field(default=None, repr=False)

    def attach(self, page: int) -> Any:
        """This process's struct attachment. Raises: MemoryError."""
        self._lane_array = ffi.new("void *[]", self.lanes)
        core = lib.attachment_open(self.control, self.topics, self.wake, self._lane_array, len(self.lanes), page)
        if core == ffi.NULL:
            raise MemoryError("struct attachment")
        for gateway, event in enumerate((self.gateway_event, *(ends.event for ends in self.fronts))):
            lib.attachment_give_event(core, gateway, event)
        return core

    def of_gateways(self, number: int | None, *, rings: bool) -> set[int]:
        """The descriptors by which an actor is this gateway, 0 for the lead, or ends the gateways' sleep if it rings."""
        if self.gateway is None:
            return set()
        if number:
            return self.fronts[number - 1].own
        if number == 0:
            return {*self.gateway.descriptors, self.gateway_event, *(ends.lead_line.fileno() for ends in self.fronts)}
        return {self.gateway_event, *(ends.event for ends in self.fronts)} if rings else set()

    def positions(self) -> Any:
        """A fresh struct positions_seen."""
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return seen

    def set_state(self, page: int, state: int, error: int = 0) -> None:
        """What this process reports about itself in its page."""
        lib.actor_set_state(self.control, page, os.getpid(), state, error)

    def set_states(self, pages: Iterable[int], state: int) -> None:
        for page in pages:
            self.set_state(page, state)

    def page_pid(self, page: int) -> int:
        """The process to which the page belongs; 0 between two lives."""
        return int(self._page(page).pid)

    def silent_ms(self, page: int) -> int:
        """Time since the page's process last showed that it runs."""
        return int(lib.clock_ms()) - int(self._page(page).heartbeat_ms)

    def page_error(self, page: int) -> int:
        """The errno that a loop in C left in its page."""
        return int(lib.actor_error(self.control, page))

    def _page(self, page: int) -> Any:
        """A copy, struct actor_view."""
        view = ffi.new("struct actor_view *")
        lib.actor_page_view(lib.control_actor(self.control, page), view)
        return view

    @staticmethod
    def open_errno() -> int:
        """errno of the C call just before."""
        return ffi.errno or errno.ENOMEM
