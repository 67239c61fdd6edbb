"""The options of the sink: taken from Spark's strings and checked, with the names of Spark's Kafka sink if that has the
option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Hint, hint
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.spark.refusal import for_option, unknown_hint
from orbitmq.spark.servers import servers as servers_options
from orbitmq.spark.servers.servers import Servers

KNOWN = ("path", "broker", *servers_options.OPTIONS, "topic", "queryId", "batchId", "stagingLocation")
OF_SPARK = ("checkpointLocation", "queryName", "outputMode")  # what Spark passes on besides them
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to send to. Exactly one of path (root of a store whose broker runs), broker (a name) and servers is set.

    topic: of all rows; None: each row's own. query, batch: name and number under which the rows are stored once; None: Spark's
        own. staging: folder for what tasks have written; None: in the store. timeout: seconds.
    """

    path: str | None
    broker: str | None
    topic: str | None
    query: str | None
    batch: int | None
    staging: str | None
    timeout: float
    servers: Servers | None = None


def parse(given: Mapping[str, str]) -> SinkOptions:
    """Checks the options; upper and lower case do not matter in names.

    Raises: SettingError: an option is unknown, its value is not valid, or options contradict each other; has .option and
        .value. TopicNameError.
    """
    known = {name.lower(): name for name in (*KNOWN, *OF_SPARK)}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise refused(name, value, "there is no such option", unknown_hint(name, KNOWN))
        values[known[name.lower()]] = value
    path, broker = values.get("path"), values.get("broker")
    places = [name for name in ("path", "broker", "servers") if name in values]
    if len(places) != 1:
        why = f"{' and '.join(places)} are given" if places else "none is given"
        at = places[0] if places else "broker"
        text = "exactly one of the options broker, path and servers says where to send to"
        raise refused(at, values.get(at), f"{text}, and {why}")
    topic = values.get("topic")
    if topic is not None:
        check_topic_name(topic)
    query = values.get("queryId")
    if query is not None and not query:
        raise refused("queryId", query, "it is empty")
    batch, timeout = _batch(values), _timeout(values.get("timeout"))
    servers = servers_options.parse(values, timeout, refused)
    if servers is not None and "stagingLocation" not in values:
        why = "with servers, rows and what is known of the query need a folder that the driver and all tasks see"
        raise refused("stagingLocation", None, why, "give one that is kept as long as the query's checkpoint")
    return SinkOptions(path, broker, topic, query, batch, values.get("stagingLocation"), timeout, servers)


def refused(option: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    """The error for an option."""
    return for_option("write", option, value, why, hint)


def _batch(values: Mapping[str, str]) -> int | None:
    text = values.get("batchId")
    if text is None:
        return None
    if "queryId" not in values:
        raise refused("batchId", text, "a batch has a number within a query", hint("give {queryId of spark} too"))
    if not text.isascii() or not text.isdecimal():
        raise refused("batchId", text, "a whole number of at least 0 is wanted")
    return int(text)


def _timeout(text: str | None) -> float:
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise refused("timeout", text, "a number of seconds from 0 is wanted")
    return seconds
