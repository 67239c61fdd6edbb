"""A real worker of Celery's, of the application in docs/examples/celery_shop.py with the tasks of celery_tasks.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


class Worker:
    """Processes of a worker, one after the other. A folder has what they print, and the ledger of their tasks."""

    def __init__(self, folder: Path, url: str) -> None:
        self._ledger = folder / "ledger"
        self._log = folder / "log"
        path = os.pathsep.join([str(EXAMPLES), str(ROOT)])
        self._environment = {**os.environ, "SHOP_BROKER": url, "SHOP_LEDGER": str(self._ledger), "PYTHONPATH": path}
        self.process: subprocess.Popen[bytes] | None = None
        self._orphans: list[int] = []

    def start(self, *pool: str) -> None:
        """pool: options that choose it; by default it is solo."""
        pool = pool or ("--pool", "solo")
        command = [sys.executable, "-m", "celery", "--app", "tests.contrib.celery_tasks", "worker", *pool]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self._environment, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """Its pool goes on for as long as tasks let it."""
        assert self.process is not None
        self._orphans += self.children()
        self.process.kill()
        self.process.wait()

    def children(self) -> list[int]:
        """The processes of its pool, whichever of its threads has made them."""
        assert self.process is not None
        found: list[int] = []
        for each in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end
                found += map(int, each.read_text().split())
        return found

    def lines(self, kind: str) -> list[list[str]]:
        text = self._ledger.read_text() if self._ledger.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.split()[0] == kind]

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for pid in self._orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        print(self._log.read_text() if self._log.exists() else "")
