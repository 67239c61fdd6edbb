"""Messages that clients pop (native/remoting/gateway_pop.h): the first pop of a group's topic opens a session for it, and a
body of acknowledgements is read here."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

from orbitmq.remoting.filter_text import refusal
from orbitmq.remoting.host import Host
from orbitmq.remoting.json_body import read_json
from orbitmq.remoting.request import AGAIN, BAD_FILTER, NO_MESSAGE, Answer, Answers, Done, Popped, Request

POP, BATCH_ACK = 200050, 200151
ACKS_MAX = 65_536  # in one body, set or not ...
ENTRIES_MAX = 4096  # ... in so many entries ...
BODY_MAX = 1 << 20  # ... and bytes: to read more would keep everybody waiting
REPLACED = "\N{REPLACEMENT CHARACTER}"  # in place of bytes that are no UTF-8
FROM_LAST = "1"  # initMode


class Wanted(NamedTuple):
    """What a pop wants. filter: as its client wrote it; "": all. tags, sql: what the dispatcher is told of it."""

    group: str
    topic: str
    is_sql: bool
    filter: str
    tags: list[str]
    sql: str
    latest: bool


class Pops:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {POP: self._open, BATCH_ACK: self._acknowledge}

    def _open(self, request: Request) -> Answer:
        fields = request.fields
        text, is_sql = fields.get("exp", ""), fields.get("expType") == "SQL92"
        text = "" if text == "*" else text
        if REPLACED in text:
            return Answer(BAD_FILTER, "the filter is no UTF-8")
        if REPLACED in fields["consumerGroup"]:
            raise ValueError("the group's name is no UTF-8")
        why = refusal(text) if is_sql and text else None
        if why is not None:
            return Answer(BAD_FILTER, why)
        tags = [] if is_sql else [tag.strip() for tag in text.split("||") if tag.strip()]
        if text and not is_sql and not tags:
            return Answer(BAD_FILTER, f"the filter names no tag: {text!r:.80}")
        latest = fields.get("initMode") == FROM_LAST
        self._host.pop(Wanted(fields["consumerGroup"], fields["topic"], is_sql, text, tags, text if is_sql else "", latest))
        return AGAIN

    def _acknowledge(self, request: Request) -> Answer | Done:
        acks = _entries(request.body)
        if not acks:
            return Answer(NO_MESSAGE)
        if len(acks) > ENTRIES_MAX:
            raise ValueError(f"the body has {len(acks):,} entries, more than {ENTRIES_MAX:,}")
        try:
            if sum(len(_field(each, "b", "bitSet")) // 4 * 3 for each in acks) > ACKS_MAX // 8 + 2:
                raise ValueError(f"the body has bits for more than {ACKS_MAX:,} messages")
            return Done(tuple(_within(popped for each in acks for popped in _popped(each))))
        except (TypeError, KeyError, binascii.Error) as error:
            raise ValueError(f"the body names no messages: {error!r}") from error


def groups_of(body: bytes) -> list[str]:
    """Whose messages a body of acknowledgements is about. What cannot be read is about nobody's."""
    try:
        entries = [each for each in _entries(body) if isinstance(each, dict)]
    except ValueError:
        return []
    return list(dict.fromkeys(str(each.get("c", each.get("consumerGroup"))) for each in entries))


def _entries(body: bytes) -> list[Any]:
    """Raises: ValueError: it is too large, or no JSON."""
    if len(body) > BODY_MAX:
        raise ValueError(f"a body of {len(body):,} bytes is larger than {BODY_MAX:,}")
    told = read_json(body) if body else None
    acks = told.get("acks") if isinstance(told, dict) else None
    return acks if isinstance(acks, list) else []


def _field(told: dict[str, Any], brief: str, full: str) -> Any:
    return told[brief] if brief in told else told[full]


def _popped(told: dict[str, Any]) -> Iterator[Popped]:
    """The messages of one entry: those whose bits are set, from the first offset on."""

    group, topic = str(_field(told, "c", "consumerGroup")), str(_field(told, "t", "topic"))
    retry, queue = str(_field(told, "r", "retry")) != "0", int(_field(told, "q", "queueId"))
    first, pop_ms = int(_field(told, "so", "startOffset")), int(_field(told, "pt", "popTime"))
    tries = int(_field(told, "rq", "reviveQueueId"))
    for at, byte in enumerate(base64.b64decode(_field(told, "b", "bitSet"), validate=True)):
        for bit in range(8):
            if byte >> bit & 1:
                yield Popped(group, topic, retry, queue, first + 8 * at + bit, pop_ms, tries)


def _within(popped: Iterator[Popped]) -> Iterator[Popped]:
    """Raises: ValueError: they are too many."""
    for count, each in enumerate(popped):
        if count == ACKS_MAX:
            raise ValueError(f"the body names more than {ACKS_MAX:,} messages")
        if not 0 <= each.queue < 1 << 31 or not 0 <= each.tries < 1 << 31:
            raise ValueError(f"the body names a message that cannot be: {each}")
        if not 0 <= each.offset < 1 << 63 or not -(1 << 63) <= each.pop_ms < 1 << 63:
            raise ValueError(f"the body names a message that cannot be: {each}")
        yield each
