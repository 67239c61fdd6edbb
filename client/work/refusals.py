"""What a worker has answered and did not count, until the program asks for it. A program that never asks keeps only the last of
it: each is a message, whose file of the log stays mapped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orbitmq.errors import JobLost
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib

if TYPE_CHECKING:
    from orbitmq.client.work.hand_out import HandOut

MOST: int = lib.WORK_WINDOW  # as many as a worker can have in hand (IN_HAND_MAX)


class Refusals:
    """Its user holds a lock."""

    def __init__(self) -> None:
        self._last: OrderedDict[HandOut, None] = OrderedDict()  # a set in the order of refusal
        self._more = False

    def add(self, hand_outs: Sequence[HandOut]) -> None:
        """Several answers about one hand-out may be refused, such as its extension and its ack: it is one job."""
        self._last.update(dict.fromkeys(hand_outs))
        while len(self._last) > MOST:
            self._last.popitem(last=False)
            self._more = True

    def take(self, group: str) -> list[HandOut]:
        """Those since the last call. Raises: JobLost: there were more than are kept; it has the ids of these."""
        last, more = list(self._last), self._more
        self._last.clear()
        self._more = False
        if more:
            raise JobLost(
                f"could not list all lost jobs of the group {group!r}: only the last {len(last):,} are kept",
                hint=hint(
                    "ask which were lost after each batch of answers || raise {visibility of worker}, if jobs take long"
                ).assuring("do not repeat this call"),
                ids=[each.message.id for each in last],
            )
        return last
