"""Messages that clients pop (native/remoting/gateway/gateway_pop.h): the first pop of a group's topic opens a session for it.
Bodies of acknowledgements, and what clients ask about pops, are read here."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from orbitmq.remoting.filter_text import refusal
from orbitmq.remoting.host import Host
from orbitmq.remoting.json_body import read_json
from orbitmq.remoting.request import (
    AGAIN,
    BAD_FILTER,
    INVALID_PARAMETER,
    LATER,
    NO_MESSAGE,
    NO_PERMISSION,
    TOPIC_NOT_EXIST,
    Answer,
    Answers,
    Done,
    Notice,
    Popped,
    Request,
    Wanted,
)
from orbitmq.shm.topic_table import PERM_READ

POP, NOTIFICATION, POLLING_INFO, BATCH_ACK = 200050, 200054, 200055, 200151
POLL_MS_MAX = 60_000
ACKS_MAX = 65_536  # in one body, set or not ...
ENTRIES_MAX = 4096  # ... in so many entries ...
BODY_MAX = 1 << 20  # ... and bytes: to read more would keep everybody waiting
REPLACED = "\N{REPLACEMENT CHARACTER}"  # in place of bytes that are no UTF-8
FROM_LAST = "1"  # initMode


class Pops:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {
            POP: self._open, BATCH_ACK: self._acknowledge, NOTIFICATION: self._notice, POLLING_INFO: self._polls,
        }  # fmt: skip

    def _open(self, request: Request) -> Answer:
        wanted = _wanted(request.fields)
        if isinstance(wanted, Answer):
            return wanted
        return AGAIN if self._host.pops.open(wanted) else LATER

    def _notice(self, request: Request) -> Answer | Notice:
        fields = request.fields
        refused = self._refusal(fields)
        wanted = _wanted(fields, any_filter="exp" not in fields)  # RocketMQ 5.3.3's clients name none
        poll_ms = min(max(0, int(fields["pollTime"])), POLL_MS_MAX)
        if refused is not None:
            return refused
        if isinstance(wanted, Answer):
            return wanted
        return Notice(wanted, poll_ms)

    def _polls(self, request: Request) -> Answer:
        fields = request.fields
        refused = self._refusal(fields)
        if refused is not None:
            return refused
        count = self._host.pops.waiting(fields["consumerGroup"], fields["topic"], max(-1, int(fields["queueId"])))
        return Answer(fields={"pollingNum": str(count)})

    def _refusal(self, fields: dict[str, str]) -> Answer | None:
        """In the order, and with the codes, of RocketMQ 5.3.3."""
        topic, queue = self._host.topics.find(fields["topic"]), int(fields["queueId"])
        if topic is None or topic.deleted:
            return Answer(TOPIC_NOT_EXIST, f"topic[{fields['topic']}] not exist, apply first please!")
        if not topic.perm & PERM_READ:
            return Answer(NO_PERMISSION, f"the topic[{topic.name}] peeking message is forbidden")
        if queue >= topic.queues:
            why = f"queueId[{queue}] is illegal, topic:[{topic.name}] topicConfig.readQueueNums:[{topic.queues}]"
            return Answer(INVALID_PARAMETER, why)
        return None

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


def _wanted(fields: dict[str, str], *, any_filter: bool = False) -> Wanted | Answer:
    """What a pop wants; or why it cannot be had. Raises: ValueError: the group's name is no text."""
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
    latest, ordered = fields.get("initMode") == FROM_LAST, fields.get("order") == "true"
    sql = text if is_sql else ""
    return Wanted(fields["consumerGroup"], fields["topic"], is_sql, text, tags, sql, latest, ordered, any_filter)


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
