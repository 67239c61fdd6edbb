"""A request of RocketMQ's protocol that Python answers, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

SUCCESS = 0
SYSTEM_ERROR = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22
BAD_FILTER = 23
INVALID_PARAMETER = 29
NOT_ONLINE = 206
NO_MESSAGE = 208
NO_GROUP = 26


class Client(NamedTuple):
    """A connection, and which use of its number."""

    connection: int
    epoch: int


class Origin(NamedTuple):
    """What a client is: its address and port, and its library's language and version, by RocketMQ's numbers."""

    address: str
    language: int
    version: int


UNKNOWN = Origin("", 7, 0)


@dataclass(frozen=True, slots=True)
class Request:
    """local: the address and port that the client reached. broker: those at which it finds the broker."""

    code: int
    fields: dict[str, str]
    body: bytes
    local: str
    client: Client
    origin: Origin = UNKNOWN
    broker: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """fields: None if this kind of answer has none."""

    code: int = SUCCESS
    remark: str | None = None
    fields: dict[str, str] | None = None
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Forward:
    """No answer: another client is asked, and what it answers is the answer. body, fields: of what it is asked."""

    client: Client
    code: int
    fields: dict[str, str]
    body: bytes = field(default=b"", repr=False)


class Popped(NamedTuple):
    """A message that was popped, by its receipt. retry: from the group's retries. pop_ms: the moment of the pop.
    tries: the how many-th delivery it is."""

    group: str
    topic: str
    retry: bool
    queue: int
    offset: int
    pop_ms: int
    tries: int


class Wanted(NamedTuple):
    """What a pop wants. filter: as its client wrote it; "": all. tags, sql: what the dispatcher is told of it.
    ordered: each batch of a queue once the one before it is done, or its time is over. any_filter: whatever filter the group
    has in use; the one that is named counts if it has none."""

    group: str
    topic: str
    is_sql: bool
    filter: str
    tags: list[str]
    sql: str
    latest: bool
    ordered: bool
    any_filter: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """No answer: it is answered once there is something to pop, or after poll_ms."""

    wanted: Wanted
    poll_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """No answer: these messages are done, and it is answered once that is noted."""

    popped: tuple[Popped, ...]


# No answer: what the loop lacked for the request is there now, or cannot be, and the loop is to serve it.
AGAIN = Answer(-1)
# No answer yet: what the loop lacks for the request cannot be made at this moment, and it is to ask again soon.
LATER = Answer(-2)

# Answers requests of some codes. Raises: KeyError: a field is missing. ValueError: one cannot be read. OrbitError, OSError: as
# Host.ask.
Answers = dict[int, Callable[[Request], Answer | Forward | Done | Notice]]
