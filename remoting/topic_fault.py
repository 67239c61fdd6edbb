"""Why a name is no topic's, in RocketMQ's words (TopicValidator)."""

from __future__ import annotations

from orbitmq.errors import TopicNameError
from orbitmq.shm.topic_name import NAME_MAX, check_topic_name


def topic_fault(name: str) -> str | None:
    """None: a topic may have the name, unless it is reserved."""
    if not name.strip():
        return "The specified topic is blank."
    try:
        check_topic_name(name)
    except TopicNameError:
        pass
    else:
        return None
    if len(name) > NAME_MAX and name.isascii():
        return "The specified topic is longer than topic max length."
    return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
