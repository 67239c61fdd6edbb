"""How a transaction ends: through a session of its own, so that messages that wait for room in another do not hold it up."""

from __future__ import annotations

import struct
from typing import Any, Protocol

from orbitmq.client.receipt import Receipt
from orbitmq.native._core import lib
from orbitmq.native._types import ProducerBase
from orbitmq.shm.durability import Durability
from orbitmq.store.halves import HALF_TOPIC

COMMIT: int = lib.SETTLE_COMMIT
ROLLBACK: int = lib.SETTLE_ROLLBACK
GIVE_UP: int = lib.SETTLE_GIVE_UP
WINDOW = 256  # ends on their way
RECORD_MAX = 1024  # such a frame has no body
_SETTLE = struct.Struct("=QQQ32s")  # struct send_settle


class Ender(Protocol):
    """What begins transactions."""

    @property
    def ends(self) -> ProducerBase:
        """The session by which they end."""

    @property
    def name(self) -> str | None:
        """Of a named producer: it ends them again by itself if the broker dies meanwhile."""

    def committed(self, topic: str, id: str, half: int, durability: Durability, timeout: float | None) -> Receipt | None:
        """See committed.py."""


def settle(
    ends: ProducerBase, place: tuple[int, int], how: int, id: str, *, durability: Durability | None, timeout: float | None
) -> Receipt:
    """Ends the transaction of the half message at this place: queue offset and physical offset. id: the transaction's, or "" if
    it is not known. Returns where its message is now, under another topic's name; of a rollback, where the operation message
    is.

    Raises: TransactionSettled, UnknownTransaction; as send()."""
    own: dict[str, Any] = {"_settles": _SETTLE.pack(*place, how, id.encode()[:32])}
    return ends.send(HALF_TOPIC, b"", durability=durability, timeout=timeout, **own)
