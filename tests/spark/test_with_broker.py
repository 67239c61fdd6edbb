"""Goal: what a broker has acknowledged is read, while it runs, by name or by folder, and after it has stopped. Method: a whole
tree."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import orbitmq
from orbitmq.errors import TimedOut
from orbitmq.spark.export import export
from orbitmq.spark.sink import options as sink_options
from orbitmq.spark.sink.writer import Plan
from orbitmq.tables import extents
from tests.trees import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.pyspark

COUNT = 20_000


def read(spark: SparkSession, **source: str) -> list[tuple[int, int, bytes, str]]:
    frame = spark.read.format("orbitmq").options(subscribe="flights", minPartitions="4", **source).load()
    return sorted((row.partition, row.offset, bytes(row.value), row["keys"][0]) for row in frame.collect())


def test_before_and_after_the_stop(spark: SparkSession, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(COUNT)]
    with orbitmq.Broker(tmp_path / "store", log_file_size=1 << 26) as broker:
        broker.create_topic("flights", queues=3)
        with broker.producer() as producer:
            receipts = producer.send_batch("flights", bodies, keys=[f"k{number}" for number in range(COUNT)])
            places = [(receipt.queue, receipt.offset) for receipt in receipts]
        sent = sorted((*place, body, f"k{body.decode()}") for place, body in zip(places, bodies, strict=True))
        assert extents.of(tmp_path / "store").broker == broker.name
        assert read(spark, broker=broker.name) == sent
        assert read(spark, path=str(tmp_path / "store")) == sent
        report = export(broker.name, tmp_path / "out", ["flights"], spark)
        assert report.rows == COUNT
    assert extents.of(tmp_path / "store").broker is None
    assert read(spark, path=str(tmp_path / "store")) == sent


def test_a_broker_of_another_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the path of a store leads to its broker, wherever that is found by name. Method: a batch is planned, and a sink
    connects."""
    with orbitmq.Broker(tmp_path / "store", log_file_size=1 << 26) as broker, broker.producer() as producer:
        broker.create_topic("t", queues=1)
        producer.send("t", b"", durability="flushed")
        monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path / "elsewhere"))
        found = extents.of(tmp_path / "store")
        assert found.broker is not None and found.topics["t"][0] == (0, 1)
        monkeypatch.chdir(tmp_path)
        options = sink_options.parse({"path": "store", "topic": "t"})
        plan = Plan.of(options, wait=False)
        assert plan.target.root == str(tmp_path / "store")
        plan.target.connected().close()


def test_every_acknowledged_message_is_planned(tmp_path: Path) -> None:
    """A receipt, and at once the question, 100 times. Each answer waits for the flush service, which flushes often here."""
    with (
        orbitmq.Broker(tmp_path / "store", log_file_size=1 << 26, flush_interval_ms=20) as broker,
        broker.producer() as producer,
    ):
        broker.create_topic("t", queues=1)
        for number in range(1, 101):
            producer.send("t", b"")
            assert extents.of(broker.name).topics["t"][0] == (0, number)


def test_what_is_flushed_and_what_is_appended(tmp_path: Path) -> None:
    """A broker that flushes rarely: a look without a wait sees the flushed part, a read of `appended` sees everything."""
    with (
        orbitmq.Broker(tmp_path / "store", log_file_size=1 << 26, flush_interval_ms=2000) as broker,
        broker.producer() as producer,
    ):
        broker.create_topic("t", queues=1)
        producer.send("t", b"", durability="flushed")
        producer.send_batch("t", [b""] * 9, durability="appended")
        appended = extents.of(broker.name, read="appended").topics["t"][0]
        now = extents.of(broker.name, wait=False).topics["t"][0]
        assert appended == (0, 10) and now[0] == 0 and 1 <= now[1] <= 10
        assert extents.of(broker.name).topics["t"][0] == (0, 10)
        assert extents.of(broker.name, wait=False).topics["t"][0] == (0, 10)


def test_a_disk_that_does_not_get_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush service that hangs: in the end a batch says so; reads of `appended`, or of what is there now, do not wait."""
    monkeypatch.setattr(extents, "WAIT_S", 0.1)
    monkeypatch.setattr(extents, "LOOK_S", 0.05)
    with (
        orbitmq.Broker(tmp_path / "store", log_file_size=1 << 26, flush_interval_ms=100) as broker,
        broker.producer() as producer,
    ):
        broker.create_topic("t", queues=1)
        flush = next(actor.pid for actor in broker.status().actors if actor.name == "flush")
        os.kill(flush, signal.SIGSTOP)
        try:
            producer.send("t", b"", durability="appended")
            indexed(broker)
            with pytest.raises(TimedOut, match="are not on disk") as caught:
                extents.of(broker.name)
            assert caught.value.option == "read" and caught.value.missing > 0 and "appended" in str(caught.value)
            assert extents.of(broker.name, read="appended").topics["t"][0] == (0, 1)
            assert extents.of(broker.name, wait=False).topics["t"][0] == (0, 0)
        finally:
            os.kill(flush, signal.SIGCONT)
        monkeypatch.undo()
        assert extents.of(broker.name).topics["t"][0] == (0, 1)
