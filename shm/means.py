"""The resources that one process can run out of: descriptors, mappings and memory, threads. When a client lacks one, this
module turns Python's error, whichever it is, into NoMeans with the limit to raise."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from orbitmq.errors import NoMeans, OrbitError

DESCRIPTORS_MIN = 64  # for a process of a broker's tree itself, and for a few clients
NEEDY = (OSError, MemoryError, ImportError, RuntimeError)  # what Python may raise if a resource is missing
_HINTS = {
    "descriptors": "raise this process's limit of open files (ulimit -n), or close some",
    "descriptors of the machine": "raise the machine's limit of open files (fs.file-max)",
    "memory": "let this process have more memory (ulimit -v, the container's limit) or mappings (vm.max_map_count)",
    "threads": "let this process have more threads (ulimit -u, pids.max of its container) or memory (ulimit -v)",
}
_LIMITS = {errno.EMFILE: "descriptors", errno.ENFILE: "descriptors of the machine", errno.ENOMEM: "memory"}
_NO_THREAD = "can't start new thread"  # all that Python says about it
_NO_LIBRARY = "failed to map segment"  # the loader's text, in an ImportError


@contextmanager
def means(doing: str) -> Iterator[None]:
    """Wraps code that needs such resources. Raises: NoMeans: could not `doing`, because one was missing."""
    try:
        yield
    except NEEDY as error:
        refuse(error, doing)


def refuse(error: BaseException, doing: str) -> NoReturn:
    """The same for an error of NEEDY that has been caught already."""
    raise lacking(error, doing)


def lacking(error: BaseException, doing: str) -> BaseException:
    """NoMeans if the error says that the process lacks something, else the error itself."""
    number = _number(error)
    if number is None:
        return error
    limit = "threads" if isinstance(error, RuntimeError) else _LIMITS[number]
    found = NoMeans(f"could not {doing}: {_short_of(limit, number)}", hint=_HINTS[limit], limit=limit, errno=number)
    found.__cause__ = error
    return found


def _number(error: BaseException) -> int | None:
    if isinstance(error, OrbitError):
        return None  # an error of OrbitMQ's has said already what it is, though some are OSErrors too
    if isinstance(error, OSError):
        return error.errno if error.errno in _LIMITS else None
    if isinstance(error, RuntimeError):
        return errno.EAGAIN if _NO_THREAD in str(error) else None
    if isinstance(error, ImportError):
        found = [number for number in _LIMITS if os.strerror(number) in str(error)]
        return errno.ENOMEM if _NO_LIBRARY in str(error) else found[0] if found else None
    return errno.ENOMEM if isinstance(error, MemoryError) else None


def _short_of(limit: str, number: int) -> str:
    """With the limits that are known: reading a limit from a file may itself be impossible now."""
    text = os.strerror(number).lower()
    if limit == "descriptors":
        return f"{text}, this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}"
    if limit != "memory":
        return text if limit != "threads" else "no thread can be started"
    values = []
    room = resource.getrlimit(resource.RLIMIT_AS)[0]
    if room != resource.RLIM_INFINITY:
        values.append(f"{room:,} bytes of address space")
    with suppress(OSError, MemoryError):
        descriptor = os.open("/proc/sys/vm/max_map_count", os.O_RDONLY | os.O_CLOEXEC)
        try:
            values.append(f"{int(os.read(descriptor, 32)):,} mappings")
        finally:
            os.close(descriptor)
    return f"{text}, this process may have {' and '.join(values)}" if values else text
