"""Goal: what an embedded broker says comes through its program's logging, and nothing on its error output. Method: programs
that embed a broker, one of whose processes is killed; and a pipe alone."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq.client.broker import log as broker_log
from orbitmq.client.broker.log import BrokerLog
from orbitmq.shm.event import Event, as_record
from tests.trees import actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until

PROGRAM = """
import logging, os, signal, sys
import orbitmq
from tests.trees import SMALL, kill, actors
from tests.waiting import until
CONFIGURE
with orbitmq.Broker(sys.argv[1], **SMALL, name="embedded", SETTINGS) as broker:
    kill(broker, "notifier")
    until(lambda: actors(broker)["notifier"].epoch == 2, "the notifier's next life")
"""


def run(store: Path, configure: str = "", settings: str = "") -> str:
    """The error output of a program. Python's own development mode shows what is not closed."""
    program = PROGRAM.replace("CONFIGURE", configure).replace("SETTINGS", settings)
    command = [sys.executable, "-X", "dev", "-c", program, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * WATCHDOG_S)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def test_a_program_that_configures_nothing(tmp_path: Path) -> None:
    assert run(tmp_path) == ""


def test_a_program_that_shows_its_logging(tmp_path: Path) -> None:
    shown = run(tmp_path, "logging.basicConfig(level='INFO', format='%(levelname)s|%(name)s|%(broker)s|%(message)s')")
    lines = [line.split("|") for line in shown.splitlines()]
    assert {(name, broker) for _, name, broker, _ in lines} == {("orbitmq.broker.supervisor", "embedded")}
    assert [(level, text.split(",")[0].split(" (")[0]) for level, _, _, text in lines] == [
        ("INFO", f"runs on the store {tmp_path}"),
        ("ERROR", "notifier"),
        ("INFO", "stops"),
        ("INFO", "has stopped; the store is flushed and closed"),
    ]


@pytest.mark.parametrize("level", ["debug", "error"])
def test_levels(tmp_path: Path, level: str) -> None:
    """What the broker's setting leaves out never comes; what the program leaves out is not shown."""
    shown = run(tmp_path, "logging.basicConfig(level=1, format='%(levelname)s %(name)s')", f"log_level={level!r}").split("\n")
    assert "ERROR orbitmq.broker.supervisor" in shown
    assert ("INFO orbitmq.broker.supervisor" in shown, "DEBUG orbitmq.broker.supervisor" in shown) == (level == "debug",) * 2
    quiet = "logging.basicConfig(level=1, format='%(name)s'); logging.getLogger('orbitmq.broker').setLevel('CRITICAL')"
    assert "orbitmq.broker" not in run(tmp_path, quiet)


def test_a_file_beside_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The store remembers it. The program gets the same."""
    file = tmp_path / "b.log"
    with small_broker(tmp_path / "store", log_file=str(file), log_format="json"):
        pass
    with small_broker(tmp_path / "store") as broker:
        kill(broker, "notifier")
        until(lambda: actors(broker)["notifier"].epoch == 2, "the notifier's next life")
    told = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["message"] for line in told] == caplog.messages and len(told) == 7
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    assert [line.get("fields", {}) for line in told] == fields and fields[4]["ended"] == "SIGKILL"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_program_whose_logging_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker goes on, and heals itself. Method: a pipe that holds few lines."""
    usual = os.pipe2

    def narrow(flags: int) -> tuple[int, int]:
        ends = usual(flags)
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
        return ends

    monkeypatch.setattr(os, "pipe2", narrow)
    held, hangs = threading.Event(), threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            hangs.set()
            held.wait(WATCHDOG_S)

    handler = Hanging()
    logging.getLogger("orbitmq.broker").addHandler(handler)
    try:
        with small_broker(tmp_path, log_level="debug", restarts=1000) as broker, ExitStack() as stack:
            stack.callback(held.set)
            assert hangs.wait(WATCHDOG_S)
            for life in range(2, 26):
                kill(broker, "notifier")
                until(lambda life=life: actors(broker)["notifier"].epoch == life, "the next life")  # type: ignore[misc]
            assert broker.status().state == "running"
    finally:
        logging.getLogger("orbitmq.broker").removeHandler(handler)


LEFT_OPEN = """
import atexit

def later():  # after logging was shut down, which happens in the reverse order
    kill(broker, "notifier")
    until(lambda: actors(broker)["notifier"].epoch == 3, "the notifier's last life")
    CLOSE
    print(handler.told, handler.late)

atexit.register(later)
import logging, os, signal, sys
import orbitmq
from tests.trees import SMALL, kill, actors
from tests.waiting import until

class Handler(logging.Handler):
    told, late, over = 0, 0, False
    def emit(self, record):
        died = record.getMessage().startswith("notifier (process")
        self.told += died and not self.over
        self.late += died and self.over
    def close(self):
        self.over = True
        super().close()

handler = Handler()
logging.basicConfig(level="INFO", handlers=[handler])
broker = orbitmq.Broker(sys.argv[1], **SMALL, name="embedded", restarts=1000)
kill(broker, "notifier")
until(lambda: actors(broker)["notifier"].epoch == 2 and handler.told, "the notifier's next life")
"""


@pytest.mark.parametrize(("close", "told"), [("", "1 0"), ("broker.close()", "1 1")])
def test_a_program_that_ends_before_its_broker(tmp_path: Path, close: str, told: str) -> None:
    """Goal: a handler that was closed gets nothing. Method: a process of the broker dies before the program's end, and again
    after logging was shut down. Only a program that stops its broker then hears of that."""
    command = [sys.executable, "-c", LEFT_OPEN.replace("CLOSE", close or "pass"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * WATCHDOG_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{told}\n", "")


def test_what_came_before_the_program_s_end(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: nothing is lost of it, nor of what comes until the broker is stopped. Method: a pipe alone, whose writer is not at
    the end of a line when the program ends; and time enough for the handler, on any machine."""
    monkeypatch.setattr(broker_log, "LEAVE_S", WATCHDOG_S)
    log = BrokerLog("b")
    os.write(log.writer, b"one\n" * 1000 + b"half a ")
    log._leave()
    assert caplog.messages == ["one"] * 1000 and not log._thread.is_alive()
    os.write(log.writer, b"line\nthe end")
    os.close(log.writer)
    log.end()
    assert caplog.messages[1000:] == ["half a line", "the end"]


def test_of_the_supervisor_itself(caplog: pytest.LogCaptureFixture) -> None:
    """What is no event: an assertion of C; and what it says in pieces."""
    log = BrokerLog("b")
    record = as_record(Event(12.5, logging.WARNING, "handler 0", 7, "100 % full", {"errno": 28}, "Traceback: x"))
    for piece in (b"x.c:1: Assertion failed", b".\n", record[:10], record[10:], b"the end"):
        os.write(log.writer, piece)
    keeper = os.dup(log.writer)  # as a process has it that another thread of the program forked
    os.close(log.writer)
    log.end()
    os.close(keeper)
    first, second, third = caplog.records
    assert (first.name, first.levelname, first.message) == ("orbitmq.broker.supervisor", "ERROR", "x.c:1: Assertion failed.")
    assert (second.name, second.created, second.process) == ("orbitmq.broker.handler-0", 12.5, 7)
    assert (second.message, second.exc_text, getattr(second, "fields", None)) == ("100 % full", "Traceback: x", {"errno": 28})
    assert third.message == "the end"
