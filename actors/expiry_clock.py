"""The time by which messages expire: the machine's clock, but never faster than time passes.

If a clock jumps ahead by the time that messages are kept, all of them would be removed at the next look. So the clock is
compared with CLOCK_BOOTTIME, which nobody can set and which counts on evenly, also while the machine sleeps. The clock may show
at most where it stood plus the time that has passed since. A small step is caught up with slowly. If the clock shows more than
STEP_MS beyond that, nothing is removed by age until the clock has come back, or until a user with the right to do so has
confirmed it (believe()).

The file orbitmq/clock records where the clock stood, so that a restarted broker believes no more than a broker that ran on. In
another boot of the machine nobody knows how long the machine was off. Up to ABSENCE_MS is believed at once; more is believed
when the broker has run for GRACE_MS, in which a time server, or the operator, will have set the clock right. In a store without
the file there is nothing to compare the clock with.

    0  magic "orbclock"   8  u64 the time, ms   16  u64 CLOCK_BOOTTIME then, ms   24  16 bytes boot id   40  u32 CRC-32 of
    these; big-endian
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Callable

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout

STEP_MS = 10 * 60_000  # more than a correction, less than anybody's retention
ABSENCE_MS = 24 * 3_600_000
GRACE_MS = 3_600_000
CATCH_UP = 100  # a step is caught up with in so many times its length
_RECORD = struct.Struct(">8sQQ16s")
_CRC = struct.Struct(">I")
_MAGIC = b"orbclock"


def wall_clock_ms() -> int:
    """The clock that store timestamps are made of."""
    return time.time_ns() // 1_000_000


def passed_ms() -> int:
    """Counts on evenly from the machine's start, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class ExpiryClock:
    """Args: wall, passed: milliseconds, of the clock and of the time that passes."""

    def __init__(
        self, layout: StoreLayout, wall: Callable[[], int] = wall_clock_ms, passed: Callable[[], int] = passed_ms
    ) -> None:
        self._path = layout.clock
        self._wall = wall
        self._passed = passed
        self._began_ms = self._at_ms = passed()
        self._descriptor = -1
        self.ahead_ms = 0  # how far the clock is ahead of the time that passed, if that is too far; else 0
        recorded = self._load()
        self._absent = recorded is not None and recorded[2] != positions.boot_id()
        if recorded is None:
            self._limit_ms = wall()
        elif self._absent:
            self._limit_ms = recorded[0]
        else:
            self._limit_ms = recorded[0] + max(0, self._at_ms - recorded[1])

    def look(self) -> int:
        """The time in milliseconds. Brings ahead_ms up to date."""
        now, at = self._wall(), self._passed()
        self._limit_ms += at - self._at_ms
        ahead = now - self._limit_ms
        if self._absent and (ahead <= ABSENCE_MS or at - self._began_ms >= GRACE_MS):
            self._absent = False
            self._limit_ms, ahead = max(self._limit_ms, now), min(ahead, 0)
        elif 0 < ahead <= STEP_MS:
            self._limit_ms = min(now, self._limit_ms + (at - self._at_ms) // CATCH_UP)
        self._at_ms = at
        self.ahead_ms = ahead if ahead > STEP_MS else 0
        return min(now, self._limit_ms)

    def believe(self) -> None:
        """Confirms that what the clock shows now is right."""
        self._limit_ms, self._absent = max(self._limit_ms, self._wall()), False

    def keep(self) -> None:
        """Records where the clock stood. Not synced: if a power cut takes it back, the older record is still true. Raises:
        OSError."""
        if self._absent:
            return  # that of the boot before, until it is known how long the machine was off
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        body = _RECORD.pack(_MAGIC, max(0, self._limit_ms), self._at_ms, positions.boot_id())
        os.pwrite(self._descriptor, body + _CRC.pack(zlib.crc32(body)), 0)
        crash_point("expiry_clock_kept")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _load(self) -> tuple[int, int, bytes] | None:
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        body, check = content[: _RECORD.size], content[_RECORD.size : _RECORD.size + _CRC.size]
        if len(check) < _CRC.size or _CRC.unpack(check)[0] != zlib.crc32(body):
            return None
        _, limit_ms, at_ms, boot = _RECORD.unpack(body)
        return limit_ms, at_ms, boot
