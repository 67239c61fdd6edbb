"""Goal: a command's process ends as others do, with its status, its output and what was registered for its exit, but without
taking apart what it has imported. Method: programs that end so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import WATCHDOG_S

PROGRAM = """
import atexit, sys, threading
from orbitmq.cli.quick_end import end_quickly

class Left:
    def __del__(self):
        print("taken apart", flush=True)

left = Left()
go = threading.Event()

def work():
    go.wait()
    print("the thread has ended")

atexit.register(print, "registered before")
thread = threading.Thread(target=work)
thread.start()
atexit.register(print, "registered after")
go.set()
end_quickly(int(sys.argv[1]))
"""


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def ended(program: str, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, **pipes, env=ENVIRONMENT, text=True, timeout=WATCHDOG_S, check=False)


@pytest.mark.parametrize("status", [0, 3])
def test_nothing_is_left_out_but_the_taking_apart(status: int) -> None:
    done = ended(PROGRAM, str(status))
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.splitlines() == ["the thread has ended", "registered after", "registered before"]


def test_output_that_cannot_be_written() -> None:
    """As at the interpreter's own end."""
    program = "print('printed'); from orbitmq.cli.quick_end import end_quickly; end_quickly(0)"
    with Path("/dev/full").open("w") as full:
        done = ended(program, stdout=full.fileno())
    assert done.returncode == 120 and "No space left on device" in done.stderr
