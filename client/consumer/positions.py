"""A consumer's positions in its queues: asking for them, moving them, and pausing queues."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime

from orbitmq.client.argument import check_flag, moment_ms
from orbitmq.client.consumer.offset_range import check_offset
from orbitmq.client.consumer.session import GONE, ConsumerSession
from orbitmq.client.parameters import spelled
from orbitmq.shm.topic_table import QueueKey


@spelled
class Positions(ConsumerSession):
    """The part of a Consumer that deals with its positions. Callbacks may call all of it."""

    @property
    def assignment(self) -> list[QueueKey]:
        """The queues that this consumer may read now, paused ones included: (topic, queue)."""
        return [place.key for place in self._assignment.places if not place.leaving]

    @property
    def rebalances(self) -> int:
        """How often this consumer has taken a new assignment."""
        return 0 if self._member is None else self._member.rebalances

    @property
    def skipped(self) -> int:
        """Number of messages that retention removed before this consumer read them."""
        return self._skipped + self._reader.skipped

    def position(self) -> dict[QueueKey, int]:
        """For each queue, the offset of the next message that exists."""

        def work() -> dict[QueueKey, int]:
            positions = self._assignment.positions().items()
            return {key: max(position, self._reader.bounds(index)[0]) for index, (key, position) in enumerate(positions)}

        return self._use(work, within=True)

    def committed(self) -> dict[QueueKey, int]:
        """For each assigned queue, the offset at which the group continues. Queues without one are missing; without a group,
        all are."""
        member = self._member
        if member is None:
            return {}
        while True:
            try:
                return self._use(member.committed, within=True)
            except GONE as error:
                if self._informing == threading.get_ident():
                    raise  # the call that runs the callback attaches to the new broker
                self._outlive(error)

    def lag(self) -> dict[QueueKey, int]:
        """For each queue, the number of messages that can be read and have not been read yet."""

        def work() -> dict[QueueKey, int]:
            lags = {}
            for index, (key, position) in enumerate(self._assignment.positions().items()):
                minimum, maximum = self._reader.bounds(index)
                lags[key] = max(0, maximum - max(position, minimum))
            return lags

        return self._use(work, within=True)

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continues at this offset of the queue. Its end (the offset of the next message to come) is allowed.

        Raises: UnknownQueue: it is not in the assignment. OffsetOutOfRange: has .minimum and .maximum. TimedOut: reput is
            behind the log's end, and the queue has not reached the offset yet.
        """

        def work() -> None:
            index = self._assignment.place(topic, queue, "seek in")
            if offset > self._reader.bounds(index)[1]:  # it may be that of a receipt, which reput has not reached
                self._opener.caught_up(f"seek to offset {offset} of {topic!r}, queue {queue}")
            check_offset(topic, queue, offset, self._reader.bounds(index))
            self._reader.seek(index, offset)

        self._use(work, within=True)

    def seek_to_time(self, ms: float | datetime, *, nearest: bool = False) -> None:
        """Continues, in every queue, at the first message that was stored at this time or later; at the queue's end if all are
        older.

        ms: milliseconds since the epoch, or a datetime; one without a time zone is in this machine's.
        nearest: at the message whose store time is nearest to ms instead, which may be an older one; at the last message if all
            are older.

        Raises: SettingError: what was given is no time.
        Source: Kafka, offsetsForTimes; RocketMQ, SEARCH_OFFSET_BY_TIMESTAMP.
        """
        check_flag(nearest, "seek to a time", "nearest")
        store_ms = moment_ms(ms, "seek to a time", "ms")

        def work() -> None:
            search = self._reader.search_time if nearest else self._reader.since
            found = [search(index, store_ms) for index in range(self._reader.count)]
            for index, offset in enumerate(found):
                self._reader.seek(index, offset)

        self._use(work, within=True)

    @property
    def paused(self) -> list[QueueKey]:
        """The queues that `pause` has stopped."""
        return [place.key for place in self._assignment.places if place.paused and not place.leaving]

    def pause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Delivers no more messages of these queues (None: of all) until `unpause`. The consumer keeps the queues as long as
        the program goes on calling it. A queue that is lost and comes back is not paused.

        Raises: UnknownQueue: one of them is not in the assignment; nothing has changed then.
        """
        self._set_paused(queues, True)

    def unpause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Continues with these queues (None: all) where it was. Raises as `pause` does."""
        self._set_paused(queues, False)

    def _set_paused(self, queues: Iterable[QueueKey] | None, paused: bool) -> None:
        self._use(lambda: self._assignment.pause(self.assignment if queues is None else queues, paused), within=True)
