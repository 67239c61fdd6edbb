"""The settings of a topic: which values they may have, and how config/topics.json and the topic table say them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from orbitmq.errors import SettingError, TopicExists
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm.durability import APPENDED, Durability
from orbitmq.shm.reply_topic import REPLY_TOPIC
from orbitmq.shm.topic_name import reserved_topic
from orbitmq.shm.topic_table import PERM_WRITE, RETENTION_FOR_EVER, Topic
from orbitmq.store.config import TopicConfig

# How long a topic's messages may be kept, and the value for "no time of its own".
RETENTION_HOURS_MAX = 1_000_000
AS_THE_BROKER = -1


def check_settings(name: str, queues: object, perm: object, retention_hours: object, durability: object) -> None:
    """Raises: SettingError: a topic cannot have these values."""
    if not isinstance(queues, int) or isinstance(queues, bool) or not 1 <= queues <= lib.SESSION_QUEUES_MAX:
        # One consumer must be able to read a whole topic.
        raise SettingError(
            f"cannot give the topic {name!r} {queues!r:.64} queues: it must have from 1 to {lib.SESSION_QUEUES_MAX:,}",
            name="queues",
            value=queues,
            limit=lib.SESSION_QUEUES_MAX,
        )
    if not isinstance(perm, int) or not 0 <= perm <= 7:
        raise SettingError(
            f"cannot give the topic {name!r} the permission {perm!r}: it must be from 0 to 7", name="perm", value=perm
        )
    if retention_hours is not None and not _is_retention(retention_hours):
        raise SettingError(
            f"cannot keep the messages of the topic {name!r} for {retention_hours!r:.64} hours: it must be a whole number, at "
            f"most {RETENTION_HOURS_MAX:,}",
            hint=hint(
                "use {retention_hours=0} to keep messages for ever || use {retention_hours={}} to keep them as the broker does",
                AS_THE_BROKER,
            ),
            name="retention_hours",
            value=retention_hours,
            limit=RETENTION_HOURS_MAX,
        )
    if durability is not None and durability not in get_args(Durability):
        raise SettingError(
            f"cannot give the topic {name!r} the durability {durability!r:.64}: it must be 'appended' or 'flushed'",
            name="durability",
            value=durability,
        )


def exists_otherwise(topic: Topic, queues: int, perm: int) -> TopicExists:
    """The error for a topic that cannot be changed to these."""
    what = f"{queues} queues" if topic.perm == perm else f"permission {perm}"
    there = f"{topic.queues}" if topic.perm == perm else f"{topic.perm}"
    remedy = "a topic never loses queues; choose another name" if topic.perm == perm else "choose another name"
    if topic.perm == perm and queues > topic.queues:
        there += f" and room for {topic.slot_capacity}"
        remedy = "restart the broker, which gives the topic more room, then try again; or choose another name"
    return TopicExists(
        f"cannot create the topic {topic.name!r} with {what}: it exists with {there}",
        hint=remedy,
        topic=topic.name,
        queues=topic.queues,
        perm=topic.perm,
    )


def permitted(name: str, perm: int) -> int:
    """What clients may do, by what the file says. RocketMQ keeps some topics for itself."""
    return perm & ~PERM_WRITE if reserved_topic(name) and name != REPLY_TOPIC else perm


def hours_of(config: TopicConfig) -> int:
    """How long a topic's messages are kept, as the table has it."""
    hours = config.retention_hours
    return 0 if hours is None else hours or RETENTION_FOR_EVER


def durable_of(config: TopicConfig) -> bool:
    """Whether sends wait for the disk. A level that only another version knows is not below the highest one here."""
    return config.durability not in (None, APPENDED)


def _is_retention(hours: object) -> bool:
    return isinstance(hours, int) and not isinstance(hours, bool) and AS_THE_BROKER <= hours <= RETENTION_HOURS_MAX


def with_settings(config: TopicConfig, retention_hours: int | None, durability: Durability | None) -> TopicConfig:
    """Applies what create() was given. The file holds only what differs from a topic with default settings."""
    if retention_hours is not None:
        config = replace(config, retention_hours=None if retention_hours == AS_THE_BROKER else retention_hours)
    if durability is not None:
        config = replace(config, durability=None if durability == APPENDED else durability)
    return config
