"""The signals that wake the supervisor's loop, and from when on its children hear them.

A child hears none of them before its `main` says so (`hear`): one that comes sooner waits, and does not end a process that has
not yet said what it does at a signal."""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def hold() -> None:
    """From now on these signals wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def hear() -> None:
    """They come, with those that have waited."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
