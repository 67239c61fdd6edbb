"""The file that arms crash points: which ones, and at which passage (native/base/crash_point.c has the layout)."""

from __future__ import annotations

import mmap
import struct
import threading
from pathlib import Path

TRAPS = 4
NAME_MAX = 63
PAUSES = 1 << 31
_TRAP = struct.Struct("=64sII")
_BARRIER = threading.Lock()


class CrashPlan:
    """At most four points can be armed at once, so that a successor can be made to die as well."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(TRAPS * _TRAP.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def arm(self, *points: str, passage: int = 1, pause: bool = False) -> None:
        """Replaces whatever was armed before. passage: of the last point; the others strike at the first. pause: stop only."""
        self.disarm()
        # The last first: the first may strike at once, and the others must be there then.
        for number, point in reversed(list(enumerate(points))):
            name = point.encode()
            assert len(name) <= NAME_MAX
            at = number * _TRAP.size
            self._map[at : at + 64] = name.ljust(64, b"\0")
            self._put(at + 68, 0)
            with _BARRIER:  # the name before the number, on any processor
                pass
            self._put(at + 64, (passage if point == points[-1] else 1) | (PAUSES if pause else 0))

    def disarm(self) -> None:
        for number in range(TRAPS):
            self._put(number * _TRAP.size + 64, 0)

    def victim(self, point: str) -> int:
        """Process that died at the point since it was armed; 0: none."""
        for number in range(TRAPS):
            name, _, victim = _TRAP.unpack_from(self._map, number * _TRAP.size)
            if name.rstrip(b"\0") == point.encode():
                return int(victim)
        raise KeyError(point)

    def _put(self, at: int, value: int) -> None:
        struct.pack_into("=I", self._map, at, value)
