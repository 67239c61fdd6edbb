"""A broker that batches of the sink's are committed to, without Spark, and processes that commit one and die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import orbitmq
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.spark.sink.state import Query
from tests.crash import crash_build
from tests.crash.crash_plan import CrashPlan

PROGRAM = Path(__file__).with_name("commit_program.py")


class CommittingSink:
    """kind: of commit_program.py. home: where rows are staged."""

    kind: ClassVar[str]
    broker: orbitmq.Broker

    def __init__(self, folder: Path, home: Staging) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.home = home
        self.start()
        self.broker.create_topic("t", 3)
        self.query = Query.of(home, "q")

    def start(self) -> None:
        """Starts the broker, again too."""
        raise NotImplementedError

    def command(self, target: list[Any], staged: list[StagedRows], *, named: bool = True) -> list[str]:
        """Of a process of its own that commits them. target: what Target or Servers get."""
        told = [self.kind, str(self.home.home), target, [asdict(each) for each in staged], named]
        return [sys.executable, str(PROGRAM), json.dumps(told)]

    def die(self, point: str, passage: int, command: list[str]) -> None:
        """A process is killed at this passage of the point."""
        plan = CrashPlan(self.folder / "plan")
        plan.arm(point, passage=passage)
        environment = {**os.environ, **crash_build.environment(plan.path)}
        done = subprocess.run(command, env=environment, cwd=self.folder, check=False)
        assert done.returncode == -signal.SIGKILL, f"nobody passed {point}"

    def kill_broker(self) -> None:
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.close()
