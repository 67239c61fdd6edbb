"""The sink: a DataFrame's rows become messages, once each.

    df.write.format("orbitmq").option("broker", "default").option("topic", "orders").mode("append").save()
    df.writeStream.format("orbitmq").option("broker", ...).option("topic", ...).option("checkpointLocation", ...).start()

Tasks stage their rows as Arrow files (staging.py) and send nothing, so a task that fails, or runs twice, stores nothing. The
driver stores what the tasks that Spark counts have staged (sink/commit.py).

Spark makes a writer when a job is planned, passes it to the tasks, and for a stream makes another one to commit. So everything
that a commit must know is in the tasks' messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from orbitmq.errors import SettingError
from orbitmq.shm.topic_table import TopicTable
from orbitmq.spark.sink import columns as sink_columns
from orbitmq.spark.sink import commit as sink_commit
from orbitmq.spark.sink import options as sink_options
from orbitmq.spark.sink import staging
from orbitmq.spark.sink.columns import Shape
from orbitmq.spark.sink.commit import Sender, Target
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.spark.sink.remote_target import RemoteTarget
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.spark.sink.state import Query
from orbitmq.spark.spelling import for_spark
from orbitmq.store.layout import StoreLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_PROPERTY = "sql.streaming.queryId"  # of a task's job: Spark's own, kept in the checkpoint


@dataclass(frozen=True, slots=True)
class Staged(WriterCommitMessage):
    """What a task reports to the commit. query: Spark's id of the stream, or the option's."""

    rows: StagedRows
    query: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the driver knows before the tasks begin."""

    target: Sender
    home: Staging
    shape: Shape

    @classmethod
    def of(cls, options: SinkOptions, *, wait: bool) -> Plan:
        """wait: for a broker that does not run. Raises: BrokerNotRunning, UnknownTopic, NoPermission, SettingError, and as
        Cluster's calls."""
        if options.servers is not None:
            assert options.staging is not None
            remote = RemoteTarget(options.servers)
            shape = Shape(options.topic, remote.checked(options.topic))
            return cls(remote, Staging(Path(options.staging).absolute(), shared=True), shape)
        target = Target(options.broker or "", options.path or "", options.timeout)
        with target.connected(wait=wait) as client:
            attachment = client.connection.attachment
            layout = StoreLayout.at(attachment.store)
            if options.topic is not None:
                sink_commit.check_topic(TopicTable(attachment.topics), options.topic)
            shape = Shape(options.topic, int(attachment.settings().message_max))
        home = Staging(layout.own / "spark", Path(options.staging).absolute() if options.staging is not None else None)
        return cls(replace(target, root=str(layout.root)), home, shape)


def writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> OrbitWriter:
    """Raises: SettingError, ColumnError, BrokerNotRunning, UnknownTopic, NoPermission."""
    options = _checked(given, schema, overwrite)
    return OrbitWriter(Plan.of(options, wait=False), options)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> OrbitStreamWriter:
    """Raises: as writer."""
    options = _checked(given, schema, overwrite)
    if options.batch is not None:
        raise sink_options.refused("batchId", options.batch, "the batches of a stream have numbers of their own")
    return OrbitStreamWriter(Plan.of(options, wait=True), options.query)


def _checked(given: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    options = sink_options.parse(given)
    if overwrite:
        raise SettingError(
            "cannot write with mode overwrite, or output mode complete: the messages in a log cannot be replaced",
            hint="use mode('append'), or outputMode('append')",
            option="mode",
            value="overwrite",
        )
    sink_columns.check(schema, options.topic)
    return options


class OrbitWriter(DataSourceArrowWriter):
    """One batch job. With the option queryId it is stored once in its topic, however often it is run. Jobs that write to two
    topics under one name are stored in both."""

    def __init__(self, plan: Plan, options: SinkOptions) -> None:
        self._plan = plan
        self._named = options.query is not None
        name = options.query if options.query is not None else f"job {uuid.uuid4()}"
        self._query = name if options.topic is None else f"{name} > {options.topic}"
        self._batch = options.batch or 0
        self._job = plan.home.job(uuid.uuid4().hex)

    @for_spark()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        name = f"{self._batch}-{_context().partitionId():05}"
        return Staged(staging.stage(iterator, self._plan.shape, self._job, name), self._query)

    @for_spark()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        query = Query.of(self._plan.home, self._query)
        sink_commit.commit(self._plan.home, self._plan.target, query, self._batch, _rows(messages), named=self._named)
        staging.remove_folder(self._job)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        query = Query.of(self._plan.home, self._query)
        sink_commit.abandon(query, _rows(messages), named=self._named)
        if not _pending(query):
            staging.remove_folder(self._job)


class OrbitStreamWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """A stream. The first base class makes tasks get Arrow batches, also from Spark 4.0, in which streams have no such
    writer."""

    def __init__(self, plan: Plan, query: str | None) -> None:
        self._plan = plan
        self._query = query
        self._job = plan.home.job("streams")

    @for_spark()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = _context()
        query = self._query or context.getLocalProperty(QUERY_PROPERTY)
        if not query:
            raise sink_options.refused("queryId", None, "Spark does not tell which query this is", "give it a name of its own")
        mark = Query.of(self._plan.home, query).mark
        return Staged(staging.stage(iterator, self._plan.shape, self._job, f"{mark}-{context.partitionId():05}"), query)

    @for_spark()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int = -1) -> None:
        for name in _queries(messages):
            query = Query.of(self._plan.home, name)
            sink_commit.commit(self._plan.home, self._plan.target, query, batchId, _rows(messages), in_turn=True)
            staging.remove(self._job.glob(f"{query.mark}-*.arrow"))  # of tasks that Spark ran twice, or ended

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = -1) -> None:
        for name in _queries(messages):
            sink_commit.abandon(Query.of(self._plan.home, name), _rows(messages))


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None
    return context


def _rows(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [message.rows for message in messages if isinstance(message, Staged)]


def _queries(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    return {message.query for message in messages if isinstance(message, Staged)}


def _pending(query: Query) -> bool:
    state = query.load()
    return state is not None and state.intent is not None
