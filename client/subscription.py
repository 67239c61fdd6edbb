"""What a consumer asked for, checked: topics, tags, and the queues that the topics have now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orbitmq.errors import NoPermission, SettingError, UnknownTopic
from orbitmq.native._core import ffi, lib
from orbitmq.shm.topic_name import check_topic_name

PERM_READ = 4
QUEUES_MAX = 16384  # of one session
TAGS_MAX = 4096  # of one filter

QueueKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SubscribedTopic:
    """A topic as the topic table shows it; its queue q has the queue slot first_slot + q. room: queues it may grow to."""

    name: str
    queues: int
    room: int
    first_slot: int


def look_up(topics_address: int, name: str, doing: str = "consume") -> SubscribedTopic:
    """Raises: UnknownTopic, NoPermission, saying what could not be done with it."""
    topics = ffi.cast("struct topics *", topics_address)
    encoded = name.encode()
    index = lib.topics_find(topics, encoded, len(encoded))
    seen = ffi.new("struct topic_seen *")
    if index == lib.TOPIC_NONE or not lib.topic_see(topics, index, seen):
        hint = f"create it: orbitmq topic create {name}"
        raise UnknownTopic(f"could not {doing} topic {name!r}: it does not exist", hint=hint, topic=name)
    if not seen.perm & PERM_READ:
        raise NoPermission(f"could not {doing} topic {name!r}: it may not be read", topic=name, perm=int(seen.perm))
    return SubscribedTopic(name, int(seen.queues), int(seen.slot_capacity), int(seen.first_slot))


def topic_names(topics: Sequence[str]) -> tuple[str, ...]:
    """The topics in the order given, each once.

    Raises: SettingError: none, or one string instead of several. TopicNameError: one that no topic can have.
    """
    if isinstance(topics, str):
        raise SettingError(
            f"could not consume topics {topics!r}: a list of names is needed", hint=f"write topics=[{topics!r}]", topics=topics
        )
    names = tuple(dict.fromkeys(topics))
    if not names:
        raise SettingError("could not make a consumer of no topics", hint='write topics=["NAME"]', topics=topics)
    for name in names:
        check_topic_name(name)
    return names


def tag_list(expression: str | None) -> list[bytes]:
    """The tags of RocketMQ's "a || b"; an empty list for all messages (None or "*").

    Raises: SettingError: an empty tag, or too many of them.
    """
    if expression is None or expression.strip() == "*":
        return []
    tags = [tag.strip().encode() for tag in expression.split("||")]
    if not all(tags):
        hint = 'write "a || b", or "*" for all'
        raise SettingError(f"could not filter by tags {expression!r}: a tag is empty", hint=hint, tags=expression)
    if len(tags) > TAGS_MAX:
        raise SettingError(f"could not filter by {len(tags)} tags: {TAGS_MAX} is the most", tags=expression, limit=TAGS_MAX)
    return list(dict.fromkeys(tags))
