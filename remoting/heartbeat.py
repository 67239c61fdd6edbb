"""What a client tells of itself in a heartbeat: JSON. What cannot be read says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orbitmq.remoting.json_body import read_json

GROUPS_MAX = 256  # of one kind, on one connection


@dataclass(frozen=True, slots=True)
class Subscription:
    """kind: "TAG" or "SQL92". expression: which messages of the topic. version: the client's, which grows with each change; 0:
    it has said none."""

    topic: str
    kind: str
    expression: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """A consumer group that the client belongs to. model: "CLUSTERING" or "BROADCASTING". kind: whether it
    pulls by itself or is called. begins: where a new group begins."""

    group: str
    model: str
    subscriptions: frozenset[Subscription]
    kind: str = "CONSUME_PASSIVELY"
    begins: str = "CONSUME_FROM_LAST_OFFSET"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Of one connection; it replaces the one before."""

    client_id: str
    consumers: tuple[ConsumerData, ...]
    producers: frozenset[str]

    @property
    def excess(self) -> str | None:
        """Why it counts for nothing, if it names too many groups. Each costs memory, and a consumer group a topic."""
        for kind, count in (("consumer", len({each.group for each in self.consumers})), ("producer", len(self.producers))):
            if count > GROUPS_MAX:
                return f"the heartbeat names {count} {kind} groups; one connection may belong to {GROUPS_MAX}"
        return None


def read(body: bytes) -> Heartbeat:
    try:
        told = read_json(body)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    consumers = tuple(_consumer(each) for each in _items(told, "consumerDataSet") if _text(each, "groupName"))
    producers = frozenset(_text(each, "groupName") for each in _items(told, "producerDataSet"))
    return Heartbeat(_text(told, "clientID"), consumers, producers - {""})


def read_check(body: bytes) -> Subscription:
    """What a client asks about before it subscribes. Raises: ValueError: it is no such question."""
    told = read_json(body)
    if not isinstance(told, dict) or not isinstance(told.get("subscriptionData"), dict):
        raise ValueError("it has no subscriptionData")
    return _subscription(told["subscriptionData"])


def _consumer(told: dict[str, Any]) -> ConsumerData:
    subscriptions = (_subscription(each) for each in _items(told, "subscriptionDataSet") if _text(each, "topic"))
    words = {name: _text(told, field) for name, field in (("kind", "consumeType"), ("begins", "consumeFromWhere"))}
    known = {name: word for name, word in words.items() if word}
    return ConsumerData(_text(told, "groupName"), _text(told, "messageModel"), frozenset(subscriptions), **known)


def _subscription(told: dict[str, Any]) -> Subscription:
    version = told.get("subVersion")
    texts = _text(told, "topic"), _text(told, "expressionType") or "TAG", _text(told, "subString")
    return Subscription(*texts, version if type(version) is int and 0 < version < 1 << 63 else 0)


def _items(told: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    found = told.get(name)
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())


def _text(told: dict[str, Any], name: str) -> str:
    found = told.get(name)
    return found if isinstance(found, str) else ""
