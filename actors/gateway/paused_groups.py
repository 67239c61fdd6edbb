"""The groups whose members get nothing, for a gateway: RocketMQ's clients share their queues by themselves, so it is their
pulls that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orbitmq.actors.gateway.piece import Piece
from orbitmq.actors.interval import Interval
from orbitmq.errors import StoreFailed
from orbitmq.native._core import ffi, lib
from orbitmq.store.group_file import GroupFile
from orbitmq.store.layout import StoreLayout

LOOK_S = 0.5


class PausedGroups:
    """say: takes a line for the broker's log. As long as the groups' file cannot be read, those read before are paused."""

    def __init__(
        self, gateway: Any, layout: StoreLayout, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gateway = gateway
        self._file = GroupFile(layout)
        self._say = say
        self._interval = Interval(LOOK_S, clock)
        self._names: set[str] = set()
        self._trouble = ""

    def look(self) -> None:
        """Tells the loop if others are paused now; looks at most every LOOK_S."""
        if not self._interval.due():
            return
        try:
            self._file.look()
        except StoreFailed as error:
            if self._trouble != (trouble := str(error)):
                self._say(f"cannot read which groups are paused: {trouble}; the groups that were paused stay paused")
            self._trouble = trouble
            return
        self._trouble = ""
        names = {name for name, group in self._file.groups.items() if not group.consume_enable}
        if names != self._names and self._pause(names):
            self._names = names

    def _pause(self, names: set[str]) -> bool:
        pieces = [Piece(name) for name in names]
        return bool(lib.gateway_pause(self._gateway, ffi.new("struct slice[]", [each.slice for each in pieces]), len(pieces)))
