"""Goal: reason and digest of a failure can be stored as properties, and mean the same tomorrow. Method: errors of all kinds."""

from __future__ import annotations

import threading

import pytest

from orbitmq.client.work.failure import REASON_MAX, bounded, failure_of, stuck


class Awkward(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("x"), "ValueError: x"),
        (KeyError(), "KeyError"),
        (ValueError("a\x01b\x02\n\tc  d"), "ValueError: a b c d"),
        (Awkward(), "Awkward: (its text could not be made)"),
        (ValueError("\ud800"), "ValueError: "),
    ],
)
def test_reasons(error: Exception, reason: str) -> None:
    found = failure_of(error)
    assert found.reason.rstrip("? ") == reason.rstrip() and found.digest == ""


def test_a_reason_is_bounded() -> None:
    for text in ("x" * 5000, "ä" * 5000, "😀" * 5000):
        short = bounded(text)
        assert REASON_MAX - 4 <= len(short.encode()) <= REASON_MAX and short.endswith("...")


def test_a_digest_outlives_edits() -> None:
    """It is of the type and of the functions, not of lines or of how deep a recursion was."""

    def raised(kind: type[Exception], depth: int) -> str:
        def inner(left: int) -> None:
            if left:
                inner(left - 1)
            raise kind(depth)

        try:
            inner(depth)
        except kind as error:
            return failure_of(error).digest
        raise AssertionError

    assert raised(ValueError, 0) == raised(ValueError, 9) != raised(KeyError, 0)


def test_a_stuck_thread_shows_where() -> None:
    go = threading.Event()

    def hangs() -> None:
        go.wait()

    thread = threading.Thread(target=hangs)
    thread.start()
    try:
        found = stuck(thread.ident, 2.5)
        assert found.reason == "TimedOut: not done after 2.5 s" and found.digest
    finally:
        go.set()
        thread.join()
    assert stuck(None, 1).digest == ""
