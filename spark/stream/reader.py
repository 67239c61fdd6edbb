"""Topics as a stream, in micro-batches. Spark keeps the offsets in its checkpoint; neither this module nor the broker keeps
anything. With a group, the broker shows them.

A micro-batch is a range of every queue, [start, end). If it is read again after a crash it must give the same rows, so an end
never lies beyond what was flushed, and a queue never goes back. The first micro-batch of a query ends where the store ended
when its beginning was determined. So the meaning of "latest" is in the checkpoint with that batch's end, although Spark does
not store beginnings, and a query that is killed in its first batch continues from there.

Spark's planning process makes one reader and uses it all the time; each task has a copy that only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.source.snapshot import settled
from orbitmq.spark.spelling import for_spark
from orbitmq.spark.stream.admission import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from orbitmq.spark.stream.backlog import Backlog
from orbitmq.spark.stream.limits import Hold, share
from orbitmq.spark.stream.offsets import Json, Offsets, from_json, to_json
from orbitmq.spark.stream.progress_report import StreamReport
from orbitmq.spark.stream.store import StreamStore
from orbitmq.tables import planning, slice_reader
from orbitmq.tables.extents import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa


class StreamPartition(InputPartition):
    """What one task reads, and from which store. sizes: as slice_reader.read_slices wants them. brokers: of servers, in the
    order that numbers the partitions."""

    def __init__(self, root: str, sizes: tuple[int, int], slices: tuple[planning.Slice, ...], brokers: tuple[str, ...]) -> None:
        super().__init__(slices)
        self.root = root
        self.sizes = sizes
        self.slices = slices
        self.brokers = brokers


class OrbitStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises: UnknownTopic, UnknownQueue, OffsetOutOfRange, SettingError, BrokerNotRunning, TimedOut, StoreError."""

    def __init__(self, asked: SourceOptions) -> None:
        self._options = asked
        self._store = StreamStore(asked)
        self._backlog = Backlog(asked, self._store.appended)
        self._hold = Hold(asked.min_per_trigger, asked.max_trigger_delay)
        self._initial: Offsets | None = None
        self._first: Snapshot | None = None  # what determined the initial offsets, until the first end is returned
        self._given: Offsets | None = None  # the end that was returned last
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._latest: Offsets | None = None  # everything that was there at the last look
        self._report = None if asked.group is None else StreamReport(asked.group)

    @for_spark()
    def initialOffset(self) -> Json:
        if self._initial is None:
            snapshot = self._store.known()
            wanted = planning.slices(snapshot.topics, settled(snapshot, self._options))
            begins = {(each.topic, each.queue): each.begin for each in wanted}
            # A queue without a slice has nothing to read yet.
            self._initial = self._backlog.ends({}, snapshot.topics) | begins
            self._first = snapshot
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark has no limit made of both. It only has to differ from ReadAllAvailable so that both count."""
        if self._options.max_per_trigger:
            return ReadMaxRows(self._options.max_per_trigger)
        if self._options.min_per_trigger:
            return ReadMinRows(self._options.min_per_trigger)
        return ReadAllAvailable()

    @for_spark()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._backlog.ends({}, self._store.known().topics)

    @for_spark()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> Json:
        """Called without arguments by 4.0 and 4.1, in which a micro-batch begins where the one before it was to end."""
        begin = from_json(start if start is not None else self._stands())
        snapshot = self._first if self._first is not None and begin == self._initial else self._store.look()
        self._first = None
        if snapshot is None and self._target is not None:
            snapshot = self._store.last  # the target was reached then; Spark would take "nothing new" for the end of the query
        if snapshot is None:
            return to_json(begin)
        self._latest = self._backlog.ends(begin, snapshot.topics)
        if self._report is not None and (start is not None or self._given is not None):
            # Spark asks for the next end once the micro-batch that ended at `begin` is done.
            self._report.tell(snapshot, self._backlog.starts(begin, self._latest, snapshot.topics))
        end = self._targeted(begin, self._latest)
        if not isinstance(limit, ReadAllAvailable):  # with Trigger.Once, no option limits anything
            end = self._limited(begin, end, snapshot)
        self._given = end
        return to_json(end)

    def reportLatestOffset(self) -> Json | None:
        return to_json(self._latest) if self._latest else None

    @for_spark()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, stop = from_json(start), from_json(end)
        self._given = stop
        if begin == stop:  # so 4.0 tells where a restarted query continues; nothing else needs to be known about it
            return []
        snapshot = self._store.known()
        wanted = self._backlog.slices(begin, stop, snapshot.topics, first=begin == self._initial)
        asked = self._options
        cut = planning.partitions(wanted, least=asked.min_partitions, most_records=asked.max_records)
        sizes = (snapshot.log_file_size, snapshot.queue_file_units)
        return [StreamPartition(str(snapshot.root), sizes, each, snapshot.brokers) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        with for_spark():
            if self._options.servers is not None:
                yield from remote_slices.read_slices(partition.slices, self._options.numbered(partition.brokers))
            else:
                yield from slice_reader.read_slices(partition.root, partition.sizes, partition.slices, self._options)

    def _stands(self) -> Json:
        return to_json(self._given) if self._given is not None else self.initialOffset()

    def _targeted(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Not beyond what was there when Trigger.AvailableNow was prepared, and never back."""
        target = self._target
        if target is None:
            return ends
        found = {}
        for place, end in ends.items():
            if place in target or place in begin:
                least = begin.get(place, 0)
                found[place] = end if end < least else max(least, min(end, target.get(place, 0)))
        return found

    def _limited(self, begin: Offsets, ends: Offsets, snapshot: Snapshot) -> Offsets:
        asked = self._options
        starts = self._backlog.starts(begin, ends, snapshot.topics)
        count = sum(ends[place] - starts[place] for place in ends)
        if asked.min_per_trigger and self._target is None and self._hold.holds(count):
            return begin
        return share(starts, ends, asked.max_per_trigger) if asked.max_per_trigger else ends
