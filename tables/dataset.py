"""`orbitmq.dataset`: the messages of a store as Arrow batches, without Spark and without a consumer.

Planning and reading are the same as for Spark's data source; here is only what a program sees of them. A dataset holds ranges
of offsets and no file, so it can be read any number of times, and by several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orbitmq.client.consumer.subscription import tag_list
from orbitmq.client.several import Several, not_one_text
from orbitmq.client.sql_filter import checked_sql
from orbitmq.errors import SettingError
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.tables import columns as source_columns
from orbitmq.tables import extents, moments, planning
from orbitmq.tables.choice import Choice
from orbitmq.tables.ends import EARLIEST, LATEST, Offsets
from orbitmq.tables.selection import APPENDED, FLUSHED, Selection
from orbitmq.tables.slice_reader import read_slices
from orbitmq.tables.spelling import for_dataset
from orbitmq.tables.valid_text import valid

if TYPE_CHECKING:
    import pyarrow as pa

Moment = datetime | str
BATCH_ROWS = 1 << 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Dataset:
    """The messages that a store held at one moment, or some of them, as Arrow batches; made by `orbitmq.dataset`.

    Each reading begins at the first message, and gives the same ones: later messages are not in it. Queues come one after the
    other, and the messages of a queue in their order. pandas, Polars and DuckDB take a dataset, or what its methods return.
    """

    def __init__(self, snapshot: extents.Snapshot, options: Selection) -> None:
        self._root = snapshot.root
        self._sizes = (snapshot.log_file_size, snapshot.queue_file_units)
        self._options = options
        self._slices = tuple(planning.slices(snapshot.topics, moments.settled(snapshot, options)))
        self._topics = tuple(options.choice.of(snapshot.topics))

    def __repr__(self) -> str:
        return f"<Dataset of {self._root}: {len(self._topics):,} topics, offsets of {self.offsets:,} messages>"

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics, also of those without a message."""
        return self._topics

    @property
    def offsets(self) -> int:
        """How many messages there are before filters. Some may be gone when they are read."""
        return sum(each.count for each in self._slices)

    @property
    def schema(self) -> pa.Schema:
        """The columns of all batches."""
        return source_columns.schema(self._options.columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The messages, in batches of at most 65,536 rows and 16 MiB of bodies, unless one body is larger.

        Raises: OffsetOutOfRange: retention has removed some since the dataset was made, and gaps are not allowed.
            CorruptRecord, StoreError.
        """
        with for_dataset():
            yield from map(valid, read_slices(str(self._root), self._sizes, self._slices, self._options, rows=BATCH_ROWS))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a stream of Arrow's, which reads as it is asked. Errors come when it is read."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All of it, in memory. Raises: as to_batches."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new stream, for all libraries that take one by Arrow's PyCapsule interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


def dataset(
    store_or_broker: str | Path,
    topics: Several[str] | None = None,
    *,
    start: Moment | None = None,
    end: Moment | None = None,
    columns: Several[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    read: Literal["flushed", "appended"] = "flushed",
    allow_gaps: bool = False,
) -> Dataset:
    """The messages that a store holds now, for pandas, Polars, DuckDB and whatever else reads Arrow. A broker may run on it.

    Needs the extra arrow.

    Args:
        store_or_broker: folder of a store, or name of a running broker.
        topics: None: all but those that broker and groups keep for themselves.
        start, end: only messages stored at `start` or later, and before `end`: a datetime, or its text in ISO 8601. Without a
            time zone it is in this machine's.
        columns: those of docs/dataset.md, in this order; None: all but headers.
        tags: RocketMQ's expression, "a || b". sql: a SQL92 filter over properties. With both, both must agree.
        read: "flushed": only messages that no crash of the machine can take back; waits until everything acknowledged before
            the call is on disk, which takes up to the broker's flush interval. "appended": all that the broker accepted.
        allow_gaps: if retention removes messages before they are read, leave them out, and say so in the log.

    Raises: SettingError: an argument is wrong, or there is no store. FilterError, UnknownTopic, TopicNameError,
        BrokerNotRunning, StoreVersion, StoreError; StoreFailed, TimedOut: the disk does not get there. ImportError: no pyarrow.
    """
    import orbitmq.client.consumer.arrow  # noqa: F401  says what to install

    chosen = _choice(topics)
    wanted = source_columns.chosen(columns)
    if read not in (FLUSHED, APPENDED):
        text = f"could not read messages that are {read!r}: they must be {FLUSHED!r} or {APPENDED!r}"
        raise SettingError(text, setting="read", value=read)
    begin_ms, end_ms = _moment_ms("start", start), _moment_ms("end", end)
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        text = f"could not read from {start} to {end}: the end lies before the start"
        raise SettingError(text, hint="exchange them", setting="end", value=end)
    options = Selection(
        choice=chosen,
        starting=Offsets("start", EARLIEST) if begin_ms is None else Offsets("start", LATEST, moment_ms=begin_ms),
        ending=Offsets("end", LATEST, moment_ms=end_ms),
        fail_on_data_loss=not allow_gaps,
        read=read,
        tags=tuple(tag_list(tags)),
        sql=checked_sql(sql),
        columns=wanted,
    )
    with for_dataset():
        return Dataset(extents.of(store_or_broker, read=read), options)


def _choice(topics: Several[str] | None) -> Choice:
    not_one_text(topics, "read topics", "topics")
    if topics is None:
        return Choice("topics", pattern=".*")
    names = tuple(dict.fromkeys(topics))
    if not names:
        text = "could not read: the list of topics is empty"
        raise SettingError(text, hint="name at least one, or give None", setting="topics", value=topics)
    for name in names:
        check_topic_name(name)
    return Choice("topics", names)


def _moment_ms(setting: str, moment: Moment | None) -> int | None:
    """Milliseconds since the epoch, rounded up: a message stored earlier must not match."""
    if moment is None:
        return None
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        aware = found if found.tzinfo is not None else found.astimezone()
        return max(0, -((_EPOCH - aware) // _MS))
    except (ValueError, AttributeError, OverflowError, TypeError):
        raise SettingError(
            f"could not read with {setting} {moment!r}: it is not a time",
            hint="give a datetime, or its text such as 2024-05-01T12:00:00+00:00",
            setting=setting,
            value=moment,
        ) from None
