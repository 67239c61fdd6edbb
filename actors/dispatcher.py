"""The dispatcher: hands out the messages of groups that have workers (native/actors/dispatcher.h)."""

from __future__ import annotations

import os

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.complaints import Complaints
from orbitmq.actors.pages import PAGE_DISPATCHER
from orbitmq.actors.tree import Tree
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import positions, work_files, work_plan

LAST_STEPS = 100  # at a stop; who answers more than that is told that it was too late


class Dispatcher(CoreActor):
    kind = "dispatcher"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_DISPATCHER)
        self._complaints = Complaints(tree.settings.name)
        lib.dispatcher_boot(self.handle, positions.boot_id())
        self.need()

    def need(self) -> None:
        """Takes the plan. Its version is read first, so that a plan that comes meanwhile is taken again."""
        layout = self.tree.settings.layout
        version = lib.control_work_version(self.tree.control)
        groups = work_plan.load(layout, self.tree.generation)
        crash_point("dispatcher_loaded")
        lib.dispatcher_begin(self.handle, version)
        for name, group in groups.items():
            number = lib.dispatcher_group(self.handle, group.opening, group.paused)
            if number < 0:
                raise MemoryError("struct work_group")
            for worker in group.workers:
                fields = (worker.slot, worker.epoch, worker.topics & ~group.closed, worker.in_hand, worker.visibility_ms)
                if lib.dispatcher_worker(self.handle, number, *fields):
                    raise MemoryError("struct work_worker")
            for topic, queue, slot, offset in group.queues:
                path = work_files.path_of(layout, name, (topic, queue))
                error = lib.dispatcher_queue(self.handle, number, slot, group.topics.index(topic), os.fsencode(path), offset)
                if error:
                    what = f"queue {queue} of {topic!r} in the group {name!r}"
                    self._complaints.say(f"cannot hand out {what}: {path}: {os.strerror(error)}")
        lib.dispatcher_settle(self.handle)

    def drain(self) -> None:
        """Nothing is handed out any more; what workers have answered still counts."""
        for _ in range(LAST_STEPS):
            if not self.step():
                break
