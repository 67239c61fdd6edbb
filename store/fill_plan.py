"""What a repair writes over one damaged part of the log, as data. It is decided before the first byte is written.

Filling takes time, and a repair may be killed in the middle of it. What the queues know about the bytes counts only while these
are damaged, so a second look would find fewer lost messages than the first. Therefore the plan is part of the order to remake
(remake.py) until all of it is done, and the next run of the repair carries it out as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from orbitmq.store.stand_in import LostMessage


class Stretch(NamedTuple):
    """Bytes [offset, end) of the log, in one file. keep_end: the bytes up to here are copied before. to_file_end: a blank
    marker ends them. store_ms: the time of every record in them."""

    offset: int
    end: int
    keep_end: int
    to_file_end: bool
    store_ms: int
    messages: tuple[LostMessage, ...]

    @property
    def size(self) -> int:
        return self.end - self.offset

    def as_record(self) -> list[Any]:
        """For JSON. Messages that follow each other in one queue are one entry."""
        return [self.offset, self.end, self.keep_end, self.to_file_end, self.store_ms, _runs(self.messages)]

    @classmethod
    def of_record(cls, record: Sequence[Any]) -> Stretch:
        """Raises: ValueError, TypeError: this is not a plan."""
        offset, end, keep_end, to_file_end, store_ms, runs = record
        messages = (
            LostMessage(str(topic), int(queue), number)
            for topic, queue, first, count in runs
            for number in range(first, first + count)
        )
        return cls(int(offset), int(end), int(keep_end), bool(to_file_end), int(store_ms), tuple(messages))


def _runs(messages: Iterable[LostMessage]) -> list[list[Any]]:
    runs: list[list[Any]] = []
    for message in messages:
        last = runs[-1] if runs else None
        if last and last[:2] == [message.topic, message.queue] and last[2] + last[3] == message.queue_offset:
            last[3] += 1
        else:
            runs.append([message.topic, message.queue, message.queue_offset, 1])
    return runs
