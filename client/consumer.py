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
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from orbitmq.client.offset_range import check_offset, log_removals
from orbitmq.client.session import ConsumerOpener, SessionHandle
from orbitmq.client.subscription import QUEUES_MAX, look_up, tag_list, topic_names
from orbitmq.errors import BrokerStopped, Closed, Fenced, OrbitError, SettingError, UnknownQueue, UsageError
from orbitmq.native._core import lib
from orbitmq.native._fast import Message, Reader, Waiter
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import NEEDY, means, refuse
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.index_file import TIME_END

if TYPE_CHECKING:
    import pyarrow as pa

CAPACITY = 1024  # queues that a session has room for unless its topics have more
REFRESH_S = 5.0  # how often a consumer without a group looks for new queues of its topics
FOREVER_NS = (1 << 64) - 1

_Batch = TypeVar("_Batch", bound=Sized)
_consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()


class Consumer:
    """Made by `Client.consumer()`.

    Args:
        group: the group whose members share the topics' queues; None: all queues, positions kept by this object alone.
        topics: names.
        tags: only messages with these: "a || b"; None or "*": all.
        start: where reading begins in a queue without a committed offset: "earliest" or "latest".
        batch: messages fetched at once by `poll` and iteration.
        verify: check each body's CRC before it is given out. Without it a drain is some 10 % faster, and a damaged body comes
            as if it were good.
        removed: what becomes of messages that retention takes before they are read: "skip" goes on at the first that is left,
            counts them (`skipped`) and warns in the log `orbitmq`; "raise" raises OffsetOutOfRange first.

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
    ) -> None:
        if start not in ("earliest", "latest"):
            raise SettingError(f"could not start at {start!r}: it is 'earliest' or 'latest'", setting="start", value=start)
        if batch < 1:
            raise SettingError(f"could not fetch {batch} messages at once: 1 is the least", setting="batch", value=batch)
        if removed not in ("skip", "raise"):
            raise SettingError(f"could not {removed!r} removed messages: 'skip' or 'raise'", setting="removed", value=removed)
        self._opener = opener
        self._group = group
        self._topics = topic_names(topics)
        self._doing = f"read {', '.join(map(repr, self._topics))}"  # what could not be done, when it could not
        self._tags = tag_list(tags)
        self._start = start
        self._batch = batch
        self._verify = verify
        self._strict = removed == "raise"
        self._lock = threading.Lock()
        self._closing = False
        self._stale = True
        self._handle: SessionHandle | None = None
        self._reader: Reader
        self._waiter: Waiter
        self._queues: list[QueueKey] = []
        self._slots: list[int] = []  # their queue slots
        self._index: dict[QueueKey, int] = {}
        self._kept: dict[QueueKey, int] = {}  # positions to go on at without a group, when a session is lost
        self._refresh_at = 0.0
        self._skipped = 0
        self._rebalances = 0
        self._attach()
        _consumers.add(self)

    # ---- reading

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None when there was none for `timeout` seconds (None: waits for ever; 0: looks only).

        Raises: CorruptRecord: the next message is damaged; has .offset, .topic, .queue, .queue_offset; the other queues
            are read on, and `seek` past it goes on here. NoMeans: call again. BrokerStopped: all is read. Closed.
        """
        try:
            self._enter()
            try:
                message = self._reader.message(self._batch)
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
        with self._used():
            return self._gather(self._reader.messages, max_messages, timeout)

    def poll_bodies(self, max_messages: int = 1000, timeout: float | None = None) -> list[bytes]:
        """The bodies of the next messages, copied; waits and raises as `poll` does."""
        with self._used():
            return self._gather(self._reader.bodies, max_messages, timeout)

    def poll_arrow(
        self, max_messages: int = 4096, timeout: float | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """The next messages as an Arrow record batch, of no rows when the time is over; waits and raises as `poll` does.

        columns: some of topic, queue, offset, physical_offset, tags, keys, body, born, stored, flag (None: these), and
            reconsume_times, message_id, born_host, store_host, headers, properties.
        """
        with self._used():
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
            except Closed:
                return
            # What was fetched with it follows at once, as long as it is still ours to read.
            while message is not None:
                yield message
                if self._stale or not self._waiter.current():
                    break
                message = self._reader.gathered()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until there may be messages, and takes none. False when the time, seconds, is over; raises as `poll` does."""
        with self._used():
            return self._reader.ready() or self._wait(timeout)

    def interrupt(self) -> None:
        """Ends a wait of another thread as if there were news, and all later ones until `resume`."""
        if not self._stale:
            self._waiter.interrupt()

    def resume(self) -> None:
        """Lets waits be again."""
        if not self._stale and not self._closing:
            self._waiter.resume()

    @property
    def prompt(self) -> bool:
        """True when the next call will not have to ask the coordinator for a session or an assignment first."""
        return not self._stale and self._waiter.current()

    def settle(self) -> None:
        """Asks the coordinator for what the next call would have to ask for."""
        with self._used():
            return

    # ---- positions

    @property
    def assignment(self) -> list[QueueKey]:
        """The queues that are read now: (topic, queue)."""
        return list(self._queues)

    @property
    def skipped(self) -> int:
        """Messages that retention removed before this consumer came to read them."""
        return self._skipped + self._reader.skipped

    @property
    def rebalances(self) -> int:
        """How often this consumer has taken a new assignment."""
        return self._rebalances

    def position(self) -> dict[QueueKey, int]:
        """By queue the offset of the next message that there is."""
        with self._used():
            positions = self._positions()
            return {key: max(positions[key], self._reader.bounds(index)[0]) for key, index in self._index.items()}

    def committed(self) -> dict[QueueKey, int]:
        """By queue of the assignment the offset that the group goes on at; queues without one, and all without a group, are
        missing."""
        if self._group is None:
            return {}
        with self._used():
            kept = {(topic, queue): offset for topic, queue, offset in self._opener.ask("committed", group=self._group)}
            return {key: kept[key] for key in self._queues if key in kept}

    def lag(self) -> dict[QueueKey, int]:
        """By queue the messages that can be read and were not."""
        with self._used():
            lags = {}
            for index, (key, position) in enumerate(self._positions().items()):
                minimum, maximum = self._reader.bounds(index)
                lags[key] = max(0, maximum - max(position, minimum))
            return lags

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Goes on at this offset of the queue; its end (the offset of the next message to come) is allowed.

        Raises: UnknownQueue: not in the assignment. OffsetOutOfRange: has .minimum and .maximum.
        """
        with self._used():
            index = self._index.get((topic, queue))
            if index is None:
                raise UnknownQueue(
                    f"could not seek in queue {queue} of {topic!r}: it is not assigned", topic=topic, queue=queue
                )
            check_offset(topic, queue, offset, self._reader.bounds(index))
            self._reader.seek(index, offset)

    def seek_to_time(self, ms: float) -> None:
        """Goes on, in every queue, at the message whose store time is nearest to ms, milliseconds since the epoch; at the first
        or last one when all are later or earlier.

        Source: RocketMQ, SEARCH_OFFSET_BY_TIMESTAMP.
        """
        with self._used():
            store_ms = min(max(0, int(ms)), TIME_END)
            found = [self._reader.search_time(index, store_ms) for index in range(len(self._queues))]
            for index, offset in enumerate(found):
                self._reader.seek(index, offset)

    def commit(self) -> None:
        """Keeps the positions for the group: everything delivered so far counts as done.

        Raises: Fenced: the group has shared out its queues anew; the commit did not count, or only for queues that this
            consumer kept. It has its new assignment already, and goes on at the committed positions.
            UsageError: no group.
        """
        if self._group is None:
            raise UsageError("could not commit: this consumer has no group", hint="name one: client.consumer('group', ...)")
        with self._used(rebalance=False):
            if not self._waiter.commit(self._reader.positions()):
                crash_point("consumer_commit_refused")
                self._rebalance()
                raise Fenced(
                    f"could not commit for the group {self._group!r}: its queues were shared out anew",
                    hint="go on polling; messages that were not committed come again",
                    group=self._group,
                )

    # ---- the end

    def close(self) -> None:
        """Gives the session back, and the queues to the group; commits nothing. May be called from any thread: a wait of
        another one ends in Closed. Messages stay valid. Closing again does nothing."""
        self._closing = True
        if self._handle is not None and not self._stale:
            self._waiter.interrupt()
        self._finish()

    @property
    def closed(self) -> bool:
        return self._closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            with suppress(OrbitError, OSError):
                self.close()

    # ---- behind them

    def _enter(self, rebalance: bool = True) -> None:
        """Before every call: one thread at a time, with a session that is ours and an assignment that stands."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("could not use this consumer: another thread does", hint="make one consumer a thread")
        try:
            if self._closing:
                raise Closed("could not use this consumer: it is closed")
            if self._stale:
                self._attach()
            if rebalance and not self._waiter.current():
                crash_point("consumer_outdated")
                self._rebalance()
            if self._group is None and time.monotonic() >= self._refresh_at:
                self._refresh()
        except BaseException:
            self._leave()
            raise

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
    def _used(self, rebalance: bool = True) -> Iterator[None]:
        """_enter and _leave, for calls that are not made once a message."""
        with means(self._doing):
            self._enter(rebalance)
            try:
                yield
            finally:
                self._leave()

    def _gather(
        self, take: Callable[[int], _Batch], most: int, timeout: float | None, size: Callable[[_Batch], int] = len
    ) -> _Batch:
        """What `take` gives as soon as it gives something, or when the time is over."""
        if most < 1:
            raise SettingError(f"could not take {most} messages: 1 is the least", setting="max_messages", value=most)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = take(most)
            self._tell()
            if size(found) or not self._wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                return found

    def _wait(self, timeout: float | None) -> bool:
        """True when there may be news; False when the time is over."""
        timeout_ns = FOREVER_NS if timeout is None or timeout >= FOREVER_NS / 1e9 else int(max(0.0, timeout) * 1e9)
        # A close that found no session to interrupt is seen here, and one that comes later interrupts.
        result = lib.WAITER_INTERRUPTED if self._closing else self._waiter.wait(self._reader, timeout_ns)
        if result == lib.WAITER_TIMEOUT:
            # A look without a wait has not asked yet whether anybody is there to send something.
            if timeout_ns == 0 and self._waiter.gone():
                result = lib.WAITER_GONE
            else:
                return False
        if result == lib.WAITER_GONE:
            self._stale = True
            name = self._opener.name
            raise BrokerStopped(f"could not wait for messages: the broker {name!r} stopped", broker=name)
        if self._closing:
            raise Closed("could not wait for messages: the consumer was closed")
        if result == lib.WAITER_REBALANCE:
            self._rebalance()
        elif result == lib.WAITER_RECHECK and self._group is None:
            self._refresh()
        return True

    def _tell(self) -> None:
        removals = self._reader.removals()
        if removals:
            log_removals(self._group, self._queues, removals)

    def _positions(self) -> dict[QueueKey, int]:
        return dict(zip(self._queues, self._reader.positions(), strict=True))

    def _attach(self) -> None:
        """A session of this process with the tree that runs now, and queues to read."""
        self._detach()
        handle = self._opener.open_session(queue_capacity=CAPACITY)
        try:
            room = sum(look_up(handle.topics_address, name).slot_capacity for name in self._topics)
            queues = sum(look_up(handle.topics_address, name).queues for name in self._topics)
            if queues > QUEUES_MAX:
                raise SettingError(
                    f"could not consume {len(self._topics)} topics: their {queues} queues are more than {QUEUES_MAX}",
                    hint="share the topics among several consumers",
                    queues=queues,
                )
            if room > CAPACITY:
                handle.close()
                handle = self._opener.open_session(queue_capacity=min(room, QUEUES_MAX))
            self._reader = Reader(handle.control_address, handle.topics_address, handle)
            self._reader.verify = self._verify
            self._reader.strict = self._strict
            self._reader.filter(self._tags)
            self._waiter = Waiter(handle)
            self._handle = handle
            if self._group is None:
                self._refresh(begin=True)
            else:
                self._take(self._join())
        except BaseException:
            self._handle = None
            handle.close()
            raise
        self._stale = False

    def _detach(self) -> None:
        """Lets the session go; without a group the positions are kept for the next one."""
        handle, self._handle = self._handle, None
        self._stale = True
        if handle is None:
            return
        if self._group is None:
            self._kept = self._positions()
        self._skipped += self._reader.skipped
        self._reader.close()
        if handle.pid == os.getpid():  # else a thread of the parent's may have been waiting in it
            self._waiter.close()
        handle.close()

    def _refresh(self, begin: bool = False) -> None:
        """Without a group: reads the queues that the topics have and we do not."""
        assert self._handle is not None
        self._refresh_at = time.monotonic() + REFRESH_S
        if begin:
            self._queues, self._slots, self._index = [], [], {}
        fresh = []
        for name in self._topics:
            topic = look_up(self._handle.topics_address, name)
            places = ((name, queue) for queue in range(topic.queues))
            fresh += [(key, topic.first_slot + key[1]) for key in places if key not in self._index]
        for key, slot in fresh[: self._handle.queue_capacity - len(self._queues)]:
            index = self._reader.add(slot, 0)
            minimum, maximum = self._reader.bounds(index)
            # A queue that came later holds nothing that was there when we began.
            first = maximum if self._start == "latest" and begin and not self._kept else minimum
            self._reader.seek(index, min(self._kept.get(key, first), maximum))
            self._index[key] = index
            self._queues.append(key)
            self._slots.append(slot)
        if begin or fresh:
            self._waiter.interests(self._slots)

    def _join(self) -> dict[str, Any]:
        return self._ask_group("join_group", topics=list(self._topics), start=self._start)

    def _ask_group(self, operation: str, **fields: Any) -> dict[str, Any]:
        assert self._handle is not None
        answer = self._opener.ask(operation, slot=self._handle.slot, epoch=self._handle.epoch, group=self._group, **fields)
        assert isinstance(answer, dict)
        return answer

    def _rebalance(self) -> None:
        """The group's epoch has moved: takes what is ours now, at committed positions."""
        try:
            answer = self._ask_group("assignment")
        except Fenced:
            answer = self._join()  # the group forgot us
        self._take(answer)
        self._rebalances += 1

    def _take(self, assignment: dict[str, Any]) -> None:
        self._reader.clear()
        self._queues, self._index = [], {}
        slots = []
        for topic, queue, slot, offset in assignment["queues"]:
            index = self._reader.add(slot, offset or 0)
            self._index[topic, queue] = index
            self._queues.append((topic, queue))
            slots.append(slot)
        crash_point("consumer_assigned")
        self._waiter.join(assignment["group"], assignment["epoch"])
        self._waiter.interests(slots)

    def _forked(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here, and the session is the parent's."""
        self._lock = threading.Lock()
        self._stale = True


def _forked() -> None:
    for consumer in list(_consumers):
        consumer._forked()


os.register_at_fork(after_in_child=_forked)
