"""A broker without processes: a composed store, sessions in this process's memory, and groups as the coordinator keeps them.
Consumers use it as their opener; tests move it by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.consumer.subscription import look_up
from orbitmq.errors import Fenced
from orbitmq.native._core import ffi, lib
from orbitmq.store import commit_words
from tests.native.composed_store import ComposedStore


class ComposedBroker(ComposedStore):
    """See client/connection/session.py, ConsumerOpener. Every group assigns its queues in turn, one to a member."""

    name = "composed"
    timeout = 30.0

    def __init__(self, root: Path, **sizes: int) -> None:
        super().__init__(root, **sizes)
        self.wake = self._segment("struct wake *", ffi.sizeof("struct wake"))
        lib.wake_init(self.wake, 1)
        lib.control_set_tree_state(self.control, lib.TREE_RUNNING)
        self.sessions: dict[int, tuple[Any, Any]] = {}  # by slot: memory, shape
        self.words = root / "words"
        self.words.mkdir()
        self.opened = 0
        self.closed: list[int] = []
        self.members: dict[str, dict[int, tuple[str, ...]]] = {}
        self.assigned: dict[str, dict[int, list[tuple[str, int]]]] = {}
        self.since: dict[str, dict[tuple[str, int], int]] = {}
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}

    def open_session(
        self, *, window: int = 0, sq_capacity: int = 0, message_max: int = 0, queue_capacity: int = 0
    ) -> SessionHandle:
        slot = self.opened
        self.opened += 1
        fields = {"slot": slot, "epoch": 1, "queue_capacity": queue_capacity, "pid": os.getpid()}
        shape = ffi.new("struct session_shape *", fields)
        size = lib.session_size(shape)
        memory = self._segment("struct session *", size)
        lib.session_init(memory, shape, 1)
        self.sessions[slot] = (memory, shape)

        def end() -> None:
            if slot not in self.closed:
                self.closed.append(slot)

        return SessionHandle(
            address=address(memory),
            size=size,
            control_address=address(self.control),
            topics_address=address(self.topics),
            wake_address=address(self.wake),
            supervisor_fd=-1,
            slot=slot,
            epoch=1,
            window=0,
            sq_capacity=0,
            message_max=0,
            queue_capacity=queue_capacity,
            pid=os.getpid(),
            generation=1,
            close=end,
            leave=end,
        )

    def send(self, body: bytes) -> None:
        """A message to the topic that was made first, which consumers hear of."""
        self.append("t", 0, body)
        self.publish()
        self.ring()

    def caught_up(self, doing: str) -> None:
        pass

    def ask_for_file(self, operation: str, **fields: Any) -> tuple[Any, int]:
        path = self.words / str(fields["slot"])
        commit_words.make(path, self.sessions[fields["slot"]][1].queue_capacity)
        return self.ask(operation, **fields), commit_words.descriptor_of(path)

    def ask(self, operation: str, **fields: Any) -> Any:
        group = fields["group"]
        if operation == "join_group":
            self.members.setdefault(group, {})[fields["slot"]] = tuple(fields["topics"])
            self.rebalance(group)
        if operation == "committed":
            self.collect(group)
            return [[*key, offset] for key, offset in self.offsets.get(group, {}).items()]
        return self.assignment(group, fields["slot"])

    def assignment(self, group: str, slot: int) -> dict[str, Any]:
        if slot not in self.members[group]:
            raise Fenced("no member", group=group)
        queues = []
        for topic, queue in self.assigned[group][slot]:
            place = look_up(address(self.topics), topic).first_slot + queue
            queues.append([topic, queue, place, self.offsets.setdefault(group, {}).get((topic, queue), 0)])
        since = [self.since[group][topic, queue] for topic, queue, _, _ in queues]
        return {"group": 0, "epoch": int(lib.group_epoch(self.control, 0)), "queues": queues, "since": since, "leaving": []}

    def collect(self, group: str) -> None:
        epoch = lib.group_epoch(self.control, 0) & 0xFFFF
        self._collect(group, epoch)

    def _collect(self, group: str, epoch: int) -> None:
        for slot, queues in self.assigned.get(group, {}).items():
            words = commit_words.read(self.words / str(slot), len(queues)) if queues else []
            for key, (of_epoch, offset) in zip(queues, words, strict=True):
                if of_epoch == epoch:
                    self.offsets.setdefault(group, {})[key] = offset

    def rebalance(self, group: str) -> None:
        """Raises the epoch, then reads the words of the one before, then assigns the queues."""
        before = lib.group_epoch(self.control, 0) & 0xFFFF
        lib.group_raise_epoch(self.control, 0)
        self._collect(group, before)
        members = sorted(self.members[group])
        topics = sorted({topic for slot in members for topic in self.members[group][slot]})
        keys = [(topic, queue) for topic in topics for queue in range(look_up(address(self.topics), topic).queues)]
        had = {key: slot for slot, held in self.assigned.get(group, {}).items() for key in held}
        self.assigned[group] = {slot: keys[turn :: len(members)] for turn, slot in enumerate(members)}
        since = self.since.setdefault(group, {})
        for slot, held in self.assigned[group].items():
            for key in held:
                if had.get(key) != slot:
                    since[key] = before + 1
        for slot in members:
            lib.session_ring(self.sessions[slot][0])

    @property
    def control_address(self) -> int:
        return address(self.control)

    @property
    def topics_address(self) -> int:
        return address(self.topics)

    def ring(self) -> None:
        """Wakes every session, as reput does after it has published."""
        for memory, _ in self.sessions.values():
            lib.session_ring(memory)

    def stop(self) -> None:
        lib.control_set_tree_state(self.control, lib.TREE_STOPPED)
        for path in self.words.iterdir():
            commit_words.close(path)


def address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
