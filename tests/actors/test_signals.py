"""When the processes of a tree hear the signals that stop it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from orbitmq.actors import signals
from orbitmq.actors.actor import Stopping
from orbitmq.actors.supervisor.child_output import ChildOutput
from orbitmq.actors.supervisor.children import child_process


def ended(main: Callable[[], int]) -> int:
    """How a child process ends: its exit code, or the number of a signal, negative."""
    output = ChildOutput("notifier", lambda _: None)
    pid = child_process(main, set(), output)
    _, status = os.waitpid(pid, 0)
    output.end()
    return os.waitstatus_to_exitcode(status)


def test_a_stop_in_the_first_moment() -> None:
    """An actor that is told to stop before it knows what that is stops as any other: it finishes its work, and says how."""

    def main() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0 if Stopping() else 1

    assert ended(main) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_a_child_hears_by_itself(number: signal.Signals) -> None:
    """A child without an answer of its own ends at a signal, though not before it hears it."""

    def main() -> int:
        os.kill(os.getpid(), number)
        os.write(writer, b"held")
        signals.hear()
        return 0

    reader, writer = os.pipe()
    output = ChildOutput("recovery", lambda _: None)
    pid = child_process(main, {writer}, output)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -number
    assert os.read(reader, 9) == b"held"
    os.close(reader)
    output.end()


def test_the_parent_hears() -> None:
    assert ended(lambda: 3) == 3
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(signals.SIGNALS)
