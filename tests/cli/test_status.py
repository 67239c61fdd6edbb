"""Goal: Ctrl-C ends a pause between two looks as a KeyboardInterrupt at every instant, also while the pause begins. Method: a
timer of 5 to 44 µs, so that some signals come right then. The pause is short, because a signal that comes just before it is
noticed at its end."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from orbitmq.cli.group import _watched
from orbitmq.cli.looks import Look
from orbitmq.cli.status import _watch
from tests.cli.made_status import status

LOOK = Look(status())


@pytest.mark.timeout(600, method="thread")  # the usual watchdog needs the same timer
@pytest.mark.parametrize("pauses", [lambda: _watch(lambda: LOOK, 1.0, queues=False), lambda: _watched(list)])
def test_ctrl_c_ends_a_pause_wherever_it_comes(pauses: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("status", "group"):
        monkeypatch.setattr(f"orbitmq.cli.{module}.RATE_S", 0.01)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for turn in range(2000):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, (5 + turn % 40) / 1e6)
                pauses()
    finally:
        signal.signal(signal.SIGALRM, previous)
