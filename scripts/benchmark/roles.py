"""Processes of a benchmark: forked, prepared, started together, and asked for their result."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
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
        begin = time.monotonic_ns()
        found = act()
        pipe.send(("done", (begin, time.monotonic_ns(), found)))
        pipe.recv()
    except BaseException:
        pipe.send(("error", traceback.format_exc()))


class Role:
    """One process. `prepare(*arguments)` runs in it and returns the function that is timed."""

    def __init__(self, prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> None:
        self._pipe, theirs = FORK.Pipe()
        self._process = FORK.Process(target=_play, args=(theirs, prepare, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._expect("ready")

    def _expect(self, what: str) -> Any:
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            raise RoleError("a benchmark process died") from None
        if kind != what:
            raise RoleError(str(value))
        return value

    def go(self) -> None:
        self._pipe.send("go")

    def result(self) -> tuple[int, int, Any]:
        """Begin and end (CLOCK_MONOTONIC, ns) and what the timed function returned."""
        return self._expect("done")  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Lets the process end, which closes its clients."""
        self._pipe.send("end")
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
    found = [role.result() for role in roles]
    for role in roles:
        role.finish()
    return found
