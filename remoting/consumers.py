"""Which clients consume for which group, as their heartbeats say. They share the queues among themselves: each asks who belongs
to its group, and works out from the same list which queues are its own. A change is told to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.remoting.heartbeat import ConsumerData, Heartbeat
from orbitmq.remoting.request import Client


@dataclass(frozen=True, slots=True)
class Consumer:
    """A client in a group. heard_s: when its last heartbeat came."""

    client_id: str
    data: ConsumerData
    heard_s: float


class Consumers:
    """silent_s: who has sent no heartbeat for so long is no member any more."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s
        self._groups: dict[str, dict[Client, Consumer]] = {}

    def hear(self, client: Client, heartbeat: Heartbeat, now_s: float) -> set[str]:
        """Returns the groups of which all members are to be told."""
        named = {data.group: data for data in heartbeat.consumers}
        changed = {group for group in self._of(client) if group not in named and self.leave(group, client)}
        for group, data in named.items():
            members = self._groups.setdefault(group, {})
            known = members.get(client)
            members[client] = Consumer(heartbeat.client_id, data, now_s)
            if known is None or _topics(known.data) != _topics(data):
                changed.add(group)
        return changed

    def leave(self, group: str, client: Client) -> bool:
        """False: the client is not in the group."""
        members = self._groups.get(group, {})
        left = members.pop(client, None)
        if not members:
            self._groups.pop(group, None)
        return left is not None

    def gone(self, client: Client) -> set[str]:
        """Its connection has ended. Returns the groups that it has left."""
        return {group for group in self._of(client) if self.leave(group, client)}

    def expire(self, now_s: float) -> set[str]:
        """Returns the groups that somebody has left."""
        silent = [
            (group, client)
            for group, members in self._groups.items()
            for client, each in members.items()
            if now_s - each.heard_s > self._silent_s
        ]
        return {group for group, client in silent if self.leave(group, client)}

    def clients(self, group: str) -> tuple[Client, ...]:
        return tuple(self._groups.get(group, ()))

    def members(self, group: str) -> dict[Client, Consumer]:
        return dict(self._groups.get(group, {}))

    def ids(self, group: str) -> list[str]:
        """Client ids, each once."""
        return list(dict.fromkeys(each.client_id for each in self._groups.get(group, {}).values()))

    def __iter__(self) -> Iterator[tuple[str, Client, Consumer]]:
        """All of them: group, connection, what it says."""
        return iter([(group, client, each) for group, members in self._groups.items() for client, each in members.items()])

    def _of(self, client: Client) -> list[str]:
        return [group for group, members in self._groups.items() if client in members]


def _topics(data: ConsumerData) -> set[str]:
    return {each.topic for each in data.subscriptions}
