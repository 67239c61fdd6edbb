"""The options of the data source: taken from Spark's strings and checked, with the names and meanings of Spark's Kafka source
if that has the option."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from orbitmq.client.consumer.subscription import TagFault, tags_or_fault
from orbitmq.client.sql_filter import refusal
from orbitmq.shm.sql_text import SqlFault, sql_or_fault
from orbitmq.spark.refusal import refused, unknown_hint
from orbitmq.spark.servers import servers as servers_options
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.source import offset_options, topic_options
from orbitmq.spark.source.counts import count, seconds, switch
from orbitmq.tables.columns import COLUMNS
from orbitmq.tables.ends import EARLIEST, LATEST, Offsets
from orbitmq.tables.selection import APPENDED, FLUSHED, Selection

_ENDINGS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "group")
KNOWN = (
    "path",
    "broker",
    *servers_options.OPTIONS,
    *topic_options.OPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDINGS,
    "failOnDataLoss",
    "read",
    "tags",
    "sql92",
    "columns",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    *_OF_STREAMS,
)
SERVERS_S = 60.0  # a gateway or broker that is started again is back by then
TRIGGER_DELAY_S = 15 * 60.0  # as Spark's Kafka source
_log = logging.getLogger("orbitmq")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Selection):
    """What to read, where, and in how many pieces. Exactly one of path (root of a store), broker (a name) and servers is
    set.

    max_records: most messages in one partition; 0: the planner's choice. min_partitions: 0: any number. max_per_trigger,
        min_per_trigger: messages of a micro-batch; 0: no limit. max_trigger_delay: seconds for which min_per_trigger may delay
        messages. group: under which name a stream shows how far it is; None: nowhere.
    """

    path: str | None
    broker: str | None
    min_partitions: int
    max_records: int
    max_per_trigger: int
    min_per_trigger: int
    max_trigger_delay: float
    group: str | None = None
    servers: Servers | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of subscribe and assign; those of a pattern are known when the store is looked at."""
        return self.choice.topics

    def numbered(self, brokers: tuple[str, ...]) -> SourceOptions:
        """With the order of the servers' brokers by which partitions were numbered, which counts from now on."""
        return self if self.servers is None else replace(self, servers=replace(self.servers, brokers=brokers))


def parse(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Checks the options; upper and lower case do not matter in names.

    streaming: startingOffsets is "latest" by default, as in Spark's Kafka source.

    Raises: SettingError: an option is unknown, its value is not valid, or options contradict each other; has .option and
        .value.
    """
    values = _known(given)
    _check_place(values)
    choice = topic_options.parse(values)
    starting = offset_options.starting(values, choice, LATEST if streaming else EARLIEST)
    ending = offset_options.ending(values, choice)
    _check_mode(values, starting, ending, streaming=streaming)
    least, most = count(values, "minOffsetsPerTrigger"), count(values, "maxOffsetsPerTrigger")
    if most and least > most:
        why = f"it is more than maxOffsetsPerTrigger = {most}"
        raise refused("minOffsetsPerTrigger", values["minOffsetsPerTrigger"], why, f"1 to {most} would do")
    if "maxTriggerDelay" in values and not least:
        why = "it says how long minOffsetsPerTrigger may wait, and that is not given"
        raise refused("maxTriggerDelay", values["maxTriggerDelay"], why, "give both, or neither")
    return SourceOptions(
        path=values.get("path"),
        broker=values.get("broker"),
        choice=choice,
        starting=starting,
        ending=ending,
        fail_on_data_loss=switch(values, "failOnDataLoss", True),
        read=_read(values),
        tags=_tags(values),
        sql=_sql(values),
        columns=columns_of(values),
        min_partitions=count(values, "minPartitions"),
        max_records=count(values, "maxRecordsPerPartition"),
        max_per_trigger=most,
        min_per_trigger=least,
        max_trigger_delay=seconds(values, "maxTriggerDelay", TRIGGER_DELAY_S),
        group=values.get("group"),
        servers=servers_options.parse(values, seconds(values, "timeout", SERVERS_S), refused, lasting=streaming),
    )


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that the options ask for, without checking the other options. Raises: SettingError."""
    lower = {name.lower(): value for name, value in given.items()}
    values = {name: lower[name.lower()] for name in ("columns", "includeHeaders") if name.lower() in lower}
    headers = switch(values, "includeHeaders", False)
    if "columns" not in values:
        return tuple(name for name in COLUMNS if headers or name != "headers")
    columns = topic_options.words("columns", values["columns"])
    for position, column in enumerate(columns):
        if column not in COLUMNS:
            raise refused("columns", column, "there is no such column", f"the columns are {', '.join(COLUMNS)}")
        if column in columns[:position]:
            raise refused("columns", values["columns"], f"{column} is named twice")
    if "includeHeaders" in values and headers != ("headers" in columns):
        why = f"includeHeaders = {str(headers).lower()} contradicts it"
        hint = "name headers among the columns, or leave includeHeaders out" if headers else "leave one of them out"
        raise refused("columns", values["columns"], why, hint)
    return columns


def _known(given: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in KNOWN}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise refused(name, value, "there is no such option", unknown_hint(name, KNOWN))
        values[known[name.lower()]] = value
    return values


def _check_place(values: Mapping[str, str]) -> None:
    """Where to read, and what cannot be asked for there."""
    given = [name for name in ("path", "broker", "servers") if name in values]
    if len(given) != 1:
        why = f"{' and '.join(given)} are given" if given else "none is given"
        at = given[0] if given else "path"
        raise refused(at, values.get(at), f"exactly one of the options path, broker and servers says where to read, and {why}")
    if "servers" not in values:
        if "timeout" in values:
            raise refused("timeout", values["timeout"], "it says how long servers may be away, and they are not given")
        return
    if values.get("read", APPENDED).strip().lower() == FLUSHED:
        why = "RocketMQ's protocol does not tell servers' readers what is flushed"
        raise refused("read", values["read"], why, "leave it out; with servers everything that was accepted is read")
    if "group" in values:
        raise refused("group", values["group"], "with servers, nothing is committed", "leave it out")


def _check_mode(values: Mapping[str, str], starting: Offsets, ending: Offsets, *, streaming: bool) -> None:
    """Options that only a batch or only a stream can have."""
    if streaming:
        for option in _ENDINGS:
            if option in values:
                raise refused(option, values[option], "a stream does not end", "leave it out, or read a batch")
        return
    if starting.default == LATEST and not starting.each and not starting.timed:
        raise refused("startingOffsets", "latest", "a batch that begins at the end reads nothing", "use earliest, or JSON")
    if ending.default == EARLIEST and not ending.each:
        raise refused("endingOffsets", "earliest", "a batch that ends at the beginning reads nothing", "use latest, or JSON")
    for offsets, wrong, word in ((starting, LATEST, "begin at the latest"), (ending, EARLIEST, "end at the earliest")):
        for topic, queues in offsets.each.items():
            for queue, offset in queues.items():
                if offset == wrong:
                    why = f"a batch that is to {word} offset, {wrong}, of topic {topic!r}, queue {queue}, reads nothing of it"
                    raise refused(offsets.option, values[offsets.option], why, "name the queues that are wanted with assign")
    for option in _OF_STREAMS:
        if option in values:
            _log.warning("option %s = %s says nothing for a batch; it is for streams", option, values[option])
    if starting.moment_ms is not None and ending.moment_ms is not None and starting.moment_ms > ending.moment_ms:
        why = f"it lies before startingTimestamp = {values['startingTimestamp']}"
        raise refused("endingTimestamp", values["endingTimestamp"], why, "let the end follow the start")


def _read(values: Mapping[str, str]) -> str:
    text = values.get("read", APPENDED if "servers" in values else FLUSHED).strip().lower()
    if text not in (FLUSHED, APPENDED):
        raise refused("read", values["read"], "flushed or appended is wanted")
    return text


def _tags(values: Mapping[str, str]) -> tuple[bytes, ...]:
    text = values.get("tags")
    found = tags_or_fault(text)
    if isinstance(found, TagFault):
        raise refused("tags", text, found.why, found.hint)
    return tuple(found)


def _sql(values: Mapping[str, str]) -> bytes | None:
    text = values.get("sql92")
    found = None if text is None else sql_or_fault(text)
    if isinstance(found, SqlFault):
        raise refusal(found, str(text), option="sql92")
    return found
