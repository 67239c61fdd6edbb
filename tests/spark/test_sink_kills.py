"""Goal: a stream into a topic stores every row once, in order, although one of its tasks fails, its driver is killed in the
middle of commits, and its broker too.

Method: two drivers in processes of their own, with one checkpoint. The process that commits dies at a crash point, and the
first driver starts the query again. It dies again, at another point, and then all of its driver by SIGKILL. The broker is
killed too, and comes back when the second driver runs already, which ends well.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import orbitmq
from orbitmq.spark.sink.staging import Staging
from orbitmq.store.layout import StoreLayout
from tests.crash import crash_build
from tests.crash.crash_plan import CrashPlan
from tests.spark.sink_rows import left, wrong

pytestmark = pytest.mark.pyspark

FILES, LINES = 2, 5000
NAME = "sink-kills"
# Where the processes that commit die: the driver goes on after the first death, and is killed after the second.
DEATHS = ("sink_commit_sent", "sink_commit_done")


@contextmanager
def driver(folder: Path, plan: Path | None) -> Iterator[subprocess.Popen[str]]:
    """With its JVM and their Python processes, all of which are killed at the end."""
    environment = {**os.environ, **crash_build.environment(plan)}
    # After it what this run was given, which may be an older PySpark.
    environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.spark.sink_driver", NAME, str(folder), *(["again"] if plan else [])]
    with (folder / "driver.log").open("a") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_drivers_that_are_killed(tmp_path: Path) -> None:
    crash_build.build()
    (tmp_path / "in").mkdir()
    for task in range(FILES):
        (tmp_path / "in" / f"{task}.txt").write_text("".join(f"{task} {line}\n" for line in range(LINES)))
    broker = orbitmq.Broker(tmp_path / "store", name=NAME, handlers=1, log_file_size=1 << 26)
    try:
        broker.create_topic("t", 2)
        plan = CrashPlan(tmp_path / "plan")
        plan.arm(*DEATHS)
        with driver(tmp_path, plan.path) as process:
            while not plan.victim(DEATHS[-1]):  # two JVMs at once can take a minute; the test's own limit is the watchdog
                assert process.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
                select.poll().poll(20)
        assert plan.victim(DEATHS[0])
        os.kill(broker.pid, signal.SIGKILL)
        broker.close()
        with driver(tmp_path, None) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            broker = orbitmq.Broker(tmp_path / "store", name=NAME, handlers=1, log_file_size=1 << 26)
            assert process.wait() == 0, (tmp_path / "driver.log").read_text()[-4000:]
        assert (tmp_path / "failed").exists()
        assert wrong(tmp_path / "store", FILES, LINES) == []
        assert left(Staging(StoreLayout.at(tmp_path / "store").own / "spark")) == []
    finally:
        broker.close()
