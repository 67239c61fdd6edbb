"""Starts by fork. Python needs twice as much time to import a broker as the broker needs to start; so what the tests start most
is forked from a parent that has imported it already (warm_parent.py).

A process so started differs from a usual one in nothing that it could ask for: arguments, environment, folder, descriptors,
limits, and whose child it is. Whoever needs the usual way sets ORBITMQ_COLD_STARTS=1, in the environment of a whole run or of
one test.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "warm_parent.py"
# With what they import later, if the settings or the command's words ask for it; some of that not every version has.
MODULES = {
    "orbitmq.actors.supervisor.supervisor": ["orbitmq.actors.gateway.front", "orbitmq.actors.gateway.gateway", "tomllib"],
    "orbitmq.cli.main": [
        *(f"orbitmq.cli.{path.stem}" for path in sorted((ROOT / "cli").glob("[a-z]*.py")) if path.stem != "main"),
        "orbitmq.cli.doctor.command", "orbitmq.cli.top.command", "orbitmq.cli.web.command",
        "importlib.metadata", "pydantic", "pydantic.plugin._loader", "pydantic.type_adapter",
        "rich._emoji_codes", "rich.markdown", "typer._adapters", "typer._click.decorators", "typer.rich_utils",
    ],
    "tests.tables.exporting": [],
}
PROGRAMS = (
    "actors/worker_process.py", "crash/backup_program.py", "crash/commit_worker.py", "crash/worker.py", "power/program.py",
    "spark/commit_program.py",
)  # fmt: skip
FILES = {ROOT / "tests" / name for name in PROGRAMS}
COLD = "ORBITMQ_COLD_STARTS"
ROOM_FOR_A_NAME = "." * 2000  # processes show their names where the arguments stood
PR_SET_CHILD_SUBREAPER = 36
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
# Of what may be asked of Popen; whoever asks for more gets the usual way.
PLAIN = {"preexec_fn": None, "close_fds": True, "shell": False, "gid": None, "gids": None, "uid": None, "umask": -1}
# A program that is started ignores what its parent ignores (SIGHUP, below nohup), and leaves other handlers behind.
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}

_usual = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_signature = inspect.signature(_usual)


class Parent:
    """One parent, of processes that import the same with the same environment of Python's."""

    def __init__(self, command: list[str], kind: str, what: str, environment: dict[str, str]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            arguments = [*command, str(PROGRAM), str(number), kind, what, ROOM_FOR_A_NAME, *MODULES.get(what, [])]
            self.process = subprocess.Popen(arguments, env=environment, pass_fds=[number], cwd=ROOT, stdin=subprocess.DEVNULL)

    def fork(self, order: dict[str, Any], descriptors: list[int]) -> int:
        """Number of the process, which is a child of this one; 0: there is none."""
        _take_orphans(True)
        try:
            socket.send_fds(self._line, [json.dumps(order).encode()], descriptors)
            return int(self._line.recv(32) or 0)
        except OSError:
            return 0
        finally:
            _take_orphans(False)

    def end(self) -> None:
        self._line.close()
        self.process.wait()


class Parents:
    """Those of this process, made when they are first needed."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], Parent] = {}

    def fork(self, wanted: dict[str, Any]) -> int:
        """What Popen was asked for. 0: it is to be started the usual way."""
        found = _program(wanted["args"], wanted["executable"])
        environment = dict(wanted["env"] if wanted["env"] is not None else os.environ)
        if found is None or os.getpid() != self._process or not _is_plain(wanted, environment):
            return 0
        kind, what, arguments = found
        order = {
            "arguments": arguments,
            "environment": environment,
            "folder": os.fspath(wanted["cwd"] or Path.cwd()),
            "session": wanted["start_new_session"],
            "umask": _umask(),
            "ignored": [number for number in USUAL if signal.getsignal(number) == signal.SIG_IGN],
            "processors": sorted(os.sched_getaffinity(0)),
            "limits": {limit: resource.getrlimit(limit) for limit in LIMITS},
        }
        standard = {0: wanted["p2cread"], 1: wanted["c2pwrite"], 2: wanted["errwrite"]}
        places = {place: descriptor if descriptor >= 0 else place for place, descriptor in standard.items()}
        places |= {descriptor: descriptor for descriptor in wanted["pass_fds"]}
        if any(map(os.isatty, places.values())):
            return 0
        pythons = tuple(f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(("PYTHON", "LD_")))
        with self._lock:
            key = (kind, what, *pythons)
            if key not in self._known:
                self._known[key] = Parent([wanted["args"][0]], kind, what, environment)
            return self._known[key].fork({**order, "places": list(places)}, list(places.values()))

    def end(self) -> None:
        for parent in self._known.values():
            parent.end()


def _program(arguments: Any, executable: Any) -> tuple[str, str, list[str]] | None:
    """Kind, name and arguments, if it is one of those that are forked."""
    if not isinstance(arguments, list) or executable not in (None, sys.executable) or arguments[0] != sys.executable:
        return None
    words = [os.fspath(word) for word in arguments]
    if words[1] == "-m" and words[2] in MODULES:
        return "module", words[2], words[3:]
    return ("file", words[1], words[2:]) if Path(words[1]) in FILES else None


def _is_plain(wanted: dict[str, Any], environment: dict[str, str]) -> bool:
    return (
        not environment.get(COLD)
        and all(wanted[name] == value for name, value in PLAIN.items())
        and wanted["process_group"] in (None, -1)
        and not signal.pthread_sigmask(signal.SIG_BLOCK, [])
        and all(signal.getsignal(number) in (handler, signal.SIG_IGN) for number, handler in USUAL.items())
    )


def _umask() -> int:
    """Of this process, without a moment in which it is another."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")]
    return int(line.split()[1], 8)


def _take_orphans(yes: bool) -> None:
    """Whether this process becomes the parent of descendants whose parent ends. Only as long as it waits for one."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) == 0


@contextmanager
def warm_starts(kept: Parents | None = None) -> Iterator[None]:
    """kept: parents that the caller ends. Without them, those of the block end with it."""
    parents = kept or Parents()

    def execute_child(self: Any, *given: Any) -> None:
        wanted = _signature.bind(self, *given).arguments
        process = parents.fork(wanted)
        if not process:
            _usual(self, *given)
            return
        self.pid = process
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(wanted[name] for name in pipes))

    try:
        with patch.object(subprocess.Popen, "_execute_child", execute_child):
            yield
    finally:
        if kept is None:
            parents.end()
