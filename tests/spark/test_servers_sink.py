"""Goal: Spark writes through a gateway, from a batch and from a stream, each row once, while gateways and the whole broker die
and a task fails. Method: Spark over a broker tree with a gateway and accounts; what is stored is read from the store."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import orbitmq
from orbitmq.spark.sink.staging import Staging
from tests.spark.sink_rows import left, messages
from tests.trees import kill
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.pyspark

SECRET = "of-the-writer-alone"
RULES = f"""\
accounts:
- accessKey: writer-1
  secretKey: {SECRET}
  topicPerms: [orders=PUB|SUB]
  groupPerms: [TOOLS_CONSUMER=SUB]
"""
FILES, LINES = 6, 300


class Served:
    """A broker that can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.acl = folder / "plain_acl.yml"
        self.acl.write_text(RULES)
        self.servers = "127.0.0.1:0"
        self.start()
        self.servers = self.broker.status().listens
        self.broker.create_topic("orders", 3)
        self.options = {
            "servers": self.servers,
            "topic": "orders",
            "stagingLocation": str(folder / "staged here"),
            "timeout": "60",
            "accessKey": "writer-1",
            "secretKey": SECRET,
        }

    def start(self) -> None:
        self.broker = orbitmq.Broker(self.store, handlers=1, log_file_size=1 << 26, listen=self.servers, acl=str(self.acl))

    def kill_broker(self) -> None:
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.close()
        self.start()

    def bodies(self) -> Counter[str]:
        return Counter(bytes(message.body).decode() for queue in messages(self.store, "orders") for message in queue)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.broker.close()


def test_a_batch(spark: SparkSession, served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    """Its rows come back as they were, and a second run under the name stores nothing."""
    rows = spark.range(1000).selectExpr("cast(id as string) as value", "concat('k', id % 10) as key", "'paid' as tags")
    for _ in range(2):
        rows.write.format("orbitmq").options(**served.options, queryId="once").mode("append").save()
    assert served.bodies() == Counter(str(number) for number in range(1000))
    options = {name: served.options[name] for name in ("servers", "accessKey", "secretKey")}
    found = spark.read.format("orbitmq").options(**options, subscribe="orders").load()
    expected = {(str(number), f"k{number % 10}", "paid") for number in range(1000)}
    assert {(bytes(row.value).decode(), bytes(row.key).decode(), row.tags) for row in found.collect()} == expected
    assert left(Staging(Path(served.options["stagingLocation"]))) == []
    told = capfd.readouterr()
    assert SECRET not in told.out + told.err


def test_a_job_whose_task_fails(spark: SparkSession, served: Served) -> None:
    """It has stored nothing, and stores everything when it is run again under its name."""
    rows = spark.range(0, 1000, 1, 2)
    failing = rows.selectExpr("if(id = 900, raise_error('in the middle'), cast(id as string)) as value")
    for frame in (failing, rows.selectExpr("cast(id as string) as value")):
        writer = frame.write.format("orbitmq").options(**served.options, queryId="again").mode("append")
        if frame is failing:
            with pytest.raises(Exception, match="in the middle"):
                writer.save()
            assert not served.bodies() and left(Staging(Path(served.options["stagingLocation"]))) == []
        else:
            writer.save()
    assert served.bodies() == Counter(str(number) for number in range(1000))


def start(spark: SparkSession, folder: Path, served: Served) -> StreamingQuery:
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(folder / "in"))
    lines = lines.repartition(2)
    writer = (
        lines.writeStream.format("orbitmq").options(**served.options).option("checkpointLocation", str(folder / "checkpoint"))
    )
    return writer.trigger(processingTime="20 milliseconds").start()


def test_a_stream_while_gateways_and_the_broker_die(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    """And the query is stopped and started again in the middle."""
    (tmp_path / "in").mkdir()
    expected: Counter[str] = Counter()
    query = start(spark, tmp_path, served)
    for file in range(FILES):
        made = tmp_path / f"{file}.txt"
        lines = [f"{file} {line}" for line in range(LINES)]
        made.write_text("".join(f"{line}\n" for line in lines))
        made.rename(tmp_path / "in" / made.name)
        expected.update(lines)
        if file == 2:
            served.kill_broker()
        elif file == 4:
            query.stop()
            query = start(spark, tmp_path, served)
        else:
            kill(served.broker, "gateway")
        until(lambda: query.exception() is not None or served.bodies().total() >= expected.total(), "the rows of a file")
        assert query.exception() is None
    query.stop()
    assert served.bodies() == expected
