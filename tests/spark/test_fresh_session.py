"""Goal: a session that is made without naming OrbitMQ knows the format. Method: programs of their own in the environment that
scripts/setup has made, with nothing of the checkout in PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import READY
from tests.tables.stored_topics import StoredTopics

pytestmark = pytest.mark.pyspark

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("orbitmq").option("subscribe", "a").load(sys.argv[1]).count())
spark.stop()
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("fresh") / "store")
    stored.add("a", 2)
    for number in range(300):
        stored.send("a", b"%d" % number)
    return stored


def activated() -> dict[str, str]:
    """The environment as `source .venv/bin/activate` leaves it. Of PYTHONPATH only what holds another PySpark stays."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    paths = [path for path in environment.pop("PYTHONPATH", "").split(os.pathsep) if path and Path(path) not in (ROOT, READY)]
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), environment["PATH"]])
    return environment | {"SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("started", ["python", "spark-submit"])
def test_the_format_is_there(stored: StoredTopics, started: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    submit = Path(pyspark.__file__).with_name("bin") / "spark-submit"
    command = ["python3"] if started == "python" else [str(submit), "--master", "local[2]"]
    environment = activated() | ({"SPARK_HOME": str(submit.parent.parent)} if started == "spark-submit" else {})
    done = subprocess.run(
        [*command, str(program), str(stored.root)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "300"
