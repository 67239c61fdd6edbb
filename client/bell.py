"""Bells: what ends a wait early, from another thread or from a signal handler."""

from __future__ import annotations

import os
from contextlib import suppress


class Bell:
    """Rung once, it stays so. Whoever waits looks at `rung`, or polls `descriptor`, and both before it waits.

    A forked child has it as it was, and a descriptor of its own: ringing the parent's would end the parent's waits.
    """

    def __init__(self) -> None:
        self.rung = False
        self._pid = 0
        self._descriptors: list[int] = []  # one; two where two threads asked for the first at once

    def ring(self) -> None:
        self.rung = True
        for descriptor in self._descriptors if self._pid == os.getpid() else ():
            with suppress(OSError):
                os.eventfd_write(descriptor, 1)

    def descriptor(self) -> int:
        """Readable from the ring on. Raises: OSError: there is none to be had."""
        if self._pid != os.getpid():
            self._pid, inherited, self._descriptors = os.getpid(), self._descriptors, []
            for each in inherited:
                os.close(each)
        if not self._descriptors:
            self._descriptors.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        if self.rung:
            self.ring()
        return self._descriptors[-1]

    def __del__(self) -> None:
        for descriptor in getattr(self, "_descriptors", ()):
            with suppress(OSError):
                os.close(descriptor)
