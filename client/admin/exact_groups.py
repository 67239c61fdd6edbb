"""Groups whose offsets are committed with atomic batches (docs/exactly-once.md): who administers them moves them as a member
does, with a record in the log."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.client.connection.connection import Connection
from orbitmq.client.consumer.group_offsets import NOTHING, Shift, message_of
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import Fenced
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import QueueKey

AT_ONCE = 800  # queues in one record, which has room for that many with the longest names
TRIES = 100  # each fails only if a member has committed a batch meanwhile


class ExactGroup:
    """name: of the group."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def set(self, wanted: Mapping[QueueKey, int | None]) -> dict[QueueKey, int]:
        """Makes the group go on there in those of the queues whose offsets are committed so; None: what was committed so is
        forgotten. On disk on return. Returns where the group was in those queues.

        Raises: Fenced: its members commit faster than it can be moved; what a send raises.
        """
        was = {key: base for key in wanted if (base := self.offset(key)) is not None}
        if not self._shifts(wanted):
            return was
        session = self._connection.open_session(queue_capacity=1)
        try:
            place = {"slot": session.slot, "epoch": session.epoch}
            self._connection.ask("speak_for_group", generation=session.generation, group=self._name, **place)
            with Producer(self._connection) as producer:
                for tries in range(1, TRIES + 1):
                    try:
                        shifts = self._shifts(wanted)
                        for begin in range(0, len(shifts), AT_ONCE):
                            part = shifts[begin : begin + AT_ONCE]
                            message = message_of(self._name, part, **place)
                            producer.post_atomic((message,), "flushed", producer.timeout).result(producer.timeout)
                            was |= {shift.key: shift.base for shift in part if shift.base is not None}
                        return was
                    except Fenced:
                        if tries == TRIES:
                            raise
        finally:
            session.close()
        return was

    def offset(self, key: QueueKey) -> int | None:
        """None: none of the group's offsets in the queue was committed so."""
        control = self._connection.attachment.control
        group, topic = self._name.encode(), key[0].encode()
        found = int(lib.control_commit_of(control, group, len(group), topic, len(topic), key[1]))
        return None if found == NOTHING else found

    def _shifts(self, wanted: Mapping[QueueKey, int | None]) -> list[Shift]:
        """What is left to do."""
        now = ((key, self.offset(key), to) for key, to in wanted.items())
        return [Shift(key, base, to) for key, base, to in now if base is not None and base != to]
