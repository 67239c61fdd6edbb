"""A process's mappings of one life of a broker tree. The control block and the topic table are mapped read-only. The wake words
are mapped writable, once somebody needs them."""

from __future__ import annotations

import mmap
import os
import select
import time
from contextlib import suppress
from typing import Any

from orbitmq.errors import BrokerStopped, ProtocolError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm import runtime
from orbitmq.shm.memfd import memfd_sealed
from orbitmq.shm.segment import SegmentKind, attach_segment, segment_name

LOOK_S = 0.001
POLL_MS_MAX = 2**31 - 1  # what poll(2) takes


class Attachment:
    """Everything a client maps of a tree. Keep the attachment as long as you use one of its addresses or pointers.

    Raises: BrokerStopped: the tree has ended; BrokerNotRunning, ProtocolError: its segments are gone, or of another version."""

    def __init__(self, description: runtime.Description) -> None:
        self.description = description
        self.pid = os.getpid()
        try:
            self.supervisor_fd = os.pidfd_open(description.pid)
        except ProcessLookupError:
            self.supervisor_fd = -1
            raise _stopped(description) from None
        # Take the pidfd first, the start time after it. In the other order they could belong to different processes with one
        # number.
        if not runtime.lives(description):
            os.close(self.supervisor_fd)
            self.supervisor_fd = -1
            raise _stopped(description)
        generation = description.generation
        owner = runtime.user_of(description.pid)
        if owner is None:
            raise _stopped(description)
        self._control = attach_segment(segment_name(generation, "ctl"), SegmentKind.CONTROL, owner=owner)
        self._topics = attach_segment(segment_name(generation, "top"), SegmentKind.TOPICS, owner=owner)
        self.control: Any = ffi.cast("struct control *", self._control.pointer)
        self.topics: Any = ffi.cast("struct topics *", self._topics.pointer)
        self.wake: Any = ffi.NULL
        self._wakes: list[Any] = []
        self.control_address = self._control.address
        self.topics_address = self._topics.address
        self.wake_address = 0

    def map_wake(self, memfd: int) -> None:
        """Maps the wake words. Raises: ProtocolError: the file is something else."""
        size = ffi.sizeof("struct wake")
        if not memfd_sealed(memfd, size):
            raise ProtocolError(
                f"could not use the wake words: they are no sealed memory of {size} bytes",
                hint="run client and broker from one version of orbitmq",
            )
        # Two threads, or a signal handler that interrupts this, may map them twice. Both mappings stay, because both are in
        # use.
        words = ffi.from_buffer(mmap.mmap(memfd, size), require_writable=True)
        pointer, address = ffi.cast("struct wake *", words), int(ffi.cast("uintptr_t", words))
        self._wakes.append(words)
        # Set together, without a call in between, so that an exception of a signal handler finds both or neither.
        self.wake, self.wake_address = pointer, address

    @property
    def generation(self) -> int:
        return self.description.generation

    @property
    def store(self) -> str:
        """Root folder of the store."""
        return self.description.store

    def alive(self) -> bool:
        """True while the supervisor runs and has not been told to stop."""
        if self.supervisor_fd < 0 or lib.control_tree_state(self.control) >= lib.TREE_STOPPING:
            return False
        poll = select.poll()
        poll.register(self.supervisor_fd, select.POLLIN)
        return not poll.poll(0)

    def pause(self, seconds: float) -> None:
        """Waits so many seconds, or until the tree ends."""
        poll = select.poll()
        poll.register(self.supervisor_fd, select.POLLIN)
        poll.poll(seconds * 1000)

    def wait_ended(self, timeout: float) -> None:
        """Waits, at most so many seconds, until the supervisor has ended. Raises: TimedOut."""
        poll = select.poll()
        poll.register(self.supervisor_fd, select.POLLIN)
        if not poll.poll(min(timeout * 1000, POLL_MS_MAX)):
            name = self.description.name
            raise TimedOut(
                f"could not wait for the end of the broker {name!r}: it has not ended within {timeout:g} s",
                hint=hint("look with `orbitmq status` what it does; stopping it again is safe || raise {timeout of connect}"),
                broker=name,
                timeout=timeout,
            )

    def wait_indexed(self, end: int, timeout: float) -> bool:
        """Waits, at most so many seconds, until reput has passed the physical offset `end`; False when the time is over. The
        attachment needs wake words.

        Raises: BrokerStopped: the tree ended first."""
        return self._wait(lib.control_await_reput, end, timeout, "indexed its log")

    def wait_caught_up(self, timeout: float, doing: str, *, partly: bool = False) -> None:
        """Waits, at most so many seconds, until the queues and the index have what is in the log now, and so all that was
        acknowledged before.

        doing: what needs that, for the error. partly: True: what is there will do if reput says itself that it cannot go on, as
        on a full disk.

        Raises: TimedOut; BrokerStopped: the tree ended first."""
        seen = self._positions()
        if seen.reput >= seen.wrote or lib.control_settings(self.control).read_only:
            return  # in a store that is only read, reput may never come further
        enough = self._reput_reached_or_said_why_not if partly else self._reput_reached
        if not self._wait(enough, int(seen.wrote), timeout, "indexed its log"):
            why = self._positions().reput_error
            raise TimedOut(
                f"could not {doing} within {timeout:g} s: reput, which fills the queues and the index, is behind the log's end"
                + (f": {os.strerror(why)}" if why else ""),
                hint=hint("look with `orbitmq health` what holds it up || raise {timeout of connect}"),
                timeout=timeout,
            )

    def wait_flushed(self, end: int, timeout: float) -> bool:
        """The same, until the log is on disk up to `end`."""
        return self._wait(lib.control_await_flushed, end, timeout, "flushed its log")

    def wait_halves(self, timeout: float) -> bool:
        """The same, until the writer knows which transactions have ended, which it reads after each start."""
        return self._wait(self._halves_ready, 0, timeout, "read which transactions have ended")

    def _reput_reached(self, _control: Any, _wake: Any, end: int, left_ns: int) -> bool:
        """Needs no wake words, which only the coordinator gives: reput is seldom behind, and not for long."""
        if self._positions().reput < end:
            self.pause(min(left_ns / 1e9, LOOK_S))
        return bool(self._positions().reput >= end)

    def _reput_reached_or_said_why_not(self, control: Any, wake: Any, end: int, left_ns: int) -> bool:
        return self._reput_reached(control, wake, end, left_ns) or bool(self._positions().reput_error)

    def _positions(self) -> Any:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return seen

    def _halves_ready(self, control: Any, _wake: Any, _end: int, left_ns: int) -> bool:
        """Looks twice: nothing wakes those who wait for this, which is soon there, and once in a tree's life."""
        if not lib.control_halves_ready(control):
            self.pause(min(left_ns / 1e9, LOOK_S))
        return bool(lib.control_halves_ready(control))

    def _wait(self, look: Any, end: int, timeout: float, what: str) -> bool:
        deadline = time.monotonic() + timeout
        left = timeout
        while not look(self.control, self.wake, end, max(0, int(left * 1e9))):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not self.alive():
                name = self.description.name
                raise BrokerStopped(
                    f"could not wait until the broker {name!r} had {what}: it stopped before",
                    hint="start it again: the start recovers the store; repeating this is safe then",
                    broker=name,
                )
        return True

    def settings(self) -> Any:
        """A read-only view of struct settings."""
        return lib.control_settings(self.control)

    def rising_from(self) -> int:
        """From this physical offset on, no record is followed by one with an earlier store timestamp."""
        return int(lib.control_rising(self.control))

    def __del__(self) -> None:
        descriptor = getattr(self, "supervisor_fd", -1)
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)


def _stopped(description: runtime.Description) -> BrokerStopped:
    name = description.name
    text = f"could not attach to the broker {name!r}: it has stopped"
    return BrokerStopped(text, hint="start it again: orbitmq up; repeating this is safe then", broker=name)
