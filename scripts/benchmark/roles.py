"""Processes of a benchmark: forked, prepared, started together, and asked for their result."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from scripts.benchmark.pages import warm_pages

FORK = multiprocessing.get_context("fork")


class RoleError(RuntimeError):
    """A role died or raised. Its traceback is the message."""


def _play(pipe: Connection, prepare: Callable[..., Callable[[], Any]], arguments: tuple[Any, ...]) -> None:
    try:
        act = prepare(*arguments)
        pipe.send(("ready", None))
        pipe.recv()
        ran, begin = time.process_time_ns(), time.monotonic_ns()
        found = act()
        end = time.monotonic_ns()
        pipe.send(("done", (time.process_time_ns() - ran, (begin, end, found))))
        pipe.recv()
    except BaseException:
        pipe.send(("error", traceback.format_exc()))


class Role:
    """One process. `prepare(*arguments)` runs in it and returns the function that is timed.

    Attributes:
        pipe: to the process.
        pid: of the process.
        ran_ns: processor time of the timed function, once there is a result.
    """

    ran_ns = 0

    def __init__(self, prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> None:
        self.pipe, theirs = FORK.Pipe()
        self._process = FORK.Process(target=_play, args=(theirs, prepare, arguments), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        theirs.close()
        self._expect("ready")

    def _expect(self, what: str) -> Any:
        try:
            kind, value = self.pipe.recv()
        except EOFError:
            raise RoleError("a benchmark process died") from None
        if kind != what:
            raise RoleError(str(value))
        return value

    def go(self) -> None:
        self.pipe.send("go")

    def result(self) -> tuple[int, int, Any]:
        """Begin and end (CLOCK_MONOTONIC, ns) and what the timed function returned."""
        self.ran_ns, found = self._expect("done")
        return found  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Lets the process end, which closes its clients."""
        self.pipe.send("end")
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def together(*roles: Role, warm: Path | None = None) -> list[tuple[int, int, Any]]:
    """Starts all at once, and returns their results in the same order. warm: a folder on the disk that is measured; the run
    then finds its pages warm."""
    if warm:
        warm_pages(warm)
    for role in roles:
        role.go()
    # In the order in which they end: one that fails must not be waited for by those who wait for its messages.
    found = {}
    while waiting := {role.pipe: role for role in roles if role not in found}:
        for pipe in wait(list(waiting)):
            found[waiting[pipe]] = waiting[pipe].result()
    for role in roles:
        role.finish()
    return [found[role] for role in roles]
