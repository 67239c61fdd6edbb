"""Which clients produce for which group, as their heartbeats say."""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.remoting import heartbeat
from orbitmq.remoting.request import Client, Request

HEARTBEAT, UNREGISTER = 34, 35


class Producers:
    def __init__(self) -> None:
        self._groups: dict[str, dict[Client, None]] = {}  # the one that was asked last comes last
        self.arrivals = 0  # how often a group got its first client

    def hear(self, request: Request) -> None:
        """A heartbeat, or a client's leave of a group; of others it learns nothing."""
        if request.code == HEARTBEAT:
            told = heartbeat.read(request.body)
            if told.excess is not None:  # it is refused
                return
            named = told.producers
            for group in self._of(request.client) - named:
                self._remove(group, request.client)
            for group in named:
                self.arrivals += group not in self._groups
                self._groups.setdefault(group, {})[request.client] = None
        elif request.code == UNREGISTER:
            self._remove(request.fields.get("producerGroup", ""), request.client)

    def gone(self, client: Client) -> None:
        """Its connection has ended."""
        for group in self._of(client):
            self._remove(group, client)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def clients(self, group: str) -> tuple[Client, ...]:
        return tuple(self._groups.get(group, ()))

    def turns(self, group: str) -> Iterator[Client]:
        """The clients of the group, those first that were not asked for longest; each that is given counts as asked."""
        for client in tuple(self._groups.get(group, ())):
            clients = self._groups[group]
            clients[client] = clients.pop(client)
            yield client

    def _of(self, client: Client) -> set[str]:
        return {group for group, clients in self._groups.items() if client in clients}

    def _remove(self, group: str, client: Client) -> None:
        clients = self._groups.get(group, {})
        clients.pop(client, None)
        if not clients:
            self._groups.pop(group, None)
