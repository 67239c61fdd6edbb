"""The consumer: reads the queues of its topics straight from the store's files, and asks the broker only for its share of
them, for waking it, and to keep its offsets.

A consumer belongs to one thread at a time; `close` alone may come from another one. After fork the child's first call
opens a session of its own (in a group: as another member); after the death of the broker tree the first call to its
successor does. Messages stay valid whatever becomes of their consumer.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from orbitmq.client.assignment import Assignment
from orbitmq.client.listener import Listener, QueuesCallback, QueuesEvent
from orbitmq.client.membership import Membership, join_settings
from orbitmq.client.offset_range import log_removals
from orbitmq.client.patience import Patience
from orbitmq.client.positions import Positions
from orbitmq.client.session import ConsumerOpener, SessionHandle
from orbitmq.client.subscription import check_settings, room_for, tag_list, topic_names
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Closed, Interrupted, OrbitError, SettingError, UsageError
from orbitmq.native._core import lib
from orbitmq.native._fast import Message, Reader, Waiter
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import NEEDY, means, refuse
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    import pyarrow as pa

CAPACITY = 1024  # queues that a session has room for unless its topics have more
REFRESH_S = 5.0  # how often a consumer without a group looks for new queues of its topics
FOREVER_NS = (1 << 64) - 1
GONE = (BrokerStopped, BrokerNotRunning)

_Batch = TypeVar("_Batch", bound=Sized)
_consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()


class Consumer(Positions):
    """Made by `Client.consumer()`, which documents the settings.

    Raises: TopicNameError, UnknownTopic, NoPermission, GroupNameError, SettingError; BrokerNotRunning; Full: no session
        could be opened.
    """

    def __init__(
        self,
        opener: ConsumerOpener,
        group: str | None,
        topics: Sequence[str],
        *,
        tags: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        batch: int = 1000,
        verify: bool = True,
        removed: Literal["skip", "raise"] = "skip",
        on_assigned: QueuesCallback | None = None,
        on_revoked: QueuesCallback | None = None,
        on_lost: QueuesCallback | None = None,
        max_poll_interval: float | None = 300.0,
        revoke_timeout: float = 5.0,
        wait: float = 0.0,
    ) -> None:
        check_settings(start, batch, removed)
        self._opener = opener
        self._patience = Patience(opener, wait)
        self._group = group
        self._topics = topic_names(topics)
        self._doing = f"read {', '.join(map(repr, self._topics))}"  # what could not be done, when it could not
        self._tags = tag_list(tags)
        self._start = start
        self._batch = batch
        self._verify = verify
        self._strict = removed == "raise"
        self._lock = threading.Lock()
        self._closing = self._finalized = False  # finalized: it may wait for nothing
        self._interrupted = False
        self._stale = True
        self._handle: SessionHandle | None = None
        self._reader: Reader
        self._waiter: Waiter
        self._assignment: Assignment
        self._listener = Listener(on_assigned, on_revoked, on_lost)
        self._informing = 0  # the thread that runs a callback
        self._awaited = False  # asyncio's: it calls the callbacks itself (_next_event), and opens no session in its event loop
        settings = join_settings(group, list(self._topics), start, max_poll_interval, revoke_timeout, self._listener)
        self._member = None if settings is None else Membership(opener, str(group), settings, self._listener)
        self._kept: dict[QueueKey, int] = {}  # positions to go on at without a group, when a session is lost
        self._ended = False  # BrokerStopped was raised for this session
        self._refresh_at = 0.0
        self._skipped = 0
        self._reattach()
        _consumers.add(self)

    # ---- reading

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None when there was none for `timeout` seconds (None: waits for ever; 0: looks only).

        Raises: CorruptRecord: the next message is damaged; has .offset, .topic, .queue, .queue_offset; the other queues
            are read on, and `seek` past it goes on here. NoMeans: call again. BrokerStopped. Closed.
        """
        try:
            self._enter(lazy=True)
            try:
                message = None if self._stale else self._reader.message(self._batch)
                if message is None:
                    found = self._gather(lambda most: tuple(filter(None, (self._reader.message(most),))), self._batch, timeout)
                    message = found[0] if found else None
                self._tell()
                return message
            finally:
                self._leave()
        except NEEDY as error:
            refuse(error, self._doing)

    def poll_batch(self, max_messages: int = 1000, timeout: float | None = None) -> list[Message]:
        """The next messages, at least one unless the time is over; waits and raises as `poll` does."""
        with self._used(lazy=True):
            return self._gather(lambda most: self._reader.messages(most), max_messages, timeout)  # noqa: PLW0108

    def poll_bodies(self, max_messages: int = 1000, timeout: float | None = None) -> list[bytes]:
        """The bodies of the next messages, copied; waits and raises as `poll` does."""
        with self._used(lazy=True):
            return self._gather(lambda most: self._reader.bodies(most), max_messages, timeout)  # noqa: PLW0108

    def poll_arrow(
        self, max_messages: int = 4096, timeout: float | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """The next messages as an Arrow record batch, of no rows when the time is over; waits and raises as `poll` does.

        columns: some of topic, queue, offset, physical_offset, tags, keys, body, born, stored, flag (None: these), and
            reconsume_times, message_id, born_host, store_host, headers, properties.
        """
        with self._used(lazy=True):
            from orbitmq.client.arrow import record_batch, selected

            names = selected(columns)
            batch: pa.RecordBatch = self._gather(
                lambda most: record_batch(self._reader, most, names), max_messages, timeout, size=lambda found: found.num_rows
            )
            return batch

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, for ever; ends when the consumer is closed."""
        while True:
            try:
                message = self.poll()
                # What was fetched with it follows at once, as long as it is still ours to read. When it is not, poll says why.
                # The lock is only looked at, which costs a tenth of taking it: a reader at work refuses others by itself.
                while message is not None:
                    yield message
                    if self._lock.locked() or self._stale or self._waiter.check():
                        break
                    message = self._reader.gathered()
            except Closed:
                return

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until there may be messages, and takes none. False when the time, seconds, is over; raises as `poll` does."""
        with self._used(lazy=True):
            return bool(self._gather(lambda most: range(most and self._reader.ready()), 1, timeout))

    def interrupt(self) -> None:
        """Ends the wait that is under way, or else the next one, in Interrupted; from any thread or signal handler. A call that
        finds messages gives them first."""
        self._interrupted = True
        self._waiter.interrupt()
        self._patience.ring()

    def resume(self) -> None:
        """Takes back an `interrupt` that has ended no wait yet."""
        self._interrupted = False

    @property
    def prompt(self) -> bool:
        """True when the next call will not have to ask the coordinator for a session or an assignment first, or to tell the
        program of queues."""
        return not self._stale and not self._waiter.check() and not (self._member is not None and self._member.pending)

    def settle(self, deadline: float | None = None) -> None:
        """Asks the coordinator for what the next call would have to ask for; waits for a broker until the deadline, of the
        clock time.monotonic, where there is patience."""
        with self._used(lazy=True):
            if self._stale:
                self._reattach(deadline)

    # ---- the group

    def commit(self, offsets: Mapping[QueueKey, int] | None = None) -> None:
        """Keeps the positions for the group: everything delivered so far counts as done. A commit that returns outlives
        whatever process dies; a power cut may cost those of the last seconds.

        offsets: {(topic, queue): offset} to keep instead: the next message to process of each; other queues stay as they are.

        Raises: Fenced: messages were delivered that can no longer be committed: their queue has gone to another member, the
            broker was started again, or this process is a forked child. They come again, here or there; the rest was
            committed. BrokerStopped: the broker stopped, and has perhaps not heard of it. BrokerNotRunning: and none has come
            after it. UnknownQueue, OffsetOutOfRange: of `offsets`; nothing was committed. UsageError: no group.
        """
        if self._member is None:
            raise UsageError("could not commit: this consumer has no group", hint="name one: client.consumer('group', ...)")
        with self._used(rebalance=False, within=True):
            while True:
                try:
                    if self._member.commit(offsets):
                        return
                    raise self._gone(f"commit for the group {self._group!r}")
                except GONE as error:
                    if self._informing:
                        raise  # the call that the callback stands in attaches anew
                    self._outlive(error)
                self._reattach()  # the next commit says that what was delivered before comes again

    def _next_event(self) -> QueuesEvent | None:
        """For asyncio, which calls the callbacks itself; `_done` follows."""
        return None if self._member is None else self._member.next_event()

    def _done(self, event: QueuesEvent) -> None:
        with self._used(rebalance=False):
            if self._member is not None:
                self._member.done(event)

    def _part(self) -> bool:
        """Before `close`: makes all queues go. False: there is nothing to tell the program."""
        if self._member is None or self._listener.on_revoked is None or self._closing or self._stale:
            return False
        with suppress(OrbitError), self._used(within=True):
            self._member.part()
        return self._member.pending

    # ---- the end

    def close(self) -> None:
        """Gives the session back, and the queues to the group; commits nothing, but calls `on_revoked` first. May be called
        from any thread: a wait of another one ends in Closed. Messages stay valid. Closing again does nothing."""
        try:
            if not self._lock.locked() and not self._awaited and self._part():
                with self._used(rebalance=False):
                    self._inform()
        finally:
            self._end()

    def _end(self) -> None:
        self._closing = True
        if self._handle is not None and not self._stale:
            self._waiter.interrupt()
        self._patience.ring()
        self._finish()

    @property
    def closed(self) -> bool:
        return self._closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # What was delivered before an error is perhaps not done, so that nobody is asked to commit it.
        (self.close if error is None else self._end)()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            with suppress(OrbitError, OSError):
                self._finalized = True
                self._end()

    # ---- behind them

    def _enter(self, rebalance: bool = True, lazy: bool = False) -> None:
        """Before every call: one thread at a time, with a session that is ours and an assignment that stands. lazy: of a broker
        that is not there, `_gather` takes care, where there is patience."""
        held = self._lock.acquire(blocking=False)
        if self._closing:
            if held:
                self._leave()
            raise Closed("could not use this consumer: it is closed")
        if not held:
            if self._informing == threading.get_ident():
                raise UsageError("could not read or wait in a callback of this consumer", hint="return, and poll then")
            raise UsageError("could not use this consumer: another thread does", hint="make one consumer a thread")
        try:
            while not self._settled(rebalance, lazy) and not lazy:
                pass
        except BaseException:
            self._leave()
            raise

    def _settled(self, rebalance: bool, lazy: bool) -> bool:
        """Has a session and an assignment that stands; False where the broker ended meanwhile and there is patience."""
        if self._stale:
            if lazy and self._patience:
                return False
            self._reattach()
        try:
            if (state := self._waiter.check()) and rebalance:
                if state == lib.WAITER_GONE:
                    raise self._gone(self._doing)
                crash_point("consumer_outdated")
                assert self._member is not None
                self._member.rebalance()
            if self._member is None:
                if time.monotonic() >= self._refresh_at:
                    self._refresh()
            elif rebalance and self._member.pending and not self._awaited:
                self._inform()
        except GONE as error:
            self._outlive(error)
        return not self._stale

    def _leave(self) -> None:
        self._lock.release()
        if self._closing:
            self._finish()

    def _finish(self) -> None:
        """Of a closing consumer and whoever uses it meanwhile, at least one finds the other done and gives the session back."""
        if self._lock.acquire(blocking=False):
            try:
                self._detach()
            finally:
                self._lock.release()

    @contextmanager
    def _used(self, rebalance: bool = True, lazy: bool = False, within: bool = False) -> Iterator[None]:
        """_enter and _leave, for calls that are not made once a message. within: callbacks may make them too."""
        with means(self._doing):
            if within and self._informing == threading.get_ident():
                yield
                return
            self._enter(rebalance, lazy)
            try:
                yield
            finally:
                self._leave()

    def _gather(
        self, take: Callable[[int], _Batch], most: int, timeout: float | None, size: Callable[[_Batch], int] = len
    ) -> _Batch:
        """What `take` gives as soon as it gives something, or when the time is over. The reader may change."""
        if most < 1:
            raise SettingError(f"could not take {most} messages: 1 is the least", setting="max_messages", value=most)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._stale and not self._reattach(deadline):
                return take(0)
            try:
                found = take(most)
                self._tell()
                if size(found) or not self._wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                    return found
            except GONE as error:
                self._outlive(error)

    def _wait(self, timeout: float | None) -> bool:
        """True when there may be news; False when the time is over."""
        timeout_ns = FOREVER_NS if timeout is None or timeout >= FOREVER_NS / 1e9 else int(max(0.0, timeout) * 1e9)
        result = lib.WAITER_INTERRUPTED
        while result == lib.WAITER_INTERRUPTED:
            self._look()
            result = self._waiter.wait(self._reader, timeout_ns)
        if result == lib.WAITER_TIMEOUT:
            # A look without a wait has not asked yet whether anybody is there to send something.
            if timeout_ns == 0 and self._waiter.gone():
                result = lib.WAITER_GONE
            else:
                return False
        if result == lib.WAITER_GONE:
            raise self._gone("wait for messages")
        if result == lib.WAITER_REBALANCE and self._member is not None:
            self._member.rebalance()
            if self._member.pending and not self._awaited:
                self._inform()
        elif result == lib.WAITER_RECHECK and self._group is None:
            self._refresh()
        return True

    def _look(self) -> None:
        """Before every wait: whoever interrupts says why first, and then ends the wait of the session that he finds."""
        if self._closing:
            raise Closed("could not wait for messages: the consumer was closed")
        if self._interrupted:
            self._interrupted = False
            raise Interrupted("could not wait for messages: interrupt() was called", hint="poll again: nothing was taken")

    def _outlive(self, error: OrbitError) -> None:
        """The end of the broker is no error where there is patience: then there is no session any more."""
        if not self._patience:
            raise error
        self._stale, self._ended = True, False  # nobody was told

    def _reattach(self, deadline: float | None = None) -> bool:
        """A session with the tree that runs now, or with the next one. False: the deadline came first."""
        if deadline is not None and self._awaited and deadline <= time.monotonic():
            return False
        return self._patience.outlast(self._attach, deadline, self._look)

    def _inform(self) -> None:
        """Calls the program's callbacks. One that raises ends the call that it interrupts; its queues go all the same."""
        assert self._member is not None
        while (event := self._member.next_event()) is not None:
            try:
                if callback := self._listener.callback(event):
                    self._informing = threading.get_ident()
                    callback(self, event.queues)
            finally:
                self._informing = 0
                self._member.done(event)

    def _gone(self, doing: str) -> BrokerStopped:
        """The end of the tree, told once: the next call attaches to its successor."""
        self._stale = self._ended = True
        name = self._opener.name
        return BrokerStopped(f"could not {doing}: the broker {name!r} stopped", broker=name)

    def _tell(self) -> None:
        removals = self._reader.removals()
        if removals:
            log_removals(self._group, self._assignment.keys, removals)

    def _attach(self) -> None:
        """A session of this process with the tree that runs now, and queues to read."""
        handle = self._patience.open_session(queue_capacity=CAPACITY)
        try:
            self._detach()
            room = room_for(handle.topics_address, self._topics)
            if room > CAPACITY:
                handle.close()
                handle = self._patience.open_session(queue_capacity=room)
            self._reader = Reader(handle.control_address, handle.topics_address, handle)
            self._reader.verify = self._verify
            self._reader.strict = self._strict
            self._reader.filter(self._tags)
            self._waiter = Waiter(handle)
            self._assignment = Assignment(self._reader, self._waiter)
            self._handle = handle
            if self._member is None:
                self._refresh(begin=True)
            else:
                self._member.enter(handle, self._assignment)
        except BaseException:
            self._handle = None
            handle.close()
            raise
        self._stale = False

    def _detach(self) -> None:
        """Lets the session go; without a group the positions are kept for the next one."""
        handle, self._handle, self._stale = self._handle, None, True
        if handle is None:
            return
        if self._member is None:
            self._kept = self._assignment.positions()
        else:
            self._member.lose(told=self._ended, silent=handle.pid != os.getpid())
        self._ended = False
        self._skipped += self._reader.skipped
        self._reader.close()
        if handle.pid == os.getpid():  # else a thread of the parent's may have been waiting in it
            self._waiter.close()
        (handle.leave if self._finalized else handle.close)()

    def _refresh(self, begin: bool = False) -> None:
        """Without a group: reads the queues that the topics have and we do not."""
        assert self._handle is not None
        self._refresh_at = time.monotonic() + REFRESH_S
        # A queue that came later holds nothing that was there when we began.
        at_end = self._start == "latest" and begin and not self._kept

        def first(key: QueueKey, minimum: int, maximum: int) -> int:
            return min(self._kept.get(key, maximum if at_end else minimum), maximum)

        if self._assignment.follow(self._handle, self._topics, first) or begin:
            self._assignment.announce()

    def _forked(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here, and the session is the parent's."""
        self._lock = threading.Lock()
        self._informing = 0
        self._stale = True


def _forked() -> None:
    for consumer in list(_consumers):
        consumer._forked()


os.register_at_fork(after_in_child=_forked)
