"""The `orbitmq` command as processes that need not import it first: each is forked from a process that has imported it, also
what it imports later, and has done nothing else. Half a second of imports for each command would be most of the processor time
of the tests of commands.

From there on it is a process like any other: with the arguments, environment, folder and open files that it was given, and
ended by its own interpreter. What an interpreter does before is left to the tests that start the command at a terminal
(commands.py) or from a shell.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock, active_count

from tests.waiting import WATCHDOG_S
from tests.warm import MODULES

REQUEST_MAX = 1 << 18


class Prepared:
    """The process that the others are forked from. environment: what the command reads when it is imported."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_MAX)
        self._lock = Lock()
        with theirs:
            command = [sys.executable, "-m", "tests.cli.prepared", str(theirs.fileno())]
            root = str(Path(__file__).resolve().parents[2])
            # It ends when our end of the socket is closed, at the latest with this process.
            self._process = subprocess.Popen(command, cwd=root, env=environment, pass_fds=[theirs.fileno()])

    def run(self, arguments: Sequence[str], environment: Mapping[str, str], feed: str) -> subprocess.CompletedProcess[str]:
        """As subprocess.run: the command with these arguments, to its end."""
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        theirs = [stdin[0], stdout[1], stderr[1]]
        request = json.dumps([list(arguments), str(Path.cwd()), dict(environment)]).encode()
        with self._lock, ThreadPoolExecutor(3) as threads:
            socket.send_fds(self._ours, [request], theirs)
            for each in theirs:
                os.close(each)
            threads.submit(_write, stdin[1], feed.encode())
            told, complaint = (threads.submit(_read, ours) for ours in (stdout[0], stderr[0]))
            pid = int(self._answer())
            try:
                code = int(self._answer())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(list(arguments), code, told.result(WATCHDOG_S), complaint.result(WATCHDOG_S))

    def _answer(self) -> bytes:
        if not select.select([self._ours], [], [], WATCHDOG_S)[0]:
            raise TimeoutError(f"the command has not ended within {WATCHDOG_S:g} s")
        answer = self._ours.recv(REQUEST_MAX)
        assert answer, "the process that the commands are forked from has ended"
        return answer


def _write(file: int, data: bytes) -> None:
    with open(file, "wb") as stream:
        stream.write(data)


def _read(file: int) -> str:
    with open(file, encoding="utf-8") as stream:
        return stream.read()


def fork_commands(asked: socket.socket) -> bool:
    """Forks for each request. Returns True in a process that is to be the command, and False when no more requests come."""
    while True:
        request, files, _, _ = socket.recv_fds(asked, REQUEST_MAX, 3)
        if not request:
            return False
        assert active_count() == 1, "importing the command has started a thread"
        pid = os.fork()
        if pid == 0:
            asked.close()
            arguments, folder, environment = json.loads(request)
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["orbitmq", *arguments]
            return True
        for file in files:
            os.close(file)
        asked.send(b"%d" % pid)
        asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    from orbitmq.cli.main import main_process

    for further in MODULES[main_process.__module__]:
        with suppress(ImportError):
            importlib.import_module(further)
    gc.collect()
    gc.freeze()
    if fork_commands(socket.socket(fileno=int(sys.argv[1]))):
        main_process()
