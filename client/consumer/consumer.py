"""The consumer reads the queues of its topics straight from the store's files. It asks the broker only for its share of the
queues, to be woken, and to keep its offsets.

One thread at a time may use a consumer; only `close` may come from another thread. After a fork, the child's first call opens a
session of its own, in a group as another member. After the broker's death, the first call to its successor does
(session.py). Messages stay valid whatever happens to their consumer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orbitmq.client import argument
from orbitmq.client.connection.connection import checked_wait
from orbitmq.client.connection.session import ConsumerOpener
from orbitmq.client.consumer.listener import Listener
from orbitmq.client.consumer.membership import join_settings
from orbitmq.client.consumer.offset_range import log_removals
from orbitmq.client.consumer.positions import Positions
from orbitmq.client.consumer.session import GONE
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscription import check_bytes, tag_list, topic_names
from orbitmq.client.parameters import Unknown, made_with, refuse_unknown, spelled
from orbitmq.client.sql_filter import checked_sql
from orbitmq.client.unclosed import state
from orbitmq.errors import Closed, SettingError, StoreError, UsageError
from orbitmq.native._core import lib
from orbitmq.native._types import Message, Taken
from orbitmq.shm.means import NEEDY, refuse
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.client.several import Several

FOREVER_NS = (1 << 64) - 1
BODIES_BYTES = 512 << 10  # half of a usual second-level cache
ARROW_BYTES = 8 << 20

_Batch = TypeVar("_Batch", bound=Sized)


@spelled
class Consumer(Positions):
    """Made by `Client.consumer()`, which documents the settings.

    Raises: TopicNameError, UnknownTopic, NoPermission, GroupNameError, SettingError; BrokerNotRunning; Full: no session could
        be opened.
    """

    @made_with(ConsumerSettings)
    def __init__(self, opener: ConsumerOpener, *group_and_topics: Any, **settings: Any) -> None:
        asked = ConsumerSettings(*group_and_topics, **settings)
        self._batch = asked.batch
        names = topic_names(asked.topics)
        listener = Listener(asked.on_assigned, asked.on_revoked, asked.on_lost)
        super().__init__(
            opener,
            asked.keeper,
            names,
            join_settings(asked, list(names), listener),
            listener,
            tags=tag_list(asked.tags),
            sql=checked_sql(asked.sql),
            start=asked.start,
            verify=asked.verify,
            strict=asked.removed == "raise",
            spin=asked.spin,
            wait=0.0 if asked.wait is None else checked_wait(asked.wait),
        )

    # ---- reading

    def poll(self, timeout: float | None = None, **unknown: Unknown) -> Message | None:
        """The next message; None if none came within `timeout` seconds (None: waits for ever; 0: only looks).

        Raises: CorruptRecord: the next message is damaged; it has .offset, .topic, .queue, .queue_offset. Reading continues in
            the other queues; `seek` past the message to continue in this one. NoMeans: call again. BrokerStopped. Closed.
        """
        if unknown:
            refuse_unknown(self.poll, unknown)
        # Does what _use does, without the parts that would cost more than the message.
        try:
            with self._turns:
                if self._closing:
                    self._refuse()
                self._settled(True, True)
                try:
                    message = None if self._stale else self._reader.message(self._batch)
                except StoreError as error:
                    self._misread(error)
                    message = None
                if message is None:
                    found = self._gather(lambda most: tuple(filter(None, (self._reader.message(most),))), self._batch, timeout)
                    message = found[0] if found else None
                self._tell()
                return message
        except Taken:
            self._refuse()
        except NEEDY as error:
            refuse(error, self._doing)
        finally:
            if self._closing:
                self._finish()

    def poll_batch(self, max_messages: int = 1000, timeout: float | None = None, **unknown: Unknown) -> list[Message]:
        """The next messages, at least one unless the time is over. Waits and raises as `poll` does."""
        if unknown:
            refuse_unknown(self.poll_batch, unknown)
        return self._gathered(lambda most: self._reader.messages(most), max_messages, timeout)  # noqa: PLW0108

    def poll_bodies(
        self, max_messages: int = 1000, timeout: float | None = None, *, max_bytes: int = BODIES_BYTES, **unknown: Unknown
    ) -> list[bytes]:
        """Copies of the bodies of the next messages. Waits and raises as `poll` does.

        max_bytes: the list ends where its bodies, with their properties, have about so many bytes. One message is always taken.
            Small lists stay in the processor's cache: in one of 8 MiB, a body of 1 KiB takes four times as long.
        """
        if unknown:
            refuse_unknown(self.poll_bodies, unknown)
        check_bytes(max_bytes)
        return self._gathered(lambda most: self._reader.bodies(most, max_bytes), max_messages, timeout)

    def poll_arrow(
        self,
        max_messages: int = 4096,
        timeout: float | None = None,
        *,
        columns: Several[str] | None = None,
        max_bytes: int = ARROW_BYTES,
        views: bool = False,
        **unknown: Unknown,
    ) -> pa.RecordBatch:
        """The next messages as an Arrow record batch, which has no rows if the time is over. Waits and raises as `poll` does.

        columns: some of topic, queue, offset, physical_offset, tags, keys, body, born, stored, flag (None: these), and
            reconsume_times, message_id, born_host, store_host, headers, properties.
        max_bytes: of bodies, at most, unless the first one alone is larger; the same of headers and of properties. The memory
            of a batch that is dropped serves a later batch.
        views: bodies are not copied: the column is of the type binary_view, and refers to the mapped log. Such a batch stays
            valid like a message; at most 64 files of the log can be held so, then Full is raised.
        """
        if unknown:
            refuse_unknown(self.poll_arrow, unknown)
        check_bytes(max_bytes)

        def work() -> pa.RecordBatch:
            from orbitmq.client.consumer.arrow import record_batch, selected

            names = selected(columns)
            take = lambda most: record_batch(self._reader, most, names, body_limit=max_bytes, views=views)  # noqa: E731
            batch: pa.RecordBatch = self._gather(take, max_messages, timeout, size=lambda found: found.num_rows)
            return batch

        return self._use(work, lazy=True)

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, for ever; ends when the consumer is closed."""
        while True:
            try:
                message = self.poll()
                # Messages fetched together follow at once, as long as this consumer may still read them. If it may not, poll
                # says why. The turn is only looked at, which costs a tenth of taking it: a reader at work refuses others by
                # itself.
                while message is not None:
                    yield message
                    if self._turns.locked() or self._stale or self._hold.check():
                        break
                    message = self._reader.gathered()
            except Closed:
                return

    def wait(self, timeout: float | None = None, **unknown: Unknown) -> bool:
        """Waits until there may be messages, and takes none. False when `timeout` seconds are over. Raises as `poll` does."""
        if unknown:
            refuse_unknown(self.wait, unknown)
        return bool(self._gathered(lambda most: range(most and self._reader.ready()), 1, timeout))

    def interrupt(self) -> None:
        """Ends the current wait, or else the next one, with Interrupted. Any thread and any signal handler may call it. A call
        that finds messages returns them first."""
        self._interrupted = True
        self._hold.interrupt()
        self._patience.ring()

    def resume(self) -> None:
        """Takes back an `interrupt` that has not ended a wait yet."""
        self._interrupted = False

    @property
    def prompt(self) -> bool:
        """True if the next call need not first ask the coordinator for a session or an assignment, nor tell the program about
        queues."""
        member = self._member
        return not self._stale and not self._hold.check() and not (member is not None and (member.pending or member.doubt))

    def settle(self, deadline: float | None = None) -> None:
        """Asks the coordinator for what the next call would need. If this consumer has patience, waits for a broker until the
        deadline (by time.monotonic)."""
        self._use(lambda: self._stale and self._reattach(deadline), lazy=True)

    # ---- the group

    def commit(self, offsets: Mapping[QueueKey, int] | None = None, **unknown: Unknown) -> None:
        """Stores the positions for the group: everything delivered so far counts as done. Once it has returned, a commit
        survives the death of any process; a power cut may lose the commits of the last seconds.

        offsets: {(topic, queue): offset} to store instead. Each is the offset of the next message to process; other queues stay
            as they are.

        Raises: Fenced: some delivered messages can no longer be committed, because their queue has gone to another member, the
            broker was restarted, or this process is a forked child. They come again, here or elsewhere; the rest was committed.
            BrokerStopped: the broker stopped, and may not have taken the commit. BrokerNotRunning: and no other broker has
            come. UnknownQueue, OffsetOutOfRange: something in `offsets` is wrong; nothing was committed. UsageError: there is
            no group.
        """
        if unknown:
            refuse_unknown(self.commit, unknown)
        member = self._member
        if member is None:
            raise UsageError("could not commit: this consumer has no group", hint="name one: client.consumer('group', ...)")

        def work() -> None:
            while True:
                try:
                    if member.commit(offsets):
                        return
                    raise self._gone(f"commit for the group {self._group!r}")
                except GONE as error:
                    if self._informing:
                        raise  # the call that runs the callback attaches to the new broker
                    self._outlive(error)
                self._reattach()  # the next commit reports that messages delivered before come again

        self._use(work, rebalance=False, within=True)

    # ---- the end

    def close(self) -> None:
        """Gives the session back, and the queues to the group. Commits nothing, but calls `on_revoked` first. Any thread may
        call it; another thread's wait ends with Closed. Messages stay valid. Closing again does nothing."""
        try:
            if not self._turns.locked() and not self._awaited and self._part():
                self._use(self._inform, rebalance=False, lazy=True)
        finally:
            self._end()

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closing

    def __enter__(self) -> Self:
        return self

    def _words(self) -> str:
        group = "no group" if self._group is None else f"group {self._group!r}"
        topics = ", ".join(map(repr, self._topics))
        return f"of the broker {self._opener.name!r}, {group}, topics {topics}, {state(self._closing)}"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # Messages delivered before an error may not have been processed, so the program is not asked to commit them.
        (self.close if error is None else self._end)()

    # ---- behind them

    def _gathered(self, take: Callable[[int], _Batch], most: int, timeout: float | None) -> _Batch:
        return self._use(lambda: self._gather(take, most, timeout), lazy=True)

    def _gather(
        self, take: Callable[[int], _Batch], most: int, timeout: float | None, size: Callable[[_Batch], int] = len
    ) -> _Batch:
        """Returns what `take` gives as soon as it gives something, or when the time is over. The reader may change
        meanwhile."""
        if most < 1:
            text = f"could not take {most} messages: the number must be at least 1"
            raise SettingError(text, setting="max_messages", value=most)
        deadline = argument.deadline(timeout, "wait for messages")
        while True:
            if self._stale and not self._reattach(deadline):
                return take(0)
            try:
                try:
                    found = take(most)
                except StoreError as error:
                    self._misread(error)
                    continue
                self._tell()
                if size(found):
                    return found
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                # Filters may have held back all that was looked at. Then a look goes on to the end of the queues; but an event
                # loop has other tasks between.
                if not self._wait(left) or (left == 0 and (timeout or self._awaited)):
                    return found
            except GONE as error:
                self._outlive(error)

    def _wait(self, timeout: float | None) -> bool:
        """True if there may be news; False when the time is over."""
        timeout_ns = FOREVER_NS if timeout is None or timeout >= FOREVER_NS / 1e9 else int(max(0.0, timeout) * 1e9)
        result = lib.PULL_HOLD_INTERRUPTED
        while result == lib.PULL_HOLD_INTERRUPTED:
            self._look()
            result = self._hold.wait(self._reader, timeout_ns)
        if result == lib.PULL_HOLD_TIMEOUT:
            # A look without a wait has not yet checked whether a broker is there that could send something.
            if timeout_ns == 0 and self._hold.gone():
                result = lib.PULL_HOLD_GONE
            else:
                return False
        if result == lib.PULL_HOLD_GONE:
            raise self._gone("wait for messages")
        if result == lib.PULL_HOLD_REBALANCE and self._member is not None:
            self._member.rebalance()
            if self._member.pending and not self._awaited:
                self._inform()
        elif result == lib.PULL_HOLD_RECHECK and self._group is None:
            self._refresh()
        return True

    def _tell(self) -> None:
        removals = self._reader.removals()
        if removals:
            log_removals(self._group, self._assignment.keys, removals)
