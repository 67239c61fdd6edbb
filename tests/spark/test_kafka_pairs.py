"""Goal: OrbitMQ's source and Spark's Kafka source answer alike, or differently, as docs/spark.md says. Method: OrbitMQ's is
asked what the Kafka source was asked, over the same messages (kafka_pairs.py, which has recorded its answers)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import orbitmq
from tests.spark import kafka_pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("pairs")
    with orbitmq.Broker(folder / "store", log_file_size=1 << 24) as broker:
        for topic in ("t", "u", "v"):
            broker.create_topic(topic, queues=kafka_pairs.PARTITIONS)
        ours = kafka_pairs.asked(spark, "orbitmq", {"broker": broker.name}, folder)
    recorded = json.loads(kafka_pairs.ANSWERS.read_text())["answers"]
    assert recorded.keys() == ours.keys(), "a question was changed: record the answers of the Kafka source again"
    return {case: {"kafka": recorded[case], "ours": ours[case]} for case in ours}


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
        ("save mode overwrite", "Save mode Overwrite not allowed", "the messages in a log cannot be replaced"),
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
