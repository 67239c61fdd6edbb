"""How a group's workers are: what they have in hand, and why messages wait. A part of GroupStatus (admin/status.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.client.admin.status import GroupStatus
    from orbitmq.client.work.retries import Retries


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's session. in_hand: messages that it has, of in_hand_max at most; asks_for: as many as it wants to have now,
    which is fewer while its handlers are busy. deadline_s: seconds until the first of these is given to another worker, unless
    it is acked or extended; None: it has none. What `groups()` and `status()` return has neither: there in_hand is None too.
    tags, sql: which messages it wants; all of them if neither is said."""

    pid: int
    slot: int
    topics: tuple[str, ...]
    in_hand_max: int
    visibility_s: float
    asks_for: int
    in_hand: int | None = None
    deadline_s: float | None = None
    tags: tuple[str, ...] = ()
    sql: str | None = None


@dataclass(frozen=True, slots=True)
class FirstLeft:
    """The first message of a queue that is not done. state: "free": nobody has it; "in hand": the worker in process `pid` has
    it for `left_s` seconds more; "waiting": a nack said that it comes again in `left_s` seconds; "leaving": it failed, and is
    about to become a retry or a dead letter. deliveries: how often it was handed out."""

    offset: int
    state: str
    deliveries: int
    pid: int | None
    left_s: float | None


@dataclass(frozen=True, slots=True)
class QueueWork:
    """Messages of a queue from the committed offset on. free: nobody has them; waiting: they come again after a time, the
    first of them in `next_s` seconds; leaving: about to become a retry or a dead letter; done: acked out of order.

    full: nothing more is handed out until the first message is done, because too many behind it were. readable: the topic may
    be read."""

    free: int
    in_hand: int
    waiting: int
    leaving: int
    done: int
    full: bool
    readable: bool
    next_s: float | None
    first: FirstLeft | None


def worker_status(content: dict[str, Any]) -> WorkerStatus:
    """content: of an answer of the coordinator's."""
    return WorkerStatus(**{**content, "topics": tuple(content["topics"]), "tags": tuple(content["tags"])})


def with_work(group: GroupStatus, retries: Retries, answers: Iterable[dict[str, Any]]) -> GroupStatus:
    """The group with its retries, and with what the coordinator has counted, some queues an answer."""
    hands: dict[int, tuple[int, list[int]]] = {}
    work = {}
    for answer in answers:
        for content in answer["queues"]:
            work[content["topic"], content["queue"]] = _queue_work(content)
        for slot, count, left in answer["hands"]:
            before, times = hands.get(slot, (0, []))
            hands[slot] = before + count, times + ([] if left is None else [left])
    workers = []
    for worker in group.workers:
        count, times = hands.get(worker.slot, (0, []))
        workers.append(replace(worker, in_hand=count, deadline_s=_seconds(min(times, default=None))))
    queues = tuple(replace(each, work=work.get((each.topic, each.queue))) for each in group.queues)
    return replace(
        group, workers=tuple(workers), queues=queues, retries=retries.messages, next_retry_s=_seconds(retries.next_ms)
    )


def _queue_work(content: dict[str, Any]) -> QueueWork:
    numbers = {name: content[name] for name in ("free", "in_hand", "waiting", "leaving", "done", "full", "readable")}
    return QueueWork(**numbers, next_s=_seconds(content["next_ms"]), first=_first(content["first"]))


def _first(content: dict[str, Any] | None) -> FirstLeft | None:
    if content is None:
        return None
    about = {name: content[name] for name in ("offset", "state", "deliveries", "pid")}
    return FirstLeft(**about, left_s=_seconds(content["left_ms"]))


def held_up(group: GroupStatus) -> Iterator[str]:
    """Why messages that nobody has are not handed out, a sentence each."""
    if group.paused:
        yield "the group is paused"
    if not group.workers and not group.members and group.lag_messages:
        yield "the group has no workers and no consumers now"
    free: dict[str, int] = {}
    readable: dict[str, bool] = {}
    counted = any(worker.in_hand is not None for worker in group.workers)
    for each in group.queues if counted else ():
        if each.work is None:  # of a topic that no worker takes any more
            if each.lag_messages:
                free[each.topic] = free.get(each.topic, 0) + each.lag_messages
            continue
        first = each.work.first
        if each.work.full and first is not None:
            yield f"{each.topic}/{each.queue} gives no more until its message {first.offset} is done: its window is full"
        elif each.work.free:
            free[each.topic] = free.get(each.topic, 0) + each.work.free
            readable[each.topic] = each.work.readable
    for topic, count in sorted(free.items()):
        why = _why(group, topic, readable.get(topic, True))
        if why:
            yield f"{count:,} message{'s' if count > 1 else ''} of {topic}: {why}"


def _why(group: GroupStatus, topic: str, readable: bool) -> str:
    """Why its free messages are handed to nobody; empty: they are being handed out."""
    takers = [worker for worker in group.workers if topic in worker.topics]
    if not readable:
        return "the topic may not be read"
    if not takers:
        return "no worker takes this topic"
    if all((worker.in_hand or 0) >= worker.in_hand_max for worker in takers):
        return "each worker has as many in hand as its in_hand allows"
    if all((worker.in_hand or 0) >= worker.asks_for for worker in takers):
        return "the workers are busy, and have not asked for more"
    kind = "key" if group.key_ordered else "queue"
    held = any(each.work and _unfinished(each.work) for each in group.queues if group.key_ordered or each.topic == topic)
    return f"an earlier message of the same {kind} is not done" if group.order and held else ""


def _unfinished(work: QueueWork) -> int:
    """Messages that hold back others of their keys, or of their queue."""
    return work.in_hand + work.waiting + work.leaving


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
