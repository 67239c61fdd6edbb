"""How the work of a group stands, for those who look after it: what its workers have in hand, and what holds up which queue.

A queue's state file has half a megabyte, so an answer is about some queues only, and the client asks again for the others:
nobody else waits for the coordinator in the meantime for longer than that."""

from __future__ import annotations

from typing import Any

from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.sessions.sessions import Sessions
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.actors.work.filters import EVERYTHING, WorkFilter, filter_of
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.work import files as work_files
from orbitmq.store.work import view as work_view
from orbitmq.store.work.plan import PlannedGroup, PlannedWorker

AT_ONCE = 16


class WorkDescriber:
    def __init__(self, tree: Tree, topics: TopicRegistry, sessions: Sessions, offsets: Offsets) -> None:
        self._tree = tree
        self._topics = topics
        self._sessions = sessions
        self._offsets = offsets

    def workers(self, group: PlannedGroup) -> list[dict[str, Any]]:
        """asks_for: how many messages it wants to have in hand now."""
        asked = {each.slot: self._wants(group, each) for each in group.workers}
        return [
            {
                "pid": each.pid,
                "slot": each.slot,
                "topics": [topic for at, topic in enumerate(group.topics) if each.topics >> at & 1],
                "in_hand_max": each.in_hand,
                "visibility_s": each.visibility_ms / 1000,
                "asks_for": self._asks_for(each),
                "tags": [tag.decode(errors="replace") for tag in asked[each.slot].tags],
                "sql": asked[each.slot].sql.decode(errors="replace") or None,
            }
            for each in group.workers
        ]

    def _wants(self, group: PlannedGroup, worker: PlannedWorker) -> WorkFilter:
        """It asked for the same of all its topics but the retries."""
        bits = worker.topics & ~sum(1 << at for at, topic in enumerate(group.topics) if topic.startswith("%RETRY%"))
        return filter_of(group, (bits & -bits).bit_length() - 1) if bits else EVERYTHING

    def queues(self, name: str, group: PlannedGroup, after: QueueKey | None) -> dict[str, Any]:
        """{"queues": [{"topic", "queue", ...}, ...], "hands": [[slot, messages, ms], ...], "after": [topic, queue] or []}: the
        queues behind `after`, and what each worker has of them in hand."""
        known = sorted((topic, queue, slot) for topic, queue, slot, *_ in group.queues)
        left = [each for each in known if after is None or each[:2] > after]
        hands = work_view.Hands(group.workers)
        shown = [self._queue(name, group, each, hands) for each in left[:AT_ONCE]]
        last = list(left[AT_ONCE - 1][:2]) if len(left) > AT_ONCE else []
        return {"queues": [each for each in shown if each is not None], "hands": hands.listed(), "after": last}

    def _queue(
        self, name: str, group: PlannedGroup, place: tuple[str, int, int], hands: work_view.Hands
    ) -> dict[str, Any] | None:
        topic_name, queue, slot = place
        topic = self._topics.find(topic_name)
        if topic is None or queue >= topic.queues or topic.first_slot + queue != slot:
            return None  # it was deleted, and perhaps made again
        floor = self._offsets.get(name, (topic_name, queue)) or 0
        path = work_files.path_of(self._tree.settings.layout, name, (topic_name, queue))
        seen = work_view.read(path, floor, int(lib.clock_ms()), hands)
        bounds = self._topics.bounds(slot)
        fresh = max(0, bounds.maximum - max(seen.frontier, bounds.minimum))
        return {
            "topic": topic_name,
            "queue": queue,
            "free": seen.free + fresh,
            "in_hand": seen.held,
            "waiting": seen.waiting,
            "leaving": seen.parting,
            "done": seen.done,
            "full": fresh > 0 and seen.frontier - floor >= lib.WORK_WINDOW,
            "readable": not group.closed >> group.topics.index(topic_name) & 1,
            "next_ms": seen.wait_ms,
            "first": None if seen.first >= bounds.maximum else self._first(group, seen, max(seen.first, bounds.minimum)),
        }

    def _first(self, group: PlannedGroup, seen: work_view.WorkView, offset: int) -> dict[str, Any]:
        if offset != seen.first:  # retention has removed that one
            return {"offset": offset, "state": "free", "deliveries": 0, "pid": None, "left_ms": None}
        pids = {each.slot: each.pid for each in group.workers}
        pid = None if seen.first_slot is None else pids.get(seen.first_slot)
        left = seen.first_left_ms
        return {"offset": offset, "state": seen.first_state, "deliveries": seen.first_tries, "pid": pid, "left_ms": left}

    def _asks_for(self, worker: PlannedWorker) -> int:
        session = self._sessions.mapped(worker.slot, worker.epoch)
        return 0 if session is None else min(worker.in_hand, int(lib.session_wanted(session.pointer)))
