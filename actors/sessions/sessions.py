"""Sessions: memory that one client writes. They are made here, kept in the supervisor, and end at the latest with their client.

Life of a slot:  free -> ready -> closing -> drained -> settled -> free.
A slot is ready once its client has said that it knows of the session. Until then the coordinator alone does: if it dies,
the session is gone. When its client closes it or dies, a slot becomes closing. Its handler empties the submission ring and
marks the slot drained. When the lane has passed what the session put into it, no process will write to its entry any more,
and the slot may be used again under the next epoch. If the writer has to give a session up, the slot is lost until its
handler marks it faulty, because that handler may be in the middle of it. A session without a submission ring goes from
closing to free at once: a process that still maps it learns from its epoch."""

from __future__ import annotations

import mmap
import os
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orbitmq.actors.pages import PAGE_HANDLER
from orbitmq.actors.sessions.caller import OPERATOR, Caller, Share
from orbitmq.actors.sessions.descriptor_store import DescriptorKeeper
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.tree import Tree
from orbitmq.errors import Full, SettingError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.memfd import create_memfd
from orbitmq.store.settings.tree_settings import SESSIONS_MAX

# A handler shows ten times a second that it is alive. If it has not done so for this long, it hangs, or the machine does.
HUNG_MS = 1000


@dataclass(slots=True)
class Session:
    """One session of one client process. `memory` is this process's mapping, `shape` the trusted copy; `user` is its user's
    mark (caller.py). waits: number in the supervisor and inode of its memfd, until it is offered to the actors."""

    slot: int
    epoch: int
    process: ProcessId
    user: int | None
    shape: Any
    memory: mmap.mmap
    pointer: Any
    waits: tuple[int, int] | None = None
    closing_since: float = 0.0
    settled_at: int | None = None  # lane position to wait for; None: not drained yet

    @property
    def consumes(self) -> bool:
        return bool(self.shape.queue_capacity)

    @property
    def produces(self) -> bool:
        return bool(self.shape.sq_capacity)

    @property
    def works(self) -> bool:
        return bool(self.shape.work_capacity)

    @property
    def key(self) -> str:
        return f"{self.slot}.{self.epoch}"

    @property
    def kept_as(self) -> str:
        """Its key in the descriptor store, with the client's start and user, which a successor cannot learn from a pidfd whose
        process has ended."""
        return f"{self.key}.{self.process.started}.{'' if self.user is None else self.user}"

    def called_ns(self) -> int:
        """CLOCK_MONOTONIC of the client's last call, as the client writes it."""
        return int(lib.session_called_ns(self.pointer))

    def ring(self) -> None:
        lib.session_ring(self.pointer)


class Sessions:
    """The session table's owner.

    watch is called with each client process that gets its first session, and with a pidfd of it; forget with that pidfd when
    its last session is gone; ended with each session that was offered, when its end begins."""

    def __init__(
        self, tree: Tree, keeper: DescriptorKeeper, watch: Callable[[ProcessId, int], None], forget: Callable[[int], None],
        ended: Callable[[Session], None],
    ) -> None:  # fmt: skip
        self._tree = tree
        self._keeper = keeper
        self._watch = watch
        self._forget = forget
        self._ended = ended
        self._sessions: dict[int, Session] = {}
        self._closing: dict[int, Session] = {}
        self._pidfds: dict[ProcessId, int] = {}
        self._share = Share("sessions", SESSIONS_MAX, tree.settings.user_share_percent)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def restore(self) -> list[Session]:
        """Takes over from a predecessor: every session that the supervisor still keeps. Returns the sessions whose end had
        begun, for the caller to close, and the faulty ones: they are of no more use to their clients, and nothing says whether
        these have already closed them."""
        ending = []
        for kept in self._keeper.items():
            *numbers, user = kept.key.split(".")
            slot, epoch, started = map(int, numbers)
            memfd, pidfd = kept.descriptors
            shape = self._entry(slot)
            state = lib.session_get_state(self._tree.control, slot)
            if state == lib.SESSION_FREE or shape.epoch != epoch:
                # The predecessor died before it offered it, or between freeing and dropping it.
                self._keeper.drop(kept.key)
                os.close(memfd)
                os.close(pidfd)
                continue
            session = self._map(shape, memfd, ProcessId(shape.pid, started), int(user) if user else None)
            os.close(memfd)
            self._sessions[slot] = session
            if session.process in self._pidfds:
                os.close(pidfd)
            else:
                self._pidfds[session.process] = pidfd
                self._watch(session.process, pidfd)
            if state in (lib.SESSION_CLOSING, lib.SESSION_DRAINED, lib.SESSION_FAULTY, lib.SESSION_LOST):
                ending.append(session)
        for slot in range(SESSIONS_MAX):
            # It was freed, and then marked drained by a handler that came late.
            if slot not in self._sessions and lib.session_get_state(self._tree.control, slot) != lib.SESSION_FREE:
                lib.session_set_state(self._tree.control, slot, lib.SESSION_FREE)
        crash_point("sessions_restored")
        return ending

    def open(
        self, process: ProcessId, pidfd: int, *, window: int, sq_capacity: int, queue_capacity: int, message_max: int,
        work_capacity: int = 0, caller: Caller = OPERATOR, most: int | None = None,
    ) -> tuple[Session, int]:  # fmt: skip
        """A fresh session for the client that the pidfd stands for, and its memfd, which the caller closes. most: how many
        the process may have; None: sessions_per_process.

        Raises: SettingError: a size that is not allowed; Full: no slot is free, or the process or its user has its share;
            StoreFull: no memory.

        No actor sees it before `offer`.
        """
        _check_sizes(window, sq_capacity, queue_capacity, message_max, work_capacity)
        self._check_share(process, self._tree.settings.sessions_per_process if most is None else most)
        self._share.check(caller, Counter(session.user for session in self._sessions.values()))
        # If a client wants larger messages than this broker allows, the first message that is too large gets the error.
        limit = self._tree.settings.files.message_max
        message_max = min(message_max or limit, limit)
        slot = self._free_slot(bool(sq_capacity))
        shape = self._entry(slot)
        # Never 0, and not one that anybody may still remember for this slot.
        shape.epoch = shape.epoch % 0xFFFFFFFF + 1
        lib.session_claim_entry(self._tree.control, slot, shape.epoch)
        shape.slot, shape.window, shape.queue_capacity = slot, window, queue_capacity
        shape.sq_capacity, shape.message_max, shape.pid = sq_capacity, message_max, process.pid
        shape.work_capacity = work_capacity
        memfd = create_memfd(f"omq-session-{slot}", lib.session_size(shape))
        crash_point("sessions_made")
        try:
            session = self._map(shape, memfd, process, caller.mark)
            lib.session_init(session.pointer, shape, self._tree.generation)
            # Kept before it is offered: every actor can then always open a session that is in the table.
            session.waits = self._keep(session, memfd, pidfd), os.fstat(memfd).st_ino
        except BaseException:
            os.close(memfd)
            raise
        crash_point("sessions_kept")
        self._sessions[slot] = session
        return session, memfd

    def offer(self, session: Session) -> bool:
        """Shows it to the actors. False if it has ended."""
        if self._sessions.get(session.slot) is not session or session.waits is None:
            return False
        lib.session_open_entry(self._tree.control, *session.waits, session.shape)
        session.waits = None
        crash_point("sessions_offered")
        return True

    def get(self, slot: int, epoch: int, process: ProcessId) -> Session | None:
        """The client's own session, unless it is gone."""
        session = self._sessions.get(slot)
        mine = session is not None and session.epoch == epoch and session.process == process
        return session if mine else None

    def mapped(self, slot: int, epoch: int) -> Session | None:
        """The session while its words can be read, also while it is closing."""
        session = self._sessions.get(slot)
        return session if session is not None and session.epoch == epoch else None

    def stays(self, slot: int, epoch: int) -> bool:
        """Whether the session is there and its end has not begun."""
        return slot not in self._closing and self.mapped(slot, epoch) is not None

    def close(self, session: Session) -> None:
        """Begins the end of a session. Calling it again changes nothing, also when it is over."""
        if session.slot in self._closing or self._sessions.get(session.slot) is not session:
            return
        if session.waits is not None:
            self._free(session)
            return
        session.closing_since = time.monotonic()
        self._closing[session.slot] = session
        self._ended(session)
        crash_point("sessions_left")
        # Must not overwrite what the session's handler may have found at this very moment: a faulty session stays faulty.
        lib.session_move_state(self._tree.control, session.slot, lib.SESSION_READY, lib.SESSION_CLOSING)
        crash_point("sessions_closing")
        if session.works:
            lib.control_ring_dispatcher(self._tree.wake)
        if session.consumes:
            lib.session_call_notifier(self._tree.wake, session.slot)
        if session.produces:
            lib.session_call_handler(self._tree.control, self._tree.wake, session.slot)
        self.settle()

    def client_died(self, process: ProcessId) -> None:
        for session in [each for each in self._sessions.values() if each.process == process]:
            self.close(session)

    def reap(self, process: ProcessId) -> bool:
        """True if the process is dead; its sessions then end now, and not when the loop comes to it."""
        pidfd = self._pidfds.get(process)
        looking = select.poll()
        if pidfd is not None:
            looking.register(pidfd, select.POLLIN)
        if pidfd is None or not looking.poll(0):
            return False
        self.client_died(process)
        return True

    def settle(self) -> float | None:
        """Frees the closing sessions whose time has come. Returns since when the oldest of the others is closing, if any."""
        for session in list(self._closing.values()):
            if self._is_settled(session):
                self._free(session)
        return min((session.closing_since for session in self._closing.values()), default=None)

    def _is_settled(self, session: Session) -> bool:
        if session.works:  # the dispatcher takes its last answers
            return bool(lib.session_get_state(self._tree.control, session.slot) != lib.SESSION_CLOSING)
        if not session.produces:
            return True
        lane = self._tree.lanes[session.slot % self._tree.settings.lanes]
        if session.settled_at is None:
            # There is no limit: a handler that was only late would put more into the lane after the position that is waited
            # for, and its verdicts would count for the next session in this slot. A dead handler has a successor.
            if lib.session_get_state(self._tree.control, session.slot) in (lib.SESSION_CLOSING, lib.SESSION_LOST):
                return False
            session.settled_at = lib.lane_published(lane)
        return bool(lib.lane_freed(lane) >= session.settled_at)

    def _keep(self, session: Session, memfd: int, pidfd: int) -> int:
        """Hands the session to the supervisor and has its client watched. Returns the memfd's number there."""
        fresh = -1
        try:
            if session.process not in self._pidfds:
                fresh = os.dup(pidfd)
                self._watch(session.process, fresh)
            kept = self._keeper.put(session.kept_as, (memfd, pidfd))
        except BaseException:
            _unmap(session)
            if fresh >= 0:
                self._forget(fresh)
                os.close(fresh)
            raise
        if fresh >= 0:
            self._pidfds[session.process] = fresh
        return kept.numbers[0]

    def _free(self, session: Session) -> None:
        lib.session_set_state(self._tree.control, session.slot, lib.SESSION_FREE)
        crash_point("sessions_freed")
        self._keeper.drop(session.kept_as)
        crash_point("sessions_dropped")
        self._closing.pop(session.slot, None)
        del self._sessions[session.slot]
        _unmap(session)
        if self._count(session.process) == 0:
            pidfd = self._pidfds.pop(session.process)
            self._forget(pidfd)
            os.close(pidfd)

    def _count(self, process: ProcessId) -> int:
        return sum(session.process == process for session in self._sessions.values())

    def _check_share(self, process: ProcessId, limit: int) -> None:
        """One process must not be able to take all slots. Sessions that are closing count, because they still have theirs."""
        held = self._count(process)
        if held >= limit:
            raise Full(
                f"cannot open another session: process {process.pid} has {held} and the limit is {limit}",
                hint=hint(
                    "share producers among threads || close what is not needed || raise {sessions_per_process of broker}"
                ),
                limit="sessions_per_process",
                value=held,
                most=limit,
            )

    def _free_slot(self, produces: bool) -> int:
        """The free slot whose lane has the fewest sessions of this kind; a producer's lane is slot % lanes. A lane whose
        handler hangs comes last: it would keep the session waiting, and later the slot when the client has gone."""
        lanes = self._tree.settings.lanes
        busy = [0] * lanes
        for session in self._sessions.values():
            if session.produces == produces:
                busy[session.slot % lanes] += 1
        late = [produces and self._tree.silent_ms(PAGE_HANDLER + lane) > HUNG_MS for lane in range(lanes)]
        for lane in sorted(range(lanes), key=lambda at: (late[at], busy[at], at)):
            for slot in range(lane, SESSIONS_MAX, lanes):
                if slot not in self._sessions and lib.session_get_state(self._tree.control, slot) == lib.SESSION_FREE:
                    return slot
        raise Full(
            f"cannot open a session: all {SESSIONS_MAX} sessions of the broker are taken",
            hint="close producers and consumers that are not needed, or share one among threads",
            limit="sessions",
        )

    def _entry(self, slot: int) -> Any:
        """A copy of the slot's shape."""
        shape = ffi.new("struct session_shape *")
        lib.session_get_entry(self._tree.control, slot, shape, ffi.new("int32_t *"), ffi.new("uint64_t *"))
        return shape

    def _map(self, shape: Any, memfd: int, process: ProcessId, user: int | None) -> Session:
        memory = mmap.mmap(memfd, lib.session_size(shape))
        pointer = ffi.cast("struct session *", ffi.from_buffer(memory, require_writable=True))
        return Session(shape.slot, shape.epoch, process, user, shape, memory, pointer)


def _unmap(session: Session) -> None:
    session.pointer = None
    with suppress(BufferError):
        session.memory.close()


def _check_sizes(window: int, sq_capacity: int, queue_capacity: int, message_max: int, work_capacity: int) -> None:
    def refuse(name: str, value: int, why: str) -> SettingError:
        return SettingError(f"cannot open a session with {name} {value!r}: {why}", name=name, value=value)

    for name, value, most in (("window", window, lib.SESSION_WINDOW_MAX), ("sq_capacity", sq_capacity, lib.SQ_CAPACITY_MAX)):
        if not isinstance(value, int) or not 0 <= value <= most or value & (value - 1):
            raise refuse(name, value, f"it must be a power of two, at most {most:,}")
    if (sq_capacity == 0) != (window == 0):
        raise refuse("sq_capacity", sq_capacity, f"sq_capacity and window must both be zero or both not; window is {window}")
    if sq_capacity and sq_capacity < lib.RING_MIN_CAPACITY:
        raise refuse("sq_capacity", sq_capacity, f"it must be at least {lib.RING_MIN_CAPACITY:,}")
    if not isinstance(queue_capacity, int) or not 0 <= queue_capacity <= lib.SESSION_QUEUES_MAX:
        raise refuse("queue_capacity", queue_capacity, f"it must be from 0 to {lib.SESSION_QUEUES_MAX:,}")
    if not isinstance(work_capacity, int) or (work_capacity and (sq_capacity or queue_capacity)):
        raise refuse("work_capacity", work_capacity, "a session of a worker has no other part")
    if work_capacity:
        if not lib.WORK_RING_MIN <= work_capacity <= lib.WORK_RING_MAX or work_capacity & (work_capacity - 1):
            limits = f"{lib.WORK_RING_MIN} to {lib.WORK_RING_MAX:,}"
            raise refuse("work_capacity", work_capacity, f"it must be a power of two, from {limits}")
    elif not sq_capacity and not queue_capacity:
        raise refuse("queue_capacity", queue_capacity, "a session without a submission ring needs queues")
    if not isinstance(message_max, int) or message_max < 0:
        raise refuse("message_max", message_max, "it must be a number of bytes")
