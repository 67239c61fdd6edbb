"""How many files the supervisor may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

from orbitmq.errors import SettingError
from orbitmq.shm.means import DESCRIPTORS_MIN


def raise_descriptor_limit() -> None:
    """A session keeps two descriptors here; the usual soft limit of 1024 is reached before the session table is full.

    Raises: SettingError: there are too few for the tree itself and a first client."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        raise SettingError(
            f"cannot run a broker: its processes may open {hard} files each, and at least {DESCRIPTORS_MIN} are needed",
            hint="raise the hard limit of open files (ulimit -Hn)",
            name="open files",
            value=hard,
            limit=DESCRIPTORS_MIN,
        )
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
