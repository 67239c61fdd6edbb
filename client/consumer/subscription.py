"""What a consumer asked for, checked: topics, tags, and the queues that the topics have now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import NamedTuple

from orbitmq.client.several import Several, not_one_text
from orbitmq.errors import NoPermission, SettingError
from orbitmq.native._core import ffi, lib
from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.text import utf8
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.shm.topic_table import PERM_READ, Topic, TopicTable

QUEUES_MAX: int = lib.SESSION_QUEUES_MAX  # of one session
TAGS_MAX = 4096  # of one filter
_AROUND = bytes(range(33)).decode()  # characters that RocketMQ strips from a tag


def check_bytes(max_bytes: int) -> None:
    """Raises: SettingError: not positive."""
    if max_bytes < 1:
        text = f"could not take {max_bytes} bytes at once: the number must be at least 1"
        raise SettingError(text, setting="max_bytes", value=max_bytes)


def look_up(topics_address: int, name: str, doing: str = "consume") -> Topic:
    """Raises: UnknownTopic, NoPermission; the message says what could not be done with the topic."""
    table = TopicTable(ffi.cast("struct topics *", topics_address))
    topic = table.find(name)
    if topic is None:
        raise missing_topic(table, name, doing)
    if not topic.perm & PERM_READ:
        way = f"allow it: orbitmq topic permissions {quote(name)} --read"
        raise NoPermission(f"could not {doing} topic {name!r}: it may not be read", hint=way, topic=name, perm=topic.perm)
    return topic


def topic_names(topics: Several[str]) -> tuple[str, ...]:
    """The topics in the order given, each once.

    Raises: SettingError: there are none, or something else was given instead of a list. TopicNameError: a name that no topic
        can have.
    """
    _check_list(topics)
    names = tuple(topics)
    if not names:
        hint = 'write topics=["NAME"]'
        raise SettingError("could not make a consumer: the list of topics is empty", hint=hint, setting="topics", value=topics)
    for name in names:
        check_topic_name(name)
    return tuple(dict.fromkeys(names))


class TagFault(NamedTuple):
    """Why an expression names no tags, and what would."""

    why: str
    hint: str


def tags_or_fault(expression: str | None) -> list[bytes] | TagFault:
    """The tags of RocketMQ's "a || b"; an empty list for all messages (None or "*"). Raises: UsageError: a tag is not valid
    text."""
    if expression is None or expression.strip() == "*":
        return []
    tags = [utf8(tag.strip(_AROUND), "filter by tag") for tag in expression.split("||")]
    if not all(tags):
        return TagFault("a tag is empty", 'write "a || b", or "*" for all')
    if len(tags) > TAGS_MAX:
        return TagFault(f"it names {len(tags)} tags, and {TAGS_MAX} is the most", "read all, and choose among the messages")
    return list(dict.fromkeys(tags))


def tag_list(expression: str | None) -> list[bytes]:
    """The same. Raises: SettingError: a tag is empty, or there are too many. UsageError: a tag is not valid text."""
    found = tags_or_fault(expression)
    if isinstance(found, TagFault):
        text = f"could not filter by tags {expression!r:.80}: {found.why}"
        raise SettingError(text, hint=found.hint, setting="tags", value=expression)
    return found


def room_for(topics_address: int, names: Sequence[str]) -> int:
    """The number of queues that a session for these topics needs room for, with the queues that the topics may still get.

    Raises: SettingError: there are too many. UnknownTopic, NoPermission.
    """
    topics = [look_up(topics_address, name) for name in names]
    queues = sum(topic.queues for topic in topics)
    if queues > QUEUES_MAX:
        raise SettingError(
            f"could not consume {len(names)} topics: their {queues} queues are more than {QUEUES_MAX}",
            hint="share the topics among several consumers",
            setting="topics",
            value=queues,
            limit=QUEUES_MAX,
        )
    return min(sum(topic.slot_capacity for topic in topics), QUEUES_MAX)


def _check_list(topics: object) -> None:
    """Raises: SettingError: it is one text, or has no values at all."""
    not_one_text(topics, "consume topics", "topics")
    if not isinstance(topics, Iterable):
        text = f"could not consume topics {topics!r}: a list of names is needed"
        raise SettingError(text, hint='write topics=["NAME"]', setting="topics", value=topics)
