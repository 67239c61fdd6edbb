"""Goal: executors in processes of their own need nothing but the paths. Method: spark-submit, with a cluster of two workers on
this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.tables.exporting import seen
from tests.tables.stored_topics import StoredTopics

pytestmark = pytest.mark.pyspark

ROOT = Path(__file__).resolve().parents[2]


def test_submitted_to_a_cluster(tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    stored.add("a", 2)
    for number in range(300):
        stored.send("a", b"%d" % number * 9, store_ms=1_700_000_000_000 + number * 600_000)
    submit = Path(pyspark.__file__).with_name("bin") / "spark-submit"
    command = [str(submit), "--master", "local-cluster[2,1,512]", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.executor.memory=512m", str(ROOT / "cli" / "spark_submit.py")]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(submit.parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(tmp_path / "workers"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    done = subprocess.run(
        [*command, str(stored.root), str(tmp_path / "out")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run 1" in done.stdout
    assert seen(tmp_path / "out") == sorted(row[:4] for row in stored.rows)
