"""A broker that comes and goes under one name, for tests of clients that wait for it."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orbitmq
from orbitmq.client.broker.launch import start_tree
from tests.trees import SMALL
from tests.waiting import WATCHDOG_S

_numbers = itertools.count(1)


class Restarts:
    """name: of the broker in all of its lives; nothing runs at first."""

    def __init__(self, store: Path, **settings: Any) -> None:
        self.store = store
        self.name = f"restarts-{os.getpid()}-{next(_numbers)}"
        self._settings = {**SMALL, **settings}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it runs."""
        options = {"name": self.name, "owner": os.getpid(), **self._settings}
        self.process = start_tree(str(self.store), options).process

    def kill(self) -> None:
        """Kills the supervisor, and so the whole tree. Returns when no client can mistake it for a living one."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None:
            self.stop()

    def connect(self, **settings: Any) -> orbitmq.Client:
        return orbitmq.connect(self.name, **{"timeout": WATCHDOG_S, **settings})
