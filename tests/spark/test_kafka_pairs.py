"""Goal: OrbitMQ's source and Spark's Kafka source answer alike, or differently, as docs/spark.md says. Method: both are asked
the same in one session, over the same messages, in a Kafka broker and in OrbitMQ's (kafka_pairs.py).

The jars come from Maven Central, once. If they cannot be had, these tests are skipped, and say why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import orbitmq
from scripts import maven
from scripts.benchmark.spark import kafka
from tests.spark import kafka_pairs

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.pyspark, pytest.mark.timeout(1500), pytest.mark.xdist_group("kafka")]
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, java_home: Path | None) -> Iterator[Answers]:
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        pytest.skip(f"the Kafka source that scripts/benchmark fetches needs PySpark 4.2, and this is {pyspark.__version__}")
    folder = tmp_path_factory.mktemp("pairs")
    patch = pytest.MonkeyPatch()
    if java_home is not None:
        patch.setenv("JAVA_HOME", str(java_home))
    try:
        jars = ",".join(map(str, kafka.source_jars()))
        with (
            kafka.broker(folder / "kafka", kafka_pairs.PARTITIONS) as address,
            orbitmq.Broker(folder / "store", log_file_size=1 << 24) as broker,
        ):
            for topic in ("t", "u", "v"):
                broker.create_topic(topic, queues=kafka_pairs.PARTITIONS)
            yield _asked([address, broker.name, str(folder)], jars)
    except maven.MavenError as why:
        pytest.skip(f"not compared with Spark's Kafka source: {why}")
    finally:
        patch.undo()


def _asked(arguments: list[str], jars: str) -> Answers:
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell", "PYTHONPATH": _path()}
    done = subprocess.run(
        [sys.executable, kafka_pairs.__file__, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    found: Answers = json.loads(line.removeprefix("ANSWERS "))
    return found


def _path() -> str:
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.pathsep.join(dict.fromkeys([str(ROOT), *paths]))


def places(*queues: range) -> list[list[int]]:
    return [[queue, offset] for queue, offsets in enumerate(queues) for offset in offsets]


ALL = places(range(5), range(5))


@pytest.mark.parametrize(
    ("case", "kafka_says", "we_say"),
    [
        ("start latest", "can't be latest for batch queries", "a batch that is to begin at the latest offset"),
        ("end earliest", "can't be earliest for batch queries", "a batch that is to end at the earliest offset"),
        ("start behind the end", "start offset 50 is greater than the resolved end offset 5", places(range(0), range(3, 5))),
        ("start behind the end, strict", "start offset 50 is greater than the resolved end offset 5", "0 to 5 would do"),
        ("start behind a given end", "start offset 4 is greater than the end offset 2", "the starting offset lies behind it"),
        ("start left out", "Specified: Set(t-0) Assigned: Set(t-0, t-1)", places(range(3, 5), range(5))),
        ("timestamp left out", "Specified: Set(t-0) Assigned: Set(t-0, t-1)", ALL),
        ("end timestamp left out", "Specified: Set(t-0) Assigned: Set(t-0, t-1)", places(range(0), range(5))),
        ("assign nothing", [], "it cannot be understood"),
        ("timestamp -1", [], "milliseconds since the epoch are wanted"),
        ("end timestamp -1", ALL, "milliseconds since the epoch are wanted"),
        ("save mode errorifexists", None, 'cannot be written in the "ErrorIfExists" mode'),
        ("save mode overwrite", "Save mode Overwrite not allowed", "a log only grows"),
        ("save mode ignore", "Save mode Ignore not allowed", 'cannot be written in the "Ignore" mode'),
        ("maxOffsetsPerTrigger 0", [0], "a whole number of at least 1 is wanted"),
    ],
)
def test_answers(answers: Answers, case: str, kafka_says: Any, we_say: Any) -> None:
    """Text: part of the error's text; anything else: what was read."""
    for who, says in (("kafka", kafka_says), ("ours", we_say)):
        found = answers[case][who]
        if isinstance(says, str):
            assert isinstance(found, str) and says in found, (who, found)
        else:
            assert found == says, who


def test_a_topic_that_goes_and_comes_back(answers: Answers) -> None:
    """Kafka's source fails when a topic has left the subscription; OrbitMQ's keeps its place, and reads nothing of it twice."""
    first, second, third = answers["a topic goes and comes back"]["ours"]
    assert sum(first) > 0 and sum(second) == sum(third) == 0
    [first, second, _] = answers["a topic goes and comes back"]["kafka"]
    assert sum(first) > 0 and "Some data may have been lost" in second
