"""Retries of a group that are not due yet. They lie in the topic of delayed messages, with those of everybody else, and are in
no group's lag."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from orbitmq.client.lookup import Attached, messages_between
from orbitmq.errors import StoreError
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.delays import DELAY_TOPIC, LEVELS

LOOK_AT = 1000  # messages of each level, the newest


class Retries(NamedTuple):
    """messages: at least so many wait. next_ms: until the first of them is due; None: none waits."""

    messages: int
    next_ms: int | None


def waiting_retries(attached: Attached, group: str, now_ms: int) -> Retries:
    """now_ms: milliseconds since the epoch."""
    table = TopicTable(attached.topics)
    schedule, retry = table.find(DELAY_TOPIC), f"%RETRY%{group}"
    if schedule is None or table.find(retry) is None:
        return Retries(0, None)
    left = []
    for queue in range(min(schedule.queues, LEVELS)):
        delay = int(lib.delay_level_ms(queue))
        bounds = table.bounds(schedule.first_slot + queue)
        begin = max(bounds.minimum, bounds.maximum - LOOK_AT)
        with suppress(StoreError):  # one is damaged; those before it count
            for message in messages_between(attached, schedule.first_slot + queue, begin, bounds.maximum):
                due = message.stored_ms + delay - now_ms
                if due > 0 and message.properties.get("REAL_TOPIC") == retry:
                    left.append(due)
    return Retries(len(left), min(left, default=None))
