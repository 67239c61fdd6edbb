"""The options of the data source: read out of Spark's strings, checked, with the names and meanings of Spark's Kafka source
where that has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import SettingError
from orbitmq.spark.columns import COLUMNS

EARLIEST = -2  # as in the JSON of Spark's Kafka source
LATEST = -1
KNOWN = (
    "path",
    "broker",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "columns",
    "minPartitions",
    "maxRecordsPerPartition",
)
_HOW = (
    """'earliest', 'latest' or JSON such as {"orders": {"0": 17, "1": -2}}, where -2 is the earliest offset and -1 the latest"""
)


@dataclass(frozen=True, slots=True)
class Offsets:
    """One end of what is read. Without `each`, `default` holds for all queues. option: the name it was given under."""

    option: str
    default: int
    each: Mapping[str, Mapping[int, int]]

    def of(self, topic: str, queue: int) -> int:
        """A queue offset, EARLIEST or LATEST."""
        return self.each.get(topic, {}).get(queue, self.default)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where to read, what, and in how many pieces. Exactly one of path (root of a store) and broker (a name) is set.

    max_records: messages in one partition at most; 0: the planner's choice. min_partitions: 0: any.
    """

    path: str | None
    broker: str | None
    topics: tuple[str, ...]
    starting: Offsets
    ending: Offsets
    columns: tuple[str, ...]
    min_partitions: int
    max_records: int


def parse(given: Mapping[str, str]) -> SourceOptions:
    """Checks the options; names are compared without case.

    Raises: SettingError: an unknown option, a value that cannot be, or options that contradict each other; has .option
        and .value.
    """
    known = {name.lower(): name for name in KNOWN}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise refused(name, value, "there is no such option", f"the options are {', '.join(KNOWN)}")
        values[known[name.lower()]] = value
    path, broker = values.get("path"), values.get("broker")
    if (path is None) == (broker is None):
        why = "neither is given" if path is None else "both are given"
        raise refused("path", path, f"one of the options path and broker says where to read, and {why}")
    topics = tuple(dict.fromkeys(_words("subscribe", values.get("subscribe", ""))))
    starting = _offsets("startingOffsets", values.get("startingOffsets", "earliest"), EARLIEST, topics)
    ending = _offsets("endingOffsets", values.get("endingOffsets", "latest"), LATEST, topics)
    if starting.default == LATEST and not starting.each:
        raise refused("startingOffsets", "latest", "a batch that begins at the end reads nothing", "use earliest, or JSON")
    if ending.default == EARLIEST and not ending.each:
        raise refused("endingOffsets", "earliest", "a batch that ends at the beginning reads nothing", "use latest, or JSON")
    columns = _words("columns", values["columns"]) if "columns" in values else tuple(COLUMNS)
    for position, column in enumerate(columns):
        if column not in COLUMNS:
            raise refused("columns", column, "there is no such column", f"the columns are {', '.join(COLUMNS)}")
        if column in columns[:position]:
            raise refused("columns", values["columns"], f"{column} stands there twice")
    return SourceOptions(
        path=path,
        broker=broker,
        topics=topics,
        starting=starting,
        ending=ending,
        columns=columns,
        min_partitions=_count("minPartitions", values.get("minPartitions")),
        max_records=_count("maxRecordsPerPartition", values.get("maxRecordsPerPartition")),
    )


def refused(option: str, value: object, why: str, hint: str | None = None) -> SettingError:
    """The error about an option."""
    return SettingError(f"cannot read with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)


def _words(option: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise refused(option, text, "it names nothing", "give names separated by commas")
    return words


def _count(option: str, text: str | None) -> int:
    if text is None:
        return 0
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise refused(option, text, "a whole number of at least 1 is wanted")
    return count


def _offsets(option: str, text: str, default: int, topics: tuple[str, ...]) -> Offsets:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Offsets(option, EARLIEST if word == "earliest" else LATEST, {})
    try:
        each = {
            str(topic): {int(queue): _whole(offset) for queue, offset in queues.items()}
            for topic, queues in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise refused(option, text, "it cannot be understood", f"give {_HOW}") from None
    for topic in each:
        if topic not in topics:
            raise refused(option, text, f"it names topic {topic!r}, which the option subscribe does not")
    return Offsets(option, default, each)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value
