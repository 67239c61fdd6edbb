"""A reader and a hold without a broker: cursors in lists, for tests of the code that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orbitmq.native._core import lib


class OwnReader:
    """limits: minimum and maximum of every queue, by its queue slot; (0, 1000) by default."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.at: list[int] = []
        self.idle: list[bool] = []
        self.limits: dict[int, tuple[int, int]] = {}

    @property
    def count(self) -> int:
        return len(self.slots)

    def add(self, slot: int, position: int) -> int:
        self.slots.append(slot)
        self.at.append(position)
        self.idle.append(False)
        return len(self.slots) - 1

    def clear(self) -> None:
        self.slots, self.at, self.idle = [], [], []

    def seek(self, index: int, position: int) -> None:
        self.at[index] = position

    def pause(self, index: int, paused: bool) -> None:
        self.idle[index] = paused

    def positions(self) -> list[int]:
        return list(self.at)

    def bounds(self, index: int) -> tuple[int, int]:
        return self.limits.get(self.slots[index], (0, 1000))


class OwnHold:
    """moved: the group's epoch moves before the next commit, as many times. epoch: that of the last join."""

    def __init__(self) -> None:
        self.announced: list[int] = []
        self.epoch = 0
        self.moved = 0
        self.committed: list[int] = []
        self.is_closed = self.is_gone = False

    def interests(self, slots: Sequence[int]) -> None:
        self.announced = list(slots)

    def check(self) -> int:
        return lib.PULL_HOLD_GONE if self.is_gone else 0

    def words(self, memory: Any) -> None:
        pass

    def join(self, group: int, epoch: int) -> None:
        self.epoch = epoch

    def commit(self, words: Sequence[int]) -> bool:
        if self.is_closed or self.moved:
            self.moved -= not self.is_closed
            return False
        self.committed = list(words)
        return True

    def current(self) -> bool:
        return True

    def closed(self) -> bool:
        return self.is_closed
