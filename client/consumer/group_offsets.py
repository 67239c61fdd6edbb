"""What a consumer commits with an atomic batch (docs/exactly-once.md): for each queue, where its group was and where it goes
on.

They are stored as one more message of the batch, in the topic rmq_sys_group_commits (native/format/group_commit.h). The broker
stores the batch only if the group still is where the offsets say that it was. So of two members that have processed the same
messages, whatever each of them believes to own, one stores its results, and the other one is told."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from orbitmq.client.consumer.membership import fenced
from orbitmq.client.consumer.session import Committing, ConsumerSession
from orbitmq.errors import Fenced
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.group_commits import COMMITS_TOPIC

if TYPE_CHECKING:
    from orbitmq.client.producer.atomic_batch import Given

VERSION = 1
NOTHING = (1 << 64) - 1
_MEMBER = struct.Struct("=II")  # struct send_commits
_QUEUES = struct.Struct(">H")
_QUEUE = struct.Struct(">IQQ")


class Shift(NamedTuple):
    """The group is at `base` in the queue, None: no offset of it was committed so before. It goes on at `to`, None: what was
    committed so is forgotten."""

    key: QueueKey
    base: int | None
    to: int | None


def message_of(group: str, shifts: Collection[Shift], slot: int, epoch: int) -> Given:
    """The last message of a batch that commits them. slot, epoch: of a session that is a member of the group."""
    name = group.encode()
    parts = [bytes((VERSION, len(name))), name, _QUEUES.pack(len(shifts))]
    for (topic, queue), *offsets in shifts:
        text = topic.encode()
        parts += [bytes((len(text),)), text, _QUEUE.pack(queue, *(NOTHING if each is None else each for each in offsets))]
    own: dict[str, Any] = {"queue": 0, "_commits": _MEMBER.pack(slot, epoch)}
    return (COMMITS_TOPIC, b"".join(parts), *own.values()), tuple(own)


class GroupOffsets:
    """The offsets up to which messages were delivered to a consumer, as a part of an atomic batch. Made when the batch is told
    to commit them; `stored` or `step_back` follows.

    Raises: UsageError: the consumer has no group. Fenced: some of the messages can no longer be committed; all that were not
        committed come again.
    """

    def __init__(self, consumer: ConsumerSession) -> None:
        self._source = Committing(consumer)
        try:
            self._moves, *self._member = self._source.take()
        except Fenced:
            self.step_back()
            raise
        crash_point("group_offsets_taken")

    @property
    def message(self) -> Given | None:
        """As the last message of the batch; None: there is nothing to commit."""
        if not self._moves:
            return None
        shifts = [Shift(move.place.key, move.base, move.to) for move in self._moves]
        return message_of(self._source.group, shifts, *self._member)

    def stored(self) -> None:
        crash_point("group_offsets_stored")
        self._source.moved(self._moves)

    def let_go(self) -> None:
        """After that: what is to go to another member goes."""
        self._source.let_go()

    def step_back(self) -> None:
        """Whatever it was that failed."""
        self._source.step_back()

    def reworded(self, error: BaseException) -> BaseException:
        """What the caller is to be told if the batch could not be stored."""
        if not isinstance(error, Fenced):
            return error
        told = fenced(self._source.group, [move.place.key for move in self._moves])
        vars(told).update({name: value for name, value in vars(error).items() if name in ("index", "receipts")})
        return told
