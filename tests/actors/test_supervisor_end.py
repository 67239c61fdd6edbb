"""Goal: a supervisor that ends without taking its interpreter apart leaves nothing unwritten, and its exit status is right.
Method: the program itself, with the beginning of a line in the buffers of both outputs, or with an error output that nobody
reads until the tree has stopped. Of the last lines of actors/supervisor/supervisor.py."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import is_held
from tests.trees import SMALL
from tests.waiting import WATCHDOG_S, dead, until

# Nobody else prints: what is found in the outputs has waited there since the beginning.
PROGRAM = """
import runpy, sys
from orbitmq.actors.supervisor import event_log
event_log.PATIENCE_MS = 240_000  # its reader may get no processor for a while
sys.stdout.write(sys.argv[3])
sys.stderr.write(sys.argv[3])
runpy.run_module("orbitmq.actors.supervisor.supervisor", run_name="__main__", alter_sys=True)
"""
PIPE = 4096  # bytes, the least that a pipe can hold


@contextmanager
def supervisor(store: Path, begun: str, error_output: int, **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A supervisor's process, and the lines that it says to its starter. begun: what waits in the buffers of its outputs."""
    ours, theirs = socket.socketpair()
    content = {"store": str(store), "options": {**SMALL, **options}, "allow_deletion": False}
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(content), str(theirs.fileno()), begun]
    process = subprocess.Popen(
        arguments,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=error_output,
    )
    theirs.close()
    with ours, ours.makefile("rwb", buffering=0) as lines, process:
        try:
            yield process, lines
        finally:
            process.kill()


def test_a_stop_writes_all_that_waits(tmp_path: Path) -> None:
    """Each line of the log once and whole, although the pipe was full all the time; then the status is 0."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE)
    os.set_blocking(writer, False)
    assert os.write(writer, b"." * PIPE) == PIPE
    options = {"log_format": "json", "log_level": "debug", "name": f"ends-{os.getpid()}"}
    with supervisor(tmp_path / "store", "", writer, **options) as (process, lines):
        os.close(writer)
        told = next(line for line in map(json.loads, lines) if "progress" not in line)
        assert "ready" in told, told
        lines.write(b"\n")
        process.send_signal(signal.SIGTERM)
        until(lambda: not is_held(StoreLayout.at(tmp_path / "store")), "the store to be released, which comes last but one")
        with os.fdopen(reader, "rb") as errors:
            filled, written = errors.read(PIPE), errors.read()
        assert filled == b"." * PIPE
        log = [json.loads(line)["message"] for line in written.splitlines()]
        assert written.endswith(b"\n") and log.count("stops") == 1, log
        assert log[-1] == "has stopped; the store is flushed and closed", log
        assert process.wait(WATCHDOG_S) == 0


def test_a_refusal_is_told_whole(tmp_path: Path) -> None:
    """Then the status is 1."""
    with supervisor(tmp_path / "store", "begun", subprocess.PIPE, handlers=0) as (process, lines):
        said = lines.read()
        assert said.endswith(b"\n") and len(said.splitlines()) == 1, said
        error = json.loads(said)
        assert error["error"] == "SettingError" and error["values"]["name"] == "handlers", error
        assert process.stdout is not None and process.stdout.read() == b"begun"
        assert process.stderr is not None and process.stderr.read() == b"begun"
        assert process.wait(WATCHDOG_S) == 1


def test_a_tree_that_cannot_go_on(tmp_path: Path) -> None:
    """Its starter was told that it runs, so the log says why it ends, as the last line. Then the status is 1."""
    options = {"restarts": 0, "name": f"breaks-{os.getpid()}"}
    with supervisor(tmp_path / "store", "", subprocess.PIPE, **options) as (process, lines):
        told = next(line for line in map(json.loads, lines) if "progress" not in line)
        assert "ready" in told, told
        lines.write(b"\n")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        victim = next(int(pid) for pid in children if b"notifier" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(victim, signal.SIGKILL)
        assert process.stderr is not None
        written = process.stderr.read().decode()
        assert written.endswith("\n") and "the notifier died 1 times" in written.splitlines()[-1], written
        assert process.wait(WATCHDOG_S) == 1
        assert all(dead(int(pid)) for pid in children)
