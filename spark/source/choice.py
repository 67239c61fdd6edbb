"""The chosen topics and queues: the options subscribe, subscribePattern and assign, of which exactly one is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import UnknownQueue, UnknownTopic
from orbitmq.shm import finite_json
from orbitmq.shm.topic_name import reserved_topic
from orbitmq.spark.refusal import refused, topics_there

OPTIONS = ("subscribe", "subscribePattern", "assign")
# How the names of whole families of topics begin that RocketMQ and OrbitMQ keep for themselves.
_FAMILIES = ("%RETRY%", "%DLQ%", "%LMQ%", "RMQ_SYS_", "rmq_sys_")


@dataclass(frozen=True, slots=True)
class Choice:
    """option: the one that was given. topics: of subscribe and assign. queues: of assign, by topic."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: Mapping[str, tuple[int, ...]] | None = None

    def takes(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        if reserved_topic(topic) and not self.pattern.startswith(_stem(topic)):
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


def parse(values: Mapping[str, str]) -> Choice:
    """Raises: SettingError."""
    given = [option for option in OPTIONS if option in values]
    if len(given) != 1:
        why = f"{' and '.join(given)} are given" if given else "none is given"
        option = given[0] if given else "subscribe"
        one = "exactly one of the options subscribe, subscribePattern and assign says what to read"
        raise refused(option, values.get(option), f"{one}, and {why}", "leave the others out" if given else None)
    option = given[0]
    text = values[option]
    if option == "subscribe":
        return Choice(option, tuple(dict.fromkeys(words(option, text))))
    if option == "subscribePattern":
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise refused(option, text, f"it is no regular expression: {error}") from None
        return Choice(option, pattern=text)
    return _assigned(option, text)


def words(option: str, text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise refused(option, text, "it names nothing", "give names separated by commas")
    return found


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


def _assigned(option: str, text: str) -> Choice:
    try:
        content = finite_json.loads(text)
        queues = {str(topic): tuple(dict.fromkeys(_queue(queue) for queue in numbers)) for topic, numbers in content.items()}
    except (ValueError, TypeError, AttributeError):
        queues = {}
    if not queues or not all(queues.values()):
        raise refused(option, text, "it cannot be understood", """give JSON such as {"orders": [0, 1]}""")
    return Choice(option, tuple(queues), queues=queues)


def _queue(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
