"""A broker without processes whose groups are the real ones: the coordinator's registry and clock over a composed store, with a
time that only tests move. If the coordinator dies, at any of its crash points, a new registry takes over the same files and
words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from orbitmq.actors.groups.group_clock import GroupClock
from orbitmq.actors.groups.group_registry import GroupRegistry
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.sessions.sessions import Session
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.client.connection.session import SessionHandle
from orbitmq.store.layout import StoreLayout
from tests.client.composed_broker import ComposedBroker

SECOND_NS = 1_000_000_000
LOOK_NS = 100_000_000
BEGIN_NS = 1_000 * SECOND_NS


class Died(Exception):
    """Raised for the coordinator's death at a crash point."""


class TimedSession(Session):
    """A session whose client makes its calls in the tests' time. The word in its memory has the machine's."""

    call_ns = 0

    def called_ns(self) -> int:
        return self.call_ns


class RegistryBroker(ComposedBroker):
    """See client/connection/session.py, ConsumerOpener."""

    name = "registry"

    def __init__(self, root: Path, **sizes: int) -> None:
        super().__init__(root, **sizes)
        self.layout = StoreLayout.at(root)
        self.layout.make_folders()
        self.made: dict[tuple[int, int], TimedSession] = {}
        self.clock_ns = BEGIN_NS
        self.die_at: str | None = None
        self.deaths = 0
        self.start_coordinator()

    def start_coordinator(self) -> None:
        """The first one, or a successor of one that was killed."""
        settings = SimpleNamespace(
            layout=self.layout, read_only=False, name=self.name, user_share_percent=50, shared_groups=False
        )
        tree = cast(Any, SimpleNamespace(settings=settings, control=self.control, generation=1))
        topics = TopicRegistry(self.layout, self.topics)
        self.offset_table = Offsets(self.layout)
        self.offset_table.load(topics)
        self.registry = GroupRegistry(tree, topics, self.offset_table, self.now_ns)
        self.registry.sessions = cast(Any, self)
        self.clock = GroupClock(self.registry, cast(Any, self), self.now_ns)
        self.registry.load()
        self.registry.resume()

    def now_ns(self) -> int:
        return self.clock_ns

    def mapped(self, slot: int, epoch: int) -> Session | None:
        return self.made.get((slot, epoch))

    def open_session(self, **sizes: int) -> SessionHandle:
        handle = super().open_session(**sizes)
        memory, shape = self.sessions[handle.slot]
        made = TimedSession(handle.slot, 1, ProcessId(handle.pid, 0), None, shape, cast(Any, None), memory)
        made.call_ns = self.clock_ns
        self.made[handle.slot, 1] = made
        return handle

    def client_gone(self, slot: int) -> None:
        """The session's client has died, or has closed it."""
        if (slot, 1) in self.made:
            self.done(lambda: self.registry.leave(self.made[slot, 1]))
            del self.made[slot, 1]

    def called(self, slot: int) -> None:
        """The session's client has made a call now."""
        if (slot, 1) in self.made:
            self.made[slot, 1].call_ns = self.clock_ns

    def caught_up(self, doing: str) -> None:
        pass

    def ask_for_file(self, operation: str, **fields: Any) -> tuple[Any, int]:
        answer = self.ask(operation, **fields)
        return answer, self.registry.words_descriptor(self.made[fields["slot"], fields["epoch"]])

    def ask(self, operation: str, **fields: Any) -> Any:
        return self.done(lambda: self._answer(operation, **fields))

    def done(self, work: Callable[[], Any], repeat: bool = True) -> Any:
        """One turn of the coordinator, or of its successor if it dies, and the turn after it. repeat: False: the client that
        asked has died as well, so nobody asks the successor."""
        while True:
            try:
                with (
                    patch("orbitmq.actors.groups.group_registry.crash_point", self._pass),
                    patch("orbitmq.actors.groups.commit_files.crash_point", self._pass),
                    patch("orbitmq.actors.groups.group_configs.crash_point", self._pass),
                ):
                    answer = work()
                    self.clock.tick()
                return answer
            except Died:
                self.start_coordinator()
                if not repeat:
                    work = _nothing

    def _pass(self, point: str) -> None:
        if point == self.die_at:
            self.die_at = None
            self.deaths += 1
            raise Died

    def _answer(self, operation: str, **fields: Any) -> Any:
        group = fields["group"]
        if operation == "committed":
            self.registry.collect()
            return [[*queue, offset] for queue, offset in self.offset_table.of_group(group).items()]
        session = self.made[fields["slot"], fields["epoch"]]
        self.called(session.slot)
        if operation == "join_group":
            times = {"poll_ms": fields["poll_ms"], "revoke_ms": fields["revoke_ms"]}
            return self.registry.join(session, group, fields["topics"], fields["start"], **times)
        if operation == "release_queues":
            queues = [((topic, queue), since) for topic, queue, since in fields["released"]]
            return self.registry.release(session, group, queues)
        return self.registry.assignment(session, group)

    def pass_time(self, seconds: float) -> None:
        """The coordinator looks all the time, ten times a second."""
        for _ in range(int(seconds * SECOND_NS / LOOK_NS)):
            self.clock_ns += LOOK_NS
            self.tick()

    def tick(self) -> None:
        self.done(lambda: None)


def _nothing() -> None:
    """What nobody asks for."""
