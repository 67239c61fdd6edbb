"""SIGTERM and SIGINT, while a worker works: the first asks it to stop, the second has its usual effect."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

NUMBERS = (signal.SIGTERM, signal.SIGINT)
_logger = logging.getLogger("orbitmq")


class StopSignals:
    """For `with` statements, which may be nested. stop: called by a signal handler. Does nothing in other threads than the
    main one, and leaves alone a signal that the program itself handles or ignores."""

    def __init__(self, stop: Callable[[], None], *, wanted: bool = True) -> None:
        self._stop = stop
        self._wanted = wanted
        self._depth = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._depth += 1
        if self._wanted and self._depth == 1 and threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                handler = signal.getsignal(number)
                if _usual(handler):
                    self._before[number] = handler
                    signal.signal(number, self._first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _first(self, number: int, frame: FrameType | None) -> None:
        self._stop()  # first: whoever sees the usual handlers again knows that nothing more is begun
        self._restore()
        _logger.info("stopping after %s: the worker finishes what it has begun", signal.Signals(number).name)


def _usual(handler: Any) -> bool:
    """True if the program has left the signal as it was. asyncio.run has a handler of its own for SIGINT."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    asyncio = sys.modules.get("asyncio")
    owner = getattr(getattr(handler, "func", None), "__self__", None)
    return asyncio is not None and isinstance(owner, asyncio.Runner)
