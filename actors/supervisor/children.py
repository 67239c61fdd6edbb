"""Child processes of the supervisor: forking one, and the record of a child that is watched."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.actors import events, signals
from orbitmq.actors.events import ERROR_OUTPUT
from orbitmq.actors.supervisor.child_output import ChildOutput
from orbitmq.actors.supervisor.spec import ChildSpec
from orbitmq.errors import OrbitError
from orbitmq.native._core import lib
from orbitmq.shm.death import Death


@dataclass(slots=True)
class Child:
    """An actor's slot in the tree: its spec, and its present life, if any."""

    spec: ChildSpec
    pid: int = 0
    pidfd: int = -1
    epoch: int = 0
    running: bool = False
    failure: OrbitError | None = None
    ended_well: bool = False
    deaths: deque[float] = field(default_factory=deque)
    output: ChildOutput | None = None

    @property
    def alive(self) -> bool:
        return self.pidfd >= 0

    def too_many(self, now: float, restarts: int, period_s: float) -> bool:
        """Notes a death at `now`, in seconds. True if it is one too many within the period."""
        self.deaths.append(now)
        while self.deaths and self.deaths[0] <= now - period_s:
            self.deaths.popleft()
        return len(self.deaths) > restarts

    def reaped(self) -> Death:
        """Collects the dead process, and what it left in its pipe."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        words = self.output.end() if self.output is not None else ()
        code = os.waitstatus_to_exitcode(status)
        death = Death(self.spec.id, self.pid, self.epoch, time.time(), _how(code), words)
        self.pid, self.pidfd, self.running, self.output = 0, -1, False, None
        self.ended_well = code == 0
        return death


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def child_process(main: Callable[[], int], keep: Iterable[int], output: ChildOutput) -> int:
    """Forks. The child runs main and exits with its result; it has no descriptors but the standard ones and `keep`. What it
    says goes to `output`. Signals wait until main calls `signals.hear()`; so a stop in the child's first moments does not end
    it as a crash would.

    Call it from the supervisor's only thread: a fork in a process with other threads may copy a lock that nobody will ever
    release.
    """
    parent = os.getpid()
    # Otherwise a signal between the fork and the reset would reach the supervisor's wake-up descriptor from the child, and run
    # the supervisor's handlers there.
    signals.hold()
    try:
        pid = os.fork()
        if pid == 0:
            _child(main, parent, set(keep), output)
    finally:
        signals.hear()
    output.forked(pid)
    return pid


def _child(main: Callable[[], int], parent: int, keep: set[int], output: ChildOutput) -> None:
    code = 1
    try:
        os.dup2(output.writer, ERROR_OUTPUT)
        events.attach(output.actor, events.Outlet().give)
        signal.set_wakeup_fd(-1)
        for number in signals.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        # A tool that rotates logs may send this to all processes.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        if not lib.process_tie(parent):
            os._exit(1)
        _close_others(keep)
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        with suppress(BaseException):
            events.error(f"ended by an exception: {error!r}", error)
    finally:
        # Never return into the supervisor's frames: their clean-up is the supervisor's alone.
        os._exit(code)


def _close_others(keep: set[int]) -> None:
    """Closes descriptors that the child has only because of the fork. The supervisor keeps sessions for the coordinator; an
    actor that held copies would keep them alive after their end."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor not in keep:
            with suppress(OSError):
                os.close(descriptor)
