"""Client processes for tests: a program in a process of its own, if need be with the process id that another one had."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from typing import Self

import pytest

_CLONE3 = 435  # the same on every architecture
_CLONE_PARENT = 0x8000
_ARGUMENTS = struct.Struct("=11Q")  # struct clone_args of linux/sched.h


class ClientProcess:
    """Runs `program` in a fresh interpreter. `line` returns its lines. It ends when it is told to or killed.

    pid: the process id it is to have; 0: any. Skips the test if this user may not choose one.
    """

    def __init__(self, program: str, *arguments: str, pid: int = 0) -> None:
        reader, writer = os.pipe()
        hold, self._hold = os.pipe()
        for descriptor in (writer, hold):
            os.set_inheritable(descriptor, True)
        self.pid = _fork_as(pid) if pid else os.fork()
        if self.pid == 0:
            os.dup2(hold, 0)
            os.dup2(writer, 1)
            os.execv(sys.executable, [sys.executable, "-c", program, *arguments])
        os.close(writer)
        os.close(hold)
        self._lines = os.fdopen(reader)
        self._ended = False

    def line(self) -> str:
        """The next line that it prints; empty if it has ended."""
        return self._lines.readline().rstrip("\n")

    def kill(self) -> None:
        """Ends it, and frees its process id."""
        if not self._ended:
            self._ended = True
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._hold)
            self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _fork_as(pid: int) -> int:
    """A fork whose child gets this process id, and may do little but exec. Skips the test if this user may not choose one.

    A process between the two makes the child: it has one thread only. A child of clone3 alone would wait for ever for what
    another thread held at that moment, such as malloc's lock, since libc knows nothing of it.
    """
    between = os.fork()
    if between == 0:
        made = _clone(pid)
        if made == 0:
            return 0
        os._exit(0 if made > 0 else ctypes.get_errno())
    error = os.waitstatus_to_exitcode(os.waitpid(between, 0)[1])
    if error:
        pytest.skip(f"cannot choose a process's number: {os.strerror(error)}")
    return pid


def _clone(pid: int) -> int:
    """The child is one of the caller's parent, and tells that one of its end as the caller does."""
    number = (ctypes.c_int * 1)(pid)
    arguments = _ARGUMENTS.pack(_CLONE_PARENT, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(number), 1, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    made: int = libc.syscall(_CLONE3, ctypes.create_string_buffer(arguments, len(arguments)), len(arguments))
    return made
