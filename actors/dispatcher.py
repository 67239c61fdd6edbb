"""The dispatcher: hands out the messages of groups that have workers (native/actors/dispatcher/dispatcher.h), and puts those
that fail into the log again."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.complaints import Complaints
from orbitmq.actors.pages import PAGE_DISPATCHER
from orbitmq.actors.tree import Tree
from orbitmq.errors import OrbitError
from orbitmq.native._core import ffi, lib
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import ControlSocket
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import positions
from orbitmq.store.work import files as work_files
from orbitmq.store.work import plan as work_plan

PLAN_AGAIN_S = 0.05  # after a plan that could not be read
ANSWER_S = 10.0  # how long the coordinator may take to answer
LAST_STEPS = 100  # at a stop; who answers more than that is told that it was too late


class Dispatcher(CoreActor):
    kind = "dispatcher"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_DISPATCHER)
        self._complaints = Complaints()
        self._version = -1  # of the plan taken last
        self._kept = tree.settings.read_only  # nothing more is to be done for what is put into the log
        self._said = ""  # why it cannot be put there
        self._asking: threading.Thread | None = None  # handing out does not wait for the coordinator
        lib.dispatcher_boot(self.handle, positions.boot_id())
        lib.dispatcher_know(self.handle, lib.DISPATCHER_KNOWN_MAX)
        self._keep()
        self.need()

    def run(self, limit_ms: int) -> None:
        self._keep()
        super().run(limit_ms)

    def need(self) -> None:
        """Takes the plan, or asks for topics."""
        missing = ffi.new("char[128]")
        lib.dispatcher_missing(self.handle, missing)
        group = ffi.string(missing).decode(errors="surrogateescape")
        if group and (self._asking is None or not self._asking.is_alive()):
            self._asking = threading.Thread(target=self._ask, args=(group,), name="topics", daemon=True)
            try:
                self._asking.start()
            except RuntimeError as error:  # no thread can be had now; the question comes again
                self._asking = None
                self._complaints.say(f"cannot ask for the topics for retries of the group {group!r} yet: {error}")
        if lib.control_work_version(self.tree.control) != self._version:
            self._take_plan()

    def _ask(self, group: str) -> None:
        """Only the coordinator makes topics. The group's messages wait; the question is repeated until they are there."""
        try:
            with closing(ControlSocket(runtime.socket_path(self.tree.settings.name), ANSWER_S)) as control:
                control.greet(ANSWER_S)
                control.ask("prepare_retries", ANSWER_S, group=group)
        except (OrbitError, OSError) as error:
            self._complaints.say(f"cannot have the topics for retries of the group {group!r} made yet: {error}")

    def _keep(self) -> None:
        """The file for what is put into the log; without it, what fails comes again in place."""
        layout = self.tree.settings.layout
        if self._kept:
            return
        try:
            work_files.make_retries(layout)
            error = lib.dispatcher_partings(self.handle, os.fsencode(layout.retries))
        except OSError as failure:
            error = failure.errno or 0
        if error:
            why = f"cannot put what fails into retries and dead letters yet: {layout.retries}: {os.strerror(error)}"
            if why != self._said:
                self._complaints.say(why)
            self._said = why
            return
        self._kept = True
        for _ in range(LAST_STEPS):  # what is left is read before the first step
            if lib.dispatcher_load(self.handle):
                break

    def _take_plan(self) -> None:
        """Its version is read first, so that a plan that comes meanwhile is taken again."""
        layout = self.tree.settings.layout
        version = lib.control_work_version(self.tree.control)
        try:
            groups = work_plan.load(layout, self.tree.generation)
        except OSError as failure:  # nothing is handed out until it can be read
            self._complaints.say(f"cannot read the plan of work yet: {layout.work_plan}: {failure.strerror}")
            time.sleep(PLAN_AGAIN_S)
            return
        crash_point("dispatcher_loaded")
        lib.dispatcher_begin(self.handle, version)
        self._version = version
        for name, group in groups.items():
            by_key = lib.WORK_ORDER_KEY if group.key_ordered else lib.WORK_ORDER_NONE
            order = lib.WORK_ORDER_QUEUE if group.queue_ordered else by_key
            fields = (group.opening, name.encode(), group.paused, group.max_tries, order)
            number = lib.dispatcher_group(self.handle, *fields)
            if number < 0:
                raise MemoryError("struct work_group")
            for worker in group.workers:
                takes = (worker.topics & ~group.closed, worker.in_hand, worker.visibility_ms)
                if lib.dispatcher_worker(self.handle, number, worker.slot, worker.epoch, *takes):
                    raise MemoryError("struct work_worker")
            for each in group.filters:
                self._filter(name, number, each)
            for topic, queue, slot, opening, offset in group.queues:
                path = work_files.path_of(layout, name, (topic, queue))
                place = (slot, group.topics.index(topic), os.fsencode(path))
                error = lib.dispatcher_queue(self.handle, number, *place, opening, offset)
                if error:
                    what = f"queue {queue} of {topic!r} in the group {name!r}"
                    self._complaints.say(f"cannot hand out {what}: {path}: {os.strerror(error)}")
        lib.dispatcher_settle(self.handle)

    def _filter(self, group: str, number: int, asked: work_plan.PlannedFilter) -> None:
        tags = [ffi.from_buffer(tag) for tag in asked.tags]
        slices = ffi.new("struct slice[]", [(tag, len(tag)) for tag in tags])
        sql = ffi.from_buffer(asked.sql)
        text = ffi.new("struct slice *", (sql, len(sql)))[0]
        error = lib.dispatcher_filter(self.handle, number, asked.number, asked.topics, slices, len(slices), text)
        if error:  # the coordinator has read it before
            raise OSError(error, f"cannot filter for the group {group!r}: {os.strerror(error)}")

    def drain(self) -> None:
        """Nothing is handed out any more; what workers have answered still counts."""
        for _ in range(LAST_STEPS):
            if lib.control_work_version(self.tree.control) != self._version:
                self._take_plan()
            if not self.step():
                break
