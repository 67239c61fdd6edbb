"""The offsets that a queue still holds, and the error for a consumer that asks for another."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.errors import OffsetOutOfRange
from orbitmq.shm.topic_table import QueueKey


def check_offset(topic: str, queue: int, offset: int, bounds: tuple[int, int]) -> None:
    """Raises: OffsetOutOfRange: the queue holds other offsets. Its end is allowed."""
    minimum, maximum = bounds
    if not minimum <= offset <= maximum:
        raise OffsetOutOfRange(
            f"could not seek to offset {offset} of {topic!r}, queue {queue}: it holds {minimum} to {maximum}",
            topic=topic,
            queue=queue,
            offset=offset,
            minimum=minimum,
            maximum=maximum,
        )


def check_commit(topic: str, queue: int, offset: int, maximum: int) -> None:
    """Raises: OffsetOutOfRange: the queue has not reached that offset."""
    if not 0 <= offset <= maximum:
        raise OffsetOutOfRange(
            f"could not commit offset {offset} of {topic!r}, queue {queue}: the queue ends at {maximum}",
            hint="commit the offset of the next message to process, which is the last one's offset + 1",
            topic=topic,
            queue=queue,
            offset=offset,
            minimum=0,
            maximum=maximum,
        )


def log_removals(group: str | None, queues: Sequence[QueueKey], removals: list[tuple[int, int, int]]) -> None:
    """removals: (index of the queue, messages, offset after the last of them), as Reader.removals gives them."""
    import logging  # here: it takes long to import

    who = "this consumer" if group is None else f"group {group!r}"
    for index, count, following in removals:
        topic, queue = queues[index]
        logging.getLogger("orbitmq").warning(
            "retention removed %d messages of %r, queue %d, before %s read them; it goes on at offset %d",
            count,
            topic,
            queue,
            who,
            following,
        )
