"""The coordinator: answers the control socket, and owns topics, sessions and groups. It is plain Python; no message passes
through it.

If it dies, others only have to wait: the supervisor holds the socket and the sessions' descriptors, tables and epochs are in
shared memory, groups and topics in files."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from orbitmq.actors import events
from orbitmq.actors.actor import Actor
from orbitmq.actors.complaints import Complaints
from orbitmq.actors.coordinator.door import Door
from orbitmq.actors.coordinator.operations import Operations
from orbitmq.actors.coordinator.peer import Peer
from orbitmq.actors.groups.group_clock import GroupClock
from orbitmq.actors.groups.group_commits import CommitTable
from orbitmq.actors.groups.group_registry import GroupRegistry
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.later import Later
from orbitmq.actors.pages import PAGE_COORDINATOR, PAGE_GATEWAY
from orbitmq.actors.post import received
from orbitmq.actors.sessions.caller import Share
from orbitmq.actors.sessions.descriptor_store import DescriptorKeeper
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.sessions.sessions import Session, Sessions
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.actors.work.registry import WorkRegistry
from orbitmq.errors import OrbitError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.frames import error_map
from orbitmq.store import config, purged

QUESTIONS_A_TURN = 16
# A handler cannot call Python, so the coordinator looks at closing sessions again after this time.
SETTLE_S = 0.002
SETTLE_SLOWLY_S = 0.1
BURY_S = 1.0
# How long a question waits for another process: less than clients wait for an answer, by default.
LATER_S = 3.0


class Coordinator(Actor):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        assert tree.listener is not None and tree.keeper is not None
        self._core = tree.attach(PAGE_COORDINATOR)
        self._page = lib.control_actor(tree.control, PAGE_COORDINATOR)
        self._selector = selectors.DefaultSelector()
        self._wake_on_signals()
        settings = tree.settings
        percent = settings.user_share_percent
        shares = Share("topics", settings.topic_capacity, percent), Share("queues", settings.queue_capacity, percent)
        for note in (*config.fallbacks(settings.layout), *purged.faults(settings.layout)):
            if note not in tree.notes:  # damaged since the start
                events.warn(note.text)
                tree.notes = (*tree.notes, note)
        self.topics = TopicRegistry(settings.layout, tree.topics, shares, read_only=settings.read_only)
        self.offsets = Offsets(tree.settings.layout, CommitTable(tree))
        self.groups = GroupRegistry(tree, self.topics, self.offsets)
        self.sessions = Sessions(tree, DescriptorKeeper(tree.keeper), self._watch, self._forget, self._session_ended)
        self.groups.sessions = self.sessions
        self._group_clock = GroupClock(self.groups, self.sessions)
        self.work = WorkRegistry(
            tree,
            self.topics,
            self.offsets,
            self.groups,
            lives=lambda slot, epoch: self.sessions.mapped(slot, epoch) is not None,
            stays=self.sessions.stays,
        )
        self.operations = Operations(tree, self.topics, self.sessions, self.groups, self.offsets, self.work)
        changed = self.topics.load()
        self.topics.purges.apply()
        self.offsets.load(self.topics if settings.read_only else None)
        self.groups.load()
        ending = self.sessions.restore()
        self.groups.resume()
        self.work.load()
        for name in changed:
            self.groups.topic_changed(name)
        for session in ending:
            self.sessions.close(session)
        self._look_again_s = SETTLE_S
        self._busy: set[Peer] = set()  # their questions must wait for others' turns
        self._late: set[Peer] = set()  # their first questions wait for another process
        self._complaints = Complaints()
        # Offsets that wait for the log below them to be on disk: (offsets, the log's end when they were taken).
        self._pending: tuple[config.Offsets, int] | None = None
        # Due at once: if the interval began anew with each life, a coordinator that dies often would never write.
        self._persist_at = time.monotonic()
        self._bury_at = None if settings.read_only else time.monotonic()
        self._door = Door(
            tree.listener, self._selector, settings.connections_per_process, settings.connections_per_user, settings.group
        )
        self.operations.serve(self._door.peers)

        if tree.post is not None:
            tree.post.setblocking(False)
            self._selector.register(tree.post, selectors.EVENT_READ, self._on_post)

    def run(self, limit_ms: int) -> None:
        lib.attachment_beat(self._core)
        shut_s = self._door.look()
        waits = [self._look_again_s, limit_ms / 1000, self._group_clock.wait_s(), *([] if shut_s is None else [shut_s])]
        self._serve(min(waits))
        self._group_clock.tick()
        self._look_again_s = self._settle()
        self.work.tidy()
        self._persist()
        self._bury()
        lib.actor_page_add(self._page, lib.COUNT_STEPS, 1)

    def step(self) -> int:
        """Answers questions that have come already."""
        return self._serve(0)

    def drain(self) -> None:
        """From here on nobody is answered. Members continue to commit; the supervisor takes their commits when every actor has
        stopped."""

    def close(self) -> None:
        self._selector.close()
        lib.attachment_close(self._core)

    # ---- the loop

    def _serve(self, timeout: float) -> int:
        ready = self._selector.select(0 if self._busy else min(timeout, SETTLE_S) if self._late else timeout)
        busy, self._busy, self._late = self._busy | self._late, set(), set()
        for key, happened in ready:
            current = self._selector.get_map().get(key.fd)
            if current is None or current.data is not key.data:
                continue  # another peer in this round has ended it
            if isinstance(key.data, Peer):
                busy.discard(key.data)
                self._serve_peer(key.data, happened)
            else:
                key.data()
        for peer in busy:
            self._serve_peer(peer, 0)
        return len(ready) + len(busy)

    def _serve_peer(self, peer: Peer, events: int) -> None:
        """A peer's turn: a limited number of questions, whatever it has sent."""
        try:
            if events & selectors.EVENT_WRITE:
                peer.flush()
            if events & selectors.EVENT_READ and not peer.questions and not peer.receive():
                self._drop(peer)
                return
            for _ in range(QUESTIONS_A_TURN):
                if peer.waits_to_send or not peer.questions:
                    break
                if not self._answer(peer, peer.questions[0]):
                    self._late.add(peer)
                    break
                peer.questions.popleft()
        except (OrbitError, OSError) as error:
            # A peer that breaks the protocol loses its connection, and nobody else notices.
            self._complaints.say(f"process {peer.pid}: {error}")
            self._drop(peer)
            return
        if peer in self._late:  # what it sends, or its end, would wake us again and again
            self._door.ignore(peer)
            return
        if peer.questions and not peer.waits_to_send:
            self._busy.add(peer)
        self._door.listen(peer, selectors.EVENT_WRITE if peer.waits_to_send else selectors.EVENT_READ)

    def _answer(self, peer: Peer, question: dict[str, Any]) -> bool:
        """False: not yet; ask again soon."""
        number = question.get("id", 0)
        try:
            value, descriptors = self.operations.perform(peer, question)
            crash_point("coordinator_performed")
        except Exception as raised:
            error = raised
            if isinstance(error, Later):
                if self._may_wait(peer):
                    return False
                error = error.error
            if not isinstance(error, OrbitError):
                operation = str(question.get("op"))[:80]
                events.error(f"could not answer {operation!r} of process {peer.pid}: {error!r}", error)
            peer.answer({"id": number, **error_map(error)})
        else:
            peer.answer({"id": number, "ok": value}, descriptors)
            crash_point("coordinator_answered")
        peer.waits_until = None
        return True

    def _may_wait(self, peer: Peer) -> bool:
        """Whether its first question may go on waiting. A gateway asks for all of its clients, and does nothing else until it
        is answered."""
        peer.waits_until = peer.waits_until or time.monotonic() + LATER_S
        return time.monotonic() < peer.waits_until and peer.pid != self.tree.page_pid(PAGE_GATEWAY)

    def _drop(self, peer: Peer) -> None:
        """The end of a connection does not end its sessions: the client may come back, and a forked process may hold the socket
        open. One that it has not kept ends: its answer may be lost with the connection."""
        self.operations.take_back(peer)
        self._door.leave(peer)

    def _on_post(self) -> None:
        """The supervisor had to bind the control socket again, or an actor has died."""
        assert self.tree.post is not None
        found = received(self.tree.post)
        if found is None:
            self._selector.unregister(self.tree.post)  # the supervisor is dead, and this process is about to die
            return
        listener, death = found
        if listener is not None:
            self._door.replace(listener)
            crash_point("coordinator_moved")
        if death is not None:
            self.tree.deaths[death.actor] = death

    # ---- clients' deaths

    def _watch(self, process: ProcessId, pidfd: int) -> None:
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._client_died(process, pidfd))

    def _forget(self, pidfd: int) -> None:
        with suppress(KeyError):  # its process has died: nobody watches it any more
            self._selector.unregister(pidfd)

    def _client_died(self, process: ProcessId, pidfd: int) -> None:
        # Readable for ever, so once is enough.
        self._selector.unregister(pidfd)
        self.sessions.client_died(process)
        self._look_again_s = SETTLE_S

    def _session_ended(self, session: Session) -> None:
        if session.consumes:
            self.groups.leave(session)
        self._look_again_s = SETTLE_S

    def _settle(self) -> float:
        """Frees sessions whose time has come. Returns in how many seconds to look again."""
        oldest = self.sessions.settle()
        if oldest is None:
            return self.tree.settings.offsets_interval_s
        # A full disk may stop the writer for any length of time; there is no need to look often then.
        return SETTLE_S if time.monotonic() - oldest < 1.0 else SETTLE_SLOWLY_S

    # ---- offsets

    def _persist(self) -> None:
        """Takes a snapshot from time to time, and writes it once the log that it refers to is on disk."""
        if self._pending is not None:
            offsets, wrote = self._pending
            if self.tree.positions().flushed >= wrote:
                self._pending = None
                try:
                    if self.groups.persist(offsets):
                        self.work.stored(offsets)
                    crash_point("coordinator_stored")
                except OSError as error:
                    # Tried again with the next snapshot. Until then a power cut repeats work.
                    events.warn(f"cannot write the groups' offsets: {error}")
        elif time.monotonic() >= self._persist_at:
            self._persist_at = time.monotonic() + self.tree.settings.offsets_interval_s
            self.groups.collect()
            self.work.collect()
            crash_point("coordinator_collected")
            self.groups.remember()
            if self.offsets.changed:
                # Take the offsets first and the position after them: then everything the offsets point at is below the
                # position.
                snapshot = self.offsets.take()
                self._pending = (snapshot, int(self.tree.positions().wrote))

    # ---- deleted topics

    def _bury(self) -> None:
        """Takes from deleted topics, now and then, what they have got meanwhile."""
        if self._bury_at is None or time.monotonic() < self._bury_at:
            return
        self._bury_at = time.monotonic() + BURY_S
        try:
            self.topics.purges.bury()
        except OSError as error:
            self._complaints.say(f"cannot write down where the queues of deleted topics end: {error}")

    def _wake_on_signals(self) -> None:
        """A signal then ends the selector's wait at once. Without this it would only be noted until the wait is over."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._signal_pair = (reader, writer)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader.fileno(), 4096))
