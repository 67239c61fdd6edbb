"""Goal: what the library raises under a query names an option of the query, or nothing that its user cannot change. Method: the
calls that Spark makes, with a library that fails."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from orbitmq import errors
from orbitmq.errors.remedy import hint
from orbitmq.spark.data_source import OrbitSource
from orbitmq.spark.spelling import for_spark, spark

pytestmark = pytest.mark.pyspark

HINT = hint("raise {timeout} || raise {timeout of connect} || raise {window of producer} || raise {message_max of broker}")
SPELLED = "could not; raise option timeout, or raise message_max of the broker"


SCHEMA = StructType([StructField("value", BinaryType(), nullable=False)])


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise errors.TimedOut("could not", hint=HINT)

    monkeypatch.setattr("orbitmq.client.client.connect", fail)
    monkeypatch.setattr("orbitmq.spark.sink.commit.connect", fail, raising=False)


@pytest.mark.usefixtures("failing")
def test_a_reader_speaks_of_options() -> None:
    with pytest.raises(errors.TimedOut) as caught:
        OrbitSource({"broker": "nobody", "subscribe": "orders", "columns": "value"}).reader(SCHEMA)
    assert str(caught.value) == SPELLED and caught.value.knob == "timeout"
    assert str(pickle.loads(pickle.dumps(caught.value))) == SPELLED


@pytest.mark.usefixtures("failing")
def test_a_stream_speaks_of_options() -> None:
    stream = OrbitSource({"broker": "nobody", "subscribe": "orders", "columns": "value"}).streamReader(SCHEMA)
    for call in (stream.initialOffset, stream.latestOffset):
        with pytest.raises(errors.TimedOut) as caught:
            call()
        assert str(caught.value) == SPELLED


@pytest.mark.usefixtures("failing")
def test_a_sink_speaks_of_options() -> None:
    source = OrbitSource({"broker": "nobody", "topic": "orders"})
    for made in (source.writer, source.streamWriter):
        with pytest.raises(errors.TimedOut) as caught:
            made(StructType([StructField("value", StringType())]), False)
        assert str(caught.value) == SPELLED


def test_an_error_between_two_batches_does_too() -> None:
    """Goal: a reader is a generator, whose errors come late."""

    @for_spark()
    def nothing() -> None:
        pass

    def batches() -> Iterator[int]:
        with for_spark():
            yield 1
            raise errors.Full("could not", hint=HINT)

    nothing()
    found = batches()
    assert next(found) == 1
    with pytest.raises(errors.Full, match="option timeout"):
        next(found)


def test_both_ways_to_a_store(tmp_path: Path) -> None:
    with pytest.raises(errors.SettingError) as both:
        OrbitSource({"broker": "one", "path": str(tmp_path), "columns": "value"}).reader(SCHEMA)
    assert both.value.face is spark
