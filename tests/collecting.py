"""How test modules are read: compiled by one process, and left alone by the garbage collector.

In an empty clone nothing is compiled yet, neither the tests nor the libraries that they import. Workers that begin at the same
moment would each compile all of it. So the first one reads the modules alone, and the others find its byte code.

Modules stay until the process ends. Looking for garbage among them takes as long as reading them, at each full collection
again, and tests ask for such collections.
"""

from __future__ import annotations

import fcntl
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LOCK = Path(__file__).resolve().parents[1] / "build" / "collecting.lock"


@contextmanager
def after_the_first(path: Path) -> Iterator[None]:
    """Who comes first is alone; the others wait for its end, and then go on together."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def kept_objects() -> Iterator[None]:
    """What is made in the block is no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Collecting:
    """A pytest plugin. With pytest-xdist only the workers read modules."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[None]:
        if session.config.getoption("dist", "no") != "no" and not hasattr(session.config, "workerinput"):
            return (yield)
        with after_the_first(LOCK), kept_objects():
            return (yield)
