"""The chosen topics and queues: some by name, those of a pattern, or queues of some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orbitmq.errors import UnknownQueue, UnknownTopic
from orbitmq.shm.topic_name import kept_topic

NAMED_MOST = 20  # topics in an error
# How the names of whole families of topics begin that RocketMQ and OrbitMQ keep for themselves.
_FAMILIES = ("%RETRY%", "%DLQ%", "%LMQ%", "RMQ_SYS_", "rmq_sys_")


@dataclass(frozen=True, slots=True)
class Choice:
    """option: the name under which it was given. topics: by name. queues: of these, by topic; None: all."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: Mapping[str, tuple[int, ...]] | None = None

    def takes(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        if kept_topic(topic) and not self.pattern.startswith(_stem(topic)):
            return False
        return re.fullmatch(self.pattern, topic) is not None

    def of(self, extents: Mapping[str, Mapping[int, tuple[int, int]]]) -> dict[str, Mapping[int, tuple[int, int]]]:
        """The chosen topics and queues of a store; topics in the order that was given, those of a pattern sorted.

        Raises: UnknownTopic: has .option, .topic and .topics. UnknownQueue: has .option, .topic, .queue and .queues.
        """
        if self.pattern is not None:
            return {topic: extents[topic] for topic in sorted(extents) if self.takes(topic)}
        found: dict[str, Mapping[int, tuple[int, int]]] = {}
        for topic in self.topics:
            if topic not in extents:
                raise unknown_topic(self.option, topic, extents)
            queues = extents[topic]
            if self.queues is not None:
                for queue in self.queues[topic]:
                    if queue not in queues:
                        raise unknown_queue(self.option, topic, queue, queues)
                queues = {queue: queues[queue] for queue in self.queues[topic]}
            found[topic] = queues
        return found


def _stem(topic: str) -> str:
    """With what a pattern must begin in order to match a topic that is kept: its family, or all of its name."""
    return next((each for each in _FAMILIES if topic.startswith(each)), topic)


def unknown_topic(option: str, topic: str, extents: Mapping[str, object]) -> UnknownTopic:
    return UnknownTopic(
        f"cannot read topic {topic!r} of option {option}: the store has no such topic",
        hint=f"it has {topics_there(extents)}",
        option=option,
        topic=topic,
        topics=sorted(extents),
    )


def unknown_queue(option: str, topic: str, queue: int, queues: Mapping[int, object]) -> UnknownQueue:
    return UnknownQueue(
        f"cannot read queue {queue} of topic {topic!r} in option {option}: there is no such queue",
        hint=f"its queues are 0 to {max(queues)}" if queues else "it has no queue",
        option=option,
        topic=topic,
        queue=queue,
        queues=len(queues),
    )


def topics_there(names: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - NAMED_MOST:,} more" if len(known) > NAMED_MOST else ""
    return f"{', '.join(known[:NAMED_MOST]) or 'no topic'}{more}"
