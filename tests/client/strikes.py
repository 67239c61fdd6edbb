"""Signals at every place where they can be handled, one by one. Python runs a signal handler at certain bytecodes of the main
thread (when a function begins, a call has returned, a loop goes back), and an exception that the handler raises appears there.

A tracer triggers the signal before the n-th such bytecode of the code under test; the interpreter itself calls the handler. It
triggers by an attribute and not by a call: after a call in the tracer the handler would run there.
"""

from __future__ import annotations

import _thread
import dis
import itertools
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SIGNAL = signal.SIGUSR1
ROOT = str(Path(__file__).resolve().parents[2])
TESTS = str(Path(__file__).resolve().parents[1])
ALSO = {"contextlib.py", "threading.py"}
# Functions that wake a task: what is raised in one may appear in asyncio's call_soon, which then never wakes the task. asyncio
# is not made for handlers that raise; its own add_signal_handler calls them between two steps.
WAKING = "_finish"
HEEDING = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


class Struck(KeyboardInterrupt):
    """Raised by the handler; asyncio lets no other exception out of its callbacks."""


class _Signal(int):
    trip = property(_thread.interrupt_main)


_TRIPPED = _Signal(SIGNAL)


def _places(code: CodeType) -> frozenset[int]:
    """The places in this code at which a signal is handled, if it is code under test."""
    name = code.co_filename
    ours = name.startswith(ROOT) and not name.startswith(TESTS) and "/.venv/" not in name
    if (not ours and Path(name).name not in ALSO) or (ours and code.co_name == WAKING):
        return frozenset()
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opname.startswith(HEEDING))


# By code, of this process.
_KNOWN: dict[CodeType, frozenset[int]] = {}


@contextmanager
def handler() -> Iterator[None]:
    def strike(*_: object) -> None:
        raise Struck

    before = signal.signal(SIGNAL, strike)
    try:
        yield
    finally:
        signal.signal(SIGNAL, before)


def struck_at(number: int, work: Callable[[], Any]) -> tuple[bool, bool]:
    """Runs the work with the signal at place `number`. Returns whether that place was reached, and whether the handler's
    exception came out (a finalizer's does not)."""
    assert threading.current_thread() is threading.main_thread()
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        """Of a call. What is done at each bytecode looks nothing up."""
        places = _KNOWN.get(frame.f_code)
        if places is None:
            places = _KNOWN[frame.f_code] = _places(frame.f_code)
        if not places:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return at_bytecode(places)

    def at_bytecode(places: frozenset[int]) -> Callable[[FrameType, str, object], Any]:
        def trace_on(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal count
            if event == "opcode" and frame.f_lasti in places:
                count += 1
                if count == number:
                    sys.settrace(None)  # the next call of this function would be such a place too
                    _ = _TRIPPED.trip
            return trace_on

        return trace_on

    try:
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
        for _ in range(3):
            len(())  # a signal that came with the last bytecode is still to be handled
    except Struck:
        return True, True
    return count >= number, False


def strike_everywhere(work: Callable[[], Any], check: Callable[[], Any], step: int = 1) -> int:
    """Repeats the work, struck at one place after the other; `check` checks the state after each. Returns how often it was
    struck. step: 1: at every place; more: at every so many places, others each time."""
    work()  # imports what it imports only once, which would be places of the first tries alone
    check()
    struck = 0
    first = random.randrange(step) + 1
    print(f"struck at places {first}, {first + step}, ...")
    for number in itertools.count(first, step):
        reached, raised = struck_at(number, work)
        struck += raised
        try:
            check()
        except BaseException as error:
            error.add_note(f"after the strike at place {number}")
            raise
        if not reached:
            return struck
    raise AssertionError
