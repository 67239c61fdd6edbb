"""Brokers whose files a process sees, and which it cannot use: those in another container.

A broker's description says in which pid namespace it runs, and on which mount its segments are. A process of another namespace
cannot tell by /proc whether such a broker lives; its control socket tells."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from orbitmq.errors import SettingError
from orbitmq.shm.runtime import Description, lives, memory_device, pid_namespace

PAGE = "docs/containers.md"


def check_reach(description: Description, path: Path) -> None:
    """path: of the broker's control socket, as this process sees it.

    Raises: SettingError: the broker runs, and this process shares too little with it."""
    if lives_elsewhere(description, path):
        raise SettingError(
            f"cannot connect to the broker {description.name!r}: it runs in another pid namespace than this process, and "
            "locks and sessions name processes by number",
            hint="share it: docker run --pid=container:BROKER, or shareProcessNamespace: true in the pod, or nsenter --pid "
            f"({PAGE}); repeating this is in vain",
            path=description.store,
        )
    if description.memory not in (0, memory_device()) and lives(description):
        raise SettingError(
            f"cannot connect to the broker {description.name!r}: its shared memory is in another /dev/shm than that of this "
            "process",
            hint="share it: docker run --ipc=container:BROKER with --ipc=shareable for the broker, or one emptyDir of medium "
            f"Memory at /dev/shm of both containers ({PAGE}); repeating this is in vain",
            path=description.store,
        )


def lives_elsewhere(description: Description, path: Path) -> bool:
    """True if the broker is of another pid namespace, and its control socket is served."""
    if description.namespace in (0, pid_namespace()):
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        attempt.setblocking(False)
        with suppress(BlockingIOError):  # many wait for it to answer
            attempt.connect(os.fspath(path))
        return True
    return False
