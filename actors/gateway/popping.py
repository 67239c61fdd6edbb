"""The sessions by which the gateway is a worker of groups whose messages remote clients pop
(native/remoting/gateway/gateway_pop.h)."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from orbitmq.actors.gateway.leaving import Leaving
from orbitmq.actors.gateway.piece import Piece
from orbitmq.actors.groups.groups import EARLIEST, FROM_LAST
from orbitmq.actors.tree import Tree
from orbitmq.errors import Full, GroupInUse, OrbitError
from orbitmq.native._core import ffi, lib
from orbitmq.remoting.host import Ask
from orbitmq.remoting.request import LATER, SYSTEM_ERROR, Answer, Done, Notice, Wanted

RING = 1024  # records in each ring of a session
PARTING_S = 5.0  # how long a pop may wait for sessions that joined its group otherwise, and are closed, to be gone
LOOK_S = 0.005  # between two looks whether they are
IN_HAND = 16_384  # messages that the clients of one session may have; POP_LEASES_MAX


class Popping:
    """leaving: closes the sessions of which there is no more use."""

    def __init__(
        self, gateway: Any, tree: Tree, ask: Ask, leaving: Leaving, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gateway = gateway
        self._tree = tree
        self._ask = ask
        self._clock = clock
        self._leaving = leaving
        self._mapped: dict[int, tuple[mmap.mmap, Any, str]] = {}  # by address; with the group
        # Groups that a session of ours has left: until when to wait for its end, and when to look for it next.
        self._parting: dict[str, tuple[float, float]] = {}
        self._end = ffi.new("struct gateway_pop_end *")

    def open(self, wanted: Wanted) -> bool:
        """Joins the group as a worker. False: not yet, because a session of ours that had joined otherwise, with another filter
        or order, is about to be gone. Raises: OrbitError: the coordinator refused. OSError."""
        with _popped(wanted) as what:
            if lib.gateway_pop_known(self._gateway, what):  # another client may have asked just before
                return True
            now_s = self._clock()
            until_s, next_s = self._parting.get(wanted.group, (now_s, now_s))
            if now_s < next_s:
                return False
            try:
                self._open(wanted, what)
            except GroupInUse as error:
                if now_s >= until_s or not self._only_leaving(wanted.group, error):
                    raise
                self._parting[wanted.group] = until_s, now_s + LOOK_S
                return False
            return True

    def _only_leaving(self, group: str, error: GroupInUse) -> bool:
        """Whether nobody is in the way but sessions of ours that are closed: no consumer, no local worker, nobody who pops."""
        joined = any(each == group for *_, each in self._mapped.values())
        return not joined and list(error.pids or ()) == [os.getpid()]

    def _open(self, wanted: Wanted, what: Any) -> None:
        shape, (memfd,) = self._ask("open_session", work_capacity=RING)
        try:
            memory = mmap.mmap(memfd, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError:
            self._leaving.add(shape["slot"], shape["epoch"])
            raise
        finally:
            os.close(memfd)
        held = ffi.from_buffer("uint8_t[]", memory, require_writable=True)
        try:
            start = FROM_LAST if wanted.latest else EARLIEST
            self._ask(
                "join_work", slot=shape["slot"], epoch=shape["epoch"], generation=self._tree.generation, group=wanted.group,
                topics=[wanted.topic], in_hand=IN_HAND, visibility_ms=lib.WORK_WAIT_MS_MAX, start=start, tags=wanted.tags,
                sql=wanted.sql, queue_ordered=wanted.ordered,
            )  # fmt: skip
            if not lib.gateway_pop_open(self._gateway, what, held, ffi.new("struct session_shape *", shape)):
                raise Full(f"cannot hand out to the group {wanted.group!r}: too many groups and topics are popped")
        except BaseException:
            self._leaving.add(shape["slot"], shape["epoch"])
            ffi.release(held)
            memory.close()
            raise
        self._mapped[int(ffi.cast("uintptr_t", held))] = memory, held, wanted.group

    def notice(self, asked: Any, notice: Notice) -> Answer | None:
        """Has the client told when there is something to pop. Returns why it cannot be; LATER: it cannot be yet, as `open`."""
        with _popped(notice.wanted) as what:
            if not lib.gateway_pop_known(self._gateway, what):
                if not lib.gateway_pop_may(self._gateway, asked):
                    why = "this connection pops other groups, topics or filters already, as many as one may"
                    return Answer(SYSTEM_ERROR, why)
                try:
                    if not self.open(notice.wanted):
                        return LATER
                except (OrbitError, OSError) as error:
                    return Answer(SYSTEM_ERROR, str(error))
            told = lib.gateway_pop_notice(self._gateway, asked, what, notice.poll_ms)
            return None if told else Answer(SYSTEM_ERROR, "the group cannot get messages now")

    def waiting(self, group: str, topic: str, queue: int) -> int:
        """How many pops wait that have named this queue; -1: none."""
        texts = Piece(group), Piece(topic)
        return int(lib.gateway_pops_waiting(self._gateway, texts[0].slice, texts[1].slice, queue))

    def look(self) -> None:
        """Closes the sessions of which the loop has no more use."""
        while lib.gateway_pop_over(self._gateway, self._end):
            self._leaving.add(self._end.slot, self._end.epoch)
            self._part(self._unmap(int(ffi.cast("uintptr_t", self._end.memory))))

    def acknowledge(self, asked: Any, done: Done) -> bool:
        """False: there is no memory."""
        pieces: dict[str, Piece] = {}

        def piece(text: str) -> Any:
            return pieces.setdefault(text, Piece(text)).slice

        acks = ffi.new("struct gateway_pop_ack[]", len(done.popped))
        for ack, each in zip(acks, done.popped, strict=True):
            ack.group, ack.topic, ack.retry = piece(each.group), piece(each.topic), each.retry
            ack.queue_id, ack.offset, ack.pop_ms, ack.tries = each.queue, each.offset, each.pop_ms, each.tries
        return bool(lib.gateway_acknowledge(self._gateway, asked, acks, len(done.popped)))

    def close(self) -> None:
        """The loop is closed. The coordinator sees that the process ends."""
        for address in list(self._mapped):
            self._unmap(address)

    def _unmap(self, address: int) -> str:
        memory, held, group = self._mapped.pop(address)
        ffi.release(held)
        memory.close()
        return group

    def _part(self, group: str) -> None:
        now_s = self._clock()
        self._parting = {each: times for each, times in self._parting.items() if times[0] > now_s}
        self._parting[group] = now_s + PARTING_S, now_s


@contextmanager
def _popped(wanted: Wanted) -> Iterator[Any]:
    """It for C; it points to texts that are kept as long as the block runs."""
    texts = [Piece(text) for text in (wanted.group, wanted.topic, wanted.filter)]
    told = (wanted.is_sql, wanted.ordered, wanted.any_filter)
    yield ffi.new("struct gateway_popped *", (*(each.slice for each in texts), *told))
