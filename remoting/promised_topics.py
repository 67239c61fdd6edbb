"""Topics that are made when somebody first needs them, and of which RocketMQ's clients and tools must know before: a group's
topic of retries, by which mqadmin finds the group and its broker, also if local clients began it; and the topic of replies."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from orbitmq.errors import TopicNameError
from orbitmq.remoting.send_backs import RETRY
from orbitmq.shm.reply_topic import REPLY_QUEUES, REPLY_TOPIC
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.shm.topic_table import PERM_READ_WRITE, PERM_WRITE, Topic


def retries_of(groups: Iterable[str]) -> list[str]:
    """Their topics of retries. A group whose name is too long for one, or is that of a member who gets every message
    (name@member), has none."""
    return sorted(name for name in map(RETRY.__add__, groups) if _may_be(name))


def promised(groups: Iterable[str], there: Collection[str]) -> list[Topic]:
    """Those that are not there yet."""
    queues = {REPLY_TOPIC: REPLY_QUEUES, **dict.fromkeys(retries_of(groups), 1)}
    return [_topic(name, count) for name, count in queues.items() if name not in there]


def shown_perm(topic: Topic) -> int:
    """To a topic of retries a client may send what it gives back, as to no other one of the broker's own."""
    return topic.perm | (PERM_WRITE if topic.name.startswith(RETRY) else 0)


def _topic(name: str, queues: int) -> Topic:
    return Topic(name, 0, queues, PERM_READ_WRITE, 0, queues, 0, False)


def _may_be(name: str) -> bool:
    try:
        check_topic_name(name)
    except TopicNameError:
        return False
    return True
