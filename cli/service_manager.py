"""The service manager that started this command, such as systemd: it is told when the broker runs, stops, and is alive, in the
way of sd_notify(3). Without one, nothing is told.

Environment: NOTIFY_SOCKET, where it listens; WATCHDOG_USEC, within how many microseconds it wants a sign of life; WATCHDOG_PID,
from which process."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress

STARTING_US = 60_000_000  # that a start may take from each of its signs on


class ServiceManager:
    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        period_us = environment.get("WATCHDOG_USEC", "")
        mine = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        # A third, so that one sign that comes late ends nothing.
        self._pause_s = int(period_us) / 3e6 if mine and self._address and period_us.isdigit() else None

    def starting(self, line: str) -> None:
        """What the start does now, which may take long after a crash of a large store."""
        self._tell(f"STATUS={line}", f"EXTEND_TIMEOUT_USEC={STARTING_US}")

    def running(self, line: str) -> None:
        self._tell("READY=1", f"STATUS={line}")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=stopping")

    def attend(self, process: subprocess.Popen[bytes], hanging: Callable[[], tuple[str, ...]]) -> int:
        """Waits for the end of the process; until then it says that the broker is alive, as long as nothing hangs. Returns the
        exit code. hanging: names of what hangs."""
        while self._pause_s is not None:
            names = hanging()
            if names:
                self._tell(f"STATUS={', '.join(names)} has shown no sign of life for too long")
            else:
                self._tell("WATCHDOG=1")
            with suppress(subprocess.TimeoutExpired):
                return process.wait(self._pause_s)
        return process.wait()

    def _tell(self, *lines: str) -> None:
        """A manager that does not listen ends no broker."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as post:
            post.sendto("\n".join(lines).encode(errors="replace"), self._address)
