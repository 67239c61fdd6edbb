"""What a process can run out of by itself: descriptors, mappings and memory, threads. Where a client meets that, it says so as
NoMeans, with the knob to turn, and not as whichever error of Python's came up."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from orbitmq.errors import NoMeans, OrbitError

NEEDY = (OSError, MemoryError, ImportError, RuntimeError)  # what Python may raise for want of them
_HINTS = {
    "descriptors": "raise this process's limit of open files (ulimit -n), or close some",
    "descriptors of the machine": "raise the machine's limit of open files (fs.file-max)",
    "memory": "let this process have more memory (ulimit -v, the container's limit) or mappings (vm.max_map_count)",
    "threads": "let this process have more threads (ulimit -u, pids.max of its container) or memory (ulimit -v)",
}
_LIMITS = {errno.EMFILE: "descriptors", errno.ENFILE: "descriptors of the machine", errno.ENOMEM: "memory"}
_NO_THREAD = "can't start new thread"  # all that Python says of it
_NO_LIBRARY = "failed to map segment"  # the loader's word, in an ImportError


@contextmanager
def means(doing: str) -> Iterator[None]:
    """Around what may need some. Raises: NoMeans: could not `doing`, for want of them."""
    try:
        yield
    except NEEDY as error:
        refuse(error, doing)


def refuse(error: BaseException, doing: str) -> NoReturn:
    """The same for one of NEEDY that is caught already."""
    found = lacking(error, doing)
    if found is error:
        raise error
    raise found from error


def lacking(error: BaseException, doing: str) -> BaseException:
    """NoMeans where the error says that the process is short of something, else the error itself."""
    number = _number(error)
    if number is None:
        return error
    limit = "threads" if isinstance(error, RuntimeError) else _LIMITS[number]
    return NoMeans(f"could not {doing}: {_short_of(limit, number)}", hint=_HINTS[limit], limit=limit, errno=number)


def _number(error: BaseException) -> int | None:
    if isinstance(error, OrbitError):
        return None  # one of ours has said already what it is, though some are OSErrors
    if isinstance(error, OSError):
        return error.errno if error.errno in _LIMITS else None
    if isinstance(error, RuntimeError):
        return errno.EAGAIN if _NO_THREAD in str(error) else None
    if isinstance(error, ImportError):
        found = [number for number in _LIMITS if os.strerror(number) in str(error)]
        return errno.ENOMEM if _NO_LIBRARY in str(error) else found[0] if found else None
    return errno.ENOMEM


def _short_of(limit: str, number: int) -> str:
    """With the values that are known: reading one that lies in a file may be what cannot be done."""
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
