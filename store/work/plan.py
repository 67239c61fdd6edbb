"""The work plan: which groups have workers, and which sessions these are. The coordinator replaces it, and the dispatcher reads
it when its version in the control block has been raised (native/actors/dispatcher/dispatcher.h). It is the file
orbitmq/work-plan, in msgpack:

    {"generation":, "groups": {name: {"opening":, "paused":, "max_tries":, "key_ordered":, "queue_ordered":,
     "topics": [name, ...], "closed":,
     "queues": [[topic, queue, queue slot, opening, offset], ...],
     "workers": [[slot, epoch, topics, in hand, visibility ms, pid], ...],
     "filters": [[number, topics, [tag, ...], sql], ...]}}}

`topics` of a worker has a bit for each of the group's topics that it takes, and of a filter one for each that it is for;
another filter has another number. `closed` has one for each that may not be read: of
these nothing more is handed out, and what is in hand may be answered. `opening` is another number each time a group gets its
first worker; of a queue, also each time it is reset: it is opened then, and begins at its offset unless its file knows
better. A plan of another generation has no meaning, so it is not synced."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack

from orbitmq.shm.crash_point import crash_point
from orbitmq.store.layout import StoreLayout

TOPICS_MAX = 64
PLAIN = ("opening", "paused", "max_tries", "key_ordered", "queue_ordered", "topics", "closed")


class PlannedWorker(NamedTuple):
    slot: int
    epoch: int
    topics: int
    in_hand: int
    visibility_ms: int
    pid: int


class PlannedFilter(NamedTuple):
    """tags: sorted; none: every message. sql: no text: every message."""

    number: int
    topics: int
    tags: tuple[bytes, ...]
    sql: bytes


@dataclass(slots=True)
class PlannedGroup:
    """queues: (topic, queue, queue slot, opening, offset at which the group was when it opened)."""

    opening: int
    paused: bool = False
    max_tries: int = 16
    topics: list[str] = field(default_factory=list)
    queues: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    workers: list[PlannedWorker] = field(default_factory=list)
    closed: int = 0
    key_ordered: bool = False
    queue_ordered: bool = False
    filters: list[PlannedFilter] = field(default_factory=list)


def load(layout: StoreLayout, generation: int) -> dict[str, PlannedGroup]:
    """The plan of this tree; empty if there is none."""
    groups: dict[str, PlannedGroup] = {}
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, msgpack.UnpackException):
        content: dict[str, Any] = msgpack.unpackb(layout.work_plan.read_bytes())
        if content["generation"] == generation:
            for name, entry in content["groups"].items():
                queues = [(topic, queue, slot, opening, offset) for topic, queue, slot, opening, offset in entry["queues"]]
                workers = [PlannedWorker(*worker) for worker in entry["workers"]]
                plain = {each: entry[each] for each in PLAIN}
                filters = [PlannedFilter(number, bits, tuple(tags), sql) for number, bits, tags, sql in entry["filters"]]
                groups[name] = PlannedGroup(**plain, queues=queues, workers=workers, filters=filters)
    return groups


def store(layout: StoreLayout, generation: int, groups: dict[str, PlannedGroup]) -> None:
    """Raises: OSError: the plan is as before."""
    entries = {
        name: {
            **{each: getattr(group, each) for each in PLAIN},
            "queues": group.queues,
            "workers": [list(worker) for worker in group.workers],
            "filters": [list(each) for each in group.filters],
        }
        for name, group in groups.items()
    }
    body = msgpack.packb({"generation": generation, "groups": entries})
    temporary = layout.work_plan.with_name(layout.work_plan.name + ".tmp")
    temporary.write_bytes(body)
    crash_point("work_plan_written")
    temporary.replace(layout.work_plan)
    crash_point("work_plan_stored")
