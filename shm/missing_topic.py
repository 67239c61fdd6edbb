"""The error for a topic that does not exist, with what would help: a similar name, or the command that makes the topic."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.errors import UnknownTopic
from orbitmq.errors.remedy import Hint, hint
from orbitmq.shm.topic_name import how_to_make, kept_topic
from orbitmq.shm.topic_table import Topic

SIMILAR = 0.82  # of difflib: "ordesr" is like "orders", and "orders-eu" is not


def missing_topic(topics: Iterable[Topic], name: str, doing: str, *, otherwise: str | None = None) -> UnknownTopic:
    """topics: those that exist. doing: what could not be done with the topic, such as "send to". otherwise: what to do if no
    similar name is meant; None: make the topic."""
    remedy = _way_out(topics, name, otherwise or how_to_make(name))
    return UnknownTopic(f"could not {doing} topic {name!r}: it does not exist", hint=remedy, topic=name)


def _way_out(topics: Iterable[Topic], name: str, otherwise: str) -> Hint:
    from difflib import get_close_matches  # here: most programs never need it

    close = get_close_matches(name, (each.name for each in topics if not kept_topic(each.name)), n=1, cutoff=SIMILAR)
    return hint("write {} if that is meant || {}", repr(close[0]), otherwise) if close else hint("{}", otherwise)
