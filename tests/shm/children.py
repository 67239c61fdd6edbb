"""Child processes of a test: forked so that they share its mappings, waited for under a watchdog, never left behind."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.waiting import until


def die_quietly() -> None:
    """For a child whose fatal signal the test expects: no traceback, no message of assert, no core file."""
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.close(2)


class Children:
    """The children of one test."""

    def __init__(self) -> None:
        self._running: list[int] = []

    def start(self, work: Callable[..., object], *args: object) -> int:
        """Forks; the child does the work and exits with 0, or with 1 after an exception. Returns its pid."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work(*args)
                status = 0
            except BaseException:
                traceback.print_exc(file=sys.stderr)
            finally:
                os._exit(status)
        self._running.append(pid)
        return pid

    def wait(self, pid: int) -> int:
        """The child's exit code, negative for the signal that ended it."""
        found: list[int] = []

        def ended() -> bool:
            got, status = os.waitpid(pid, os.WNOHANG)
            if got:
                found.append(os.waitstatus_to_exitcode(status))
            return bool(got)

        until(ended)
        self._running.remove(pid)
        return found[0]

    def finish(self) -> None:
        """Waits for all that still run, each of which must end well."""
        codes = [self.wait(pid) for pid in list(self._running)]
        assert not any(codes), f"children ended with {codes}"

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL

    def sweep(self) -> None:
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def children() -> Iterator[Children]:
    family = Children()
    try:
        yield family
    finally:
        family.sweep()
