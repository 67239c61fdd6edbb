"""Bells: another thread, or a signal handler, ends a wait with one."""

from __future__ import annotations

import os
from contextlib import suppress


class Bell:
    """Once rung, a bell stays rung. A waiter looks at `rung`, or polls `descriptor`; it makes the descriptor before it looks.

    A forked child has the bell in its current state, with a descriptor of its own: if the child rang the parent's descriptor,
    the parent's waits would end.
    """

    def __init__(self) -> None:
        self.rung = False
        self._pid = 0
        self._descriptors: list[int] = []  # one; two if two threads asked for the first at once

    def ring(self) -> None:
        self.rung = True
        for descriptor in self._descriptors if self._pid == os.getpid() else ():
            with suppress(OSError):
                os.eventfd_write(descriptor, 1)

    def descriptor(self) -> int:
        """Becomes readable when the bell is rung, and stays so. Raises: OSError: no descriptor is left."""
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
