"""A sender's receipt: where the message is in the log, and how safe it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from orbitmq.shm.durability import Durability

if TYPE_CHECKING:
    from orbitmq.native._types import PendingBatch


@dataclass(frozen=True, slots=True)
class Receipt:
    """One message in the log.

    Attributes:
        queue: number of the topic's queue.
        offset: queue offset; dense, from 0.
        physical_offset: byte of the CommitLog where the record begins.
        size: of the record, bytes.
        durability: the level reached when the receipt was made: "appended" (in the page cache: survives any process's
            death) or "flushed" (on disk: survives the machine's).
        duplicate: the message was stored before, under the same id, and is not stored again: this is the place of the first.
    """

    topic: str
    queue: int
    offset: int
    physical_offset: int
    size: int
    durability: Durability
    store_host: bytes = field(repr=False)
    duplicate: bool = False

    @property
    def id(self) -> str:
        """RocketMQ's offset message id, 32 hex digits: store address, port, physical offset; 56 if that address is IPv6.

        Source: apache/rocketmq MessageDecoder.createMessageId.
        """
        return (self.store_host + self.physical_offset.to_bytes(8, "big")).hex().upper()


class Receipts(Sequence[Receipt]):
    """The receipts of a batch, in the order of its bodies; each is made when it is asked for.

    Asking for the receipt of a refused message raises the reason. `raw` is the underlying table, for programs that want all
    receipts at once (`numpy.frombuffer`): 32 bytes a message (u64 physical offset, u64 queue offset, u32 size, u32 queue, u32
    code, u32 detail; code 1 is "appended", 12 "stored before under the same id"), in native byte order.
    """

    __slots__ = ("_batch", "_count")

    def __init__(self, batch: PendingBatch | None) -> None:
        """batch: None: there was nothing to send."""
        self._batch = batch
        self._count = 0 if batch is None else len(batch)

    def first(self, count: int) -> Receipts:
        """Those of the first messages."""
        made = Receipts(self._batch)
        made._count = min(count, self._count)
        return made

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        assert self._batch is not None
        return self._batch.receipt(place)

    @property
    def raw(self) -> memoryview:
        """The underlying table, see above; no copy."""
        return memoryview(self._batch or b"")[: 32 * self._count]

    def __repr__(self) -> str:
        return f"<Receipts of {len(self)} messages>"
