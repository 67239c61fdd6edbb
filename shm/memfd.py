"""Sealed memfds: memory without a name, passed from process to process as a descriptor.

Its memory is reserved before anybody maps it; then it is sealed against resizing. A peer that could shrink it could kill every
process that has it mapped with SIGBUS, and a peer that could enlarge it would take memory at this process's cost.
"""

from __future__ import annotations

import errno
import fcntl
import os

from orbitmq.errors import StoreFull
from orbitmq.errors.remedy import hint
from orbitmq.shm.disk_fault import byte_count

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create_memfd(name: str, size: int) -> int:
    """A descriptor of `size` zeroed, reserved bytes, sealed. The caller closes it. `name` is shown in /proc only.

    Raises: StoreFull: there is not enough memory.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.ENOMEM):
            raise StoreFull(
                f"could not make {name}: the memory is full ({byte_count(size)} needed)",
                hint=hint(
                    "give the machine or container more memory || lower {window of producer} || lower {message_max of producer}"
                ),
                mount="memfd",
                need=size,
                free=os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            ) from None
        raise
    return descriptor


def memfd_sealed(descriptor: int, size: int) -> bool:
    """True if the descriptor is a memfd of exactly this size that can never be resized."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        return False
    return seals & SEALS == SEALS and os.fstat(descriptor).st_size == size
