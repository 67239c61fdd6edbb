"""Where a consumer is in its queues: looking, going elsewhere, and leaving some alone for a while."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from orbitmq.client.assignment import Assignment
from orbitmq.client.membership import Membership
from orbitmq.client.offset_range import check_offset
from orbitmq.native._fast import Reader
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.index_file import TIME_END


class Positions:
    """The part of a Consumer that deals with its positions."""

    _reader: Reader
    _assignment: Assignment
    _member: Membership | None
    _skipped: int

    def _used(self, rebalance: bool = True, lazy: bool = False, within: bool = False) -> AbstractContextManager[None]:
        raise NotImplementedError

    @property
    def assignment(self) -> list[QueueKey]:
        """The queues that are this consumer's to read now, paused ones included: (topic, queue)."""
        return [place.key for place in self._assignment.places if not place.leaving]

    @property
    def rebalances(self) -> int:
        """How often this consumer has taken a new assignment."""
        return 0 if self._member is None else self._member.rebalances

    @property
    def skipped(self) -> int:
        """Messages that retention removed before this consumer came to read them."""
        return self._skipped + self._reader.skipped

    def position(self) -> dict[QueueKey, int]:
        """By queue the offset of the next message that there is."""
        with self._used(within=True):
            positions = self._assignment.positions().items()
            return {key: max(position, self._reader.bounds(index)[0]) for index, (key, position) in enumerate(positions)}

    def committed(self) -> dict[QueueKey, int]:
        """By queue of the assignment the offset that the group goes on at; queues without one, and all without a group, are
        missing."""
        if self._member is None:
            return {}
        with self._used(within=True):
            return self._member.committed()

    def lag(self) -> dict[QueueKey, int]:
        """By queue the messages that can be read and were not."""
        with self._used(within=True):
            lags = {}
            for index, (key, position) in enumerate(self._assignment.positions().items()):
                minimum, maximum = self._reader.bounds(index)
                lags[key] = max(0, maximum - max(position, minimum))
            return lags

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Goes on at this offset of the queue; its end (the offset of the next message to come) is allowed.

        Raises: UnknownQueue: not in the assignment. OffsetOutOfRange: has .minimum and .maximum.
        """
        with self._used(within=True):
            index = self._assignment.place(topic, queue, "seek in")
            check_offset(topic, queue, offset, self._reader.bounds(index))
            self._reader.seek(index, offset)

    def seek_to_time(self, ms: float) -> None:
        """Goes on, in every queue, at the message whose store time is nearest to ms, milliseconds since the epoch; at the first
        or last one when all are later or earlier.

        Source: RocketMQ, SEARCH_OFFSET_BY_TIMESTAMP.
        """
        with self._used(within=True):
            store_ms = min(max(0, int(ms)), TIME_END)
            found = [self._reader.search_time(index, store_ms) for index in range(self._reader.count)]
            for index, offset in enumerate(found):
                self._reader.seek(index, offset)

    @property
    def paused(self) -> list[QueueKey]:
        """The queues that `pause` has stopped."""
        return [place.key for place in self._assignment.places if place.paused and not place.leaving]

    def pause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Gives out no more messages of these queues (None: of all) until `unpause`; the consumer keeps them as long as it goes
        on calling. A queue that is lost, and comes back, is not paused.

        Raises: UnknownQueue: one of them is not in the assignment; nothing has changed then.
        """
        self._set_paused(queues, True)

    def unpause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """Goes on with these queues (None: all) where it was; raises as `pause` does."""
        self._set_paused(queues, False)

    def _set_paused(self, queues: Iterable[QueueKey] | None, paused: bool) -> None:
        with self._used(within=True):
            self._assignment.pause(self.assignment if queues is None else queues, paused)
