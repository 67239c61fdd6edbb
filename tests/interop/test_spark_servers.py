"""Spark's data source reads from a real RocketMQ 4.9 cluster with option servers.

Goal: what RocketMQ's client has sent to RocketMQ's broker is read through its name server, field by field. Method: the source's
planning and its tasks' reading, without Spark between them, which tests/spark/test_servers.py has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.errors import UnknownTopic
from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.snapshot import of_options
from orbitmq.tables import planning
from orbitmq.tables.columns import COLUMNS
from tests.interop.judge import Files, Judge
from tests.interop.letters import Letter, random_letters, send_to_rocketmq
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

SMALL = Files(queue_file_units=100, index_slots=1000, index_entries=3000)
ADDED = {"UNIQ_KEY", "WAIT", "CLUSTER", "TAGS", "KEYS", "MSG_REGION", "TRACE_ON"}  # by RocketMQ's client and broker


def asked(servers: str, **options: str) -> SourceOptions:
    return parse({"servers": servers, "subscribe": "orders", "columns": ",".join(COLUMNS), "timeout": "10s", **options})


def read(options: SourceOptions) -> Iterator[Letter]:
    slices = planning.slices(of_options(options).topics, options)
    for batch in remote_slices.read_slices(slices, options):
        for row in batch.to_pylist():
            own = tuple(sorted((name, text) for name, text in row["properties"] if name not in ADDED))
            place = {"queue": row["partition"], "offset": row["offset"], "id": row["message_id"]}
            keys = tuple(row["keys"] or ())
            yield Letter(row["topic"], row["value"], row["tags"], keys, own, row["flag"], **place)


def plain(letters: list[Letter]) -> list[tuple[object, ...]]:
    return sorted((each.queue, each.offset, each.body, each.tags or "", each.keys, each.flag, each.id) for each in letters)


def test_a_cluster_of_rocketmqs(judge: Judge, tmp_path: Path) -> None:
    rng = random.Random(11)
    sent: list[Letter] = []
    judge.start(tmp_path / "store", SMALL)
    judge.ask("create", topic="orders", queues=4)
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 600, 4, empty=False, prefix="java"), sent)
    names, _ = judge.addresses
    until(lambda: len(list(read(asked(names)))) == len(sent), "the queues to have all")
    found = list(read(asked(names)))
    assert plain(found) == plain(sent)
    assert {each.id: dict(each.properties) for each in found} == {each.id: dict(each.properties) for each in sent}

    tag = next(each.tags for each in sent if each.tags)
    assert plain(list(read(asked(names, tags=tag)))) == plain([each for each in sent if each.tags == tag])
    assert of_options(parse({"servers": names, "subscribePattern": "or.*"})).topics["orders"].keys() == set(range(4))
    with pytest.raises(UnknownTopic, match=r"it has .*orders"):
        list(read(asked(names, subscribe="order")))
    judge.stop()
    with pytest.raises(UnknownTopic, match="the store has no such topic"):  # a broker that stops leaves its name server
        list(read(asked(names)))
