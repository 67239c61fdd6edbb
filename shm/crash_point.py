"""Named places at which a test can have a process killed (native/base/crash_point.h), for steps written in Python."""

from __future__ import annotations

from orbitmq.native._core import lib

BUILT: bool = lib.crash_points_built()


def crash_point(name: str) -> None:
    """Kills this process here if a test asked for that. Does nothing in a usual build."""
    if BUILT:
        lib.crash_point_pass(name.encode())
