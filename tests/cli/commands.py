"""The `orbitmq` command as separate processes: run to the end (prepared.py), in the background, or at a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.prepared import Prepared
from tests.waiting import WATCHDOG_S, until

COMMAND = [sys.executable, "-m", "orbitmq.cli"]
SMALL = ("--handlers", "1", "--log-file-size", "1M", "--set", "index_slots=1000", "--set", "index_entries=4000")
SMALL = (*SMALL, "--set", "queue_file_units=1000")


def run(*arguments: str, feed: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """more: of the environment."""
    done = _prepared().run(arguments, environment() | more, feed)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


@cache
def _prepared() -> Prepared:
    return Prepared(environment())


class Background:
    """A command that runs while the test does something else. If it still runs at the end of its block, it is killed."""

    def __init__(self, *arguments: str, feed: str | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orbitmq.cli.main", *arguments],  # one of those that are forked from a warm parent
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert self.process.stdin is not None
        if feed is not None:
            self.process.stdin.write(feed.encode())
        self.process.stdin.close()
        self.process.stdin = None

    def waits_for_a_broker(self) -> None:
        """Returns when the command has looked once, and watches the runtime folder."""
        until(self._watches, "the command to wait")

    def _watches(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        with suppress(FileNotFoundError):
            open_files = Path(f"/proc/{self.process.pid}/fd").iterdir()
            return any(str(each.readlink()) == "anon_inode:inotify" for each in open_files)
        return False

    def end(self) -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of the command, after it has ended."""
        told, complaint = self.process.communicate(timeout=WATCHDOG_S)
        assert b"Traceback" not in complaint, complaint
        return self.process.returncode, told.decode(), complaint.decode()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Terminal:
    """A command with a terminal of its own; `shown` is everything that it has written there."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        environment = {**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
        # A session of its own, whose terminal this becomes: so Ctrl-C reaches it.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *COMMAND, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environment,
        )
        os.close(theirs)

    def read_to(self, text: str) -> None:
        """Reads until this was shown."""
        while text not in self.shown:
            assert self._read(), f"ended before {text!r}: {self.shown}"

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def type_when_it_waits(self, keys: str) -> None:
        """Types when the command sleeps in a read of its terminal. Python does not notice a Ctrl-C that comes between its last
        look at signals and that read until the next key."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "the command to sleep")
        self.type(keys)

    def end(self) -> int:
        """The exit code of the command, after it has ended."""
        while self._read():
            pass
        code = self.process.wait(WATCHDOG_S)
        assert "Traceback" not in self.shown, self.shown
        return code

    def _read(self) -> bool:
        """False: nobody writes to it any more."""
        assert select.select([self._ours], [], [], WATCHDOG_S)[0], self.shown
        try:
            read = os.read(self._ours, 4096)
        except OSError:
            return False
        self.shown += read.decode(errors="replace")
        return bool(read)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
