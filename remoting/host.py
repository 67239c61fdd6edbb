"""What answers to rare requests stand on: the broker whose gateway asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orbitmq.remoting.heartbeat import Subscription
from orbitmq.remoting.request import Client, Wanted
from orbitmq.shm.control_socket import Answer as Said
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.settings.tree_settings import TreeSettings

# Sends the client a request that it does not answer: code, fields, body. False: the client is gone, or does not read.
Tell = Callable[[Client, int, Mapping[str, str], bytes], bool]


class Filters(Protocol):
    """What the loop has to know of subscriptions."""

    def subscribe(self, group: str, subscription: Subscription) -> None:
        """Pulls of the group that name no filter of their own get these messages of the topic."""

    def unsubscribe(self, group: str) -> None:
        """Nobody belongs to the group any more."""


class Loop(Protocol):
    """What the loop pops for clients."""

    def open(self, wanted: Wanted) -> bool:
        """Makes it a worker of a group, for those who pop this. False: not yet; ask again soon. Raises: as Ask."""

    def waiting(self, group: str, topic: str, queue: int) -> int:
        """How many pops wait that have named this queue; -1: none."""


class Ask(Protocol):
    """Asks the coordinator. Raises: OrbitError: it refused. OSError: it cannot be reached now."""

    def __call__(self, operation: str, **fields: object) -> Said: ...


@dataclass(frozen=True, slots=True)
class Host:
    """broker: its name. topics: its table. name: tells the loop what a client calls itself.
    creates: whether a send makes the topic that it lacks.
    settings: those that it runs with. control: its struct control *, which outlives the gateway."""

    broker: str
    topics: TopicTable
    ask: Ask
    tell: Tell
    filters: Filters
    name: Callable[[Client, str], None]
    creates: bool
    pops: Loop
    settings: TreeSettings
    control: Any
