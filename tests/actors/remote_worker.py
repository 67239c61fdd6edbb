"""A worker in a process of its own (worker_process.py), that does what it is told, and can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tests.waiting import WATCHDOG_S

PROGRAM = str(Path(__file__).with_name("worker_process.py"))
Seen = tuple[int, int, float]  # the message's number, its delivery, its deadline


class RemoteWorker:
    """Messages are named by the number that is their body. Answers are None if the broker has gone."""

    def __init__(self, broker: str, group: str, topic: str, **settings: Any) -> None:
        self.visibility: float = settings["visibility"]
        self._line, far = Pipe()
        with far:
            arguments = [str(far.fileno()), broker, group, topic, json.dumps(settings)]
            self._process = subprocess.Popen([sys.executable, PROGRAM, *arguments], pass_fds=[far.fileno()])

    def take(self, most: int, timeout: float) -> list[Seen] | None:
        return self._ask("take", most, timeout)  # type: ignore[no-any-return]

    def answer(self, how: str, numbers: list[int], *more: float) -> list[int] | None:
        """how: ack, nack, extend or give_back, or one of these and "+settled". Returns the numbers that were refused."""
        return self._ask(how, numbers, *more)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._ask("close")
        self._process.wait()
        self._line.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._line.close()

    def _ask(self, *question: Any) -> Any:
        self._line.send(question)
        assert self._line.poll(WATCHDOG_S), question
        return self._line.recv()
