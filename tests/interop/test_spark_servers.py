"""Spark's data source reads from and writes to a real RocketMQ 4.9 cluster with option servers.

Goal: what RocketMQ's client has sent to RocketMQ's broker is read through its name server, field by field, also from a time on
and with accounts; what the sink stores is what RocketMQ's client gets, at least once over deaths. Method: the source's planning
and its tasks' reading, and the sink's commit, without Spark between them, which tests/spark/test_servers.py and
test_servers_sink.py have.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orbitmq.errors import ProtocolError, TimedOut, UnknownTopic
from orbitmq.spark.servers.cluster import Cluster
from orbitmq.spark.servers.connection import Answer
from orbitmq.spark.servers.route import STRIDE
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.sink import remote_target, staging
from orbitmq.spark.sink.columns import Shape
from orbitmq.spark.sink.commit import commit
from orbitmq.spark.sink.remote_target import RemoteTarget
from orbitmq.spark.sink.staging import Staging
from orbitmq.spark.sink.state import Query
from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.snapshot import of_options, settled
from orbitmq.tables import planning
from orbitmq.tables.columns import COLUMNS
from tests.interop.judge import Files, Judge
from tests.interop.letters import Letter, of_rocketmq, random_letters, send_to_rocketmq
from tests.interop.ours import broker_on
from tests.interop.toolchain import Toolchain
from tests.trees import everything
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

SMALL = Files(queue_file_units=100, index_slots=1000, index_entries=3000)
ADDED = {"UNIQ_KEY", "WAIT", "CLUSTER", "TAGS", "KEYS", "MSG_REGION", "TRACE_ON"}  # by RocketMQ's client and broker


def asked(servers: str, **options: str) -> SourceOptions:
    return parse({"servers": servers, "subscribe": "orders", "columns": ",".join(COLUMNS), "timeout": "60s", **options})


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


def since(options: SourceOptions) -> dict[int, int]:
    """Where each queue begins."""
    snapshot = of_options(options)
    return {each.queue: each.begin for each in planning.slices(snapshot.topics, settled(snapshot, options))}


def test_since_a_time(judge: Judge, tmp_path: Path) -> None:
    """Goal: the first message of a queue that was stored then or later, though RocketMQ's own answer is the nearest one."""
    sent: list[Letter] = []
    judge.start(tmp_path / "store", SMALL)
    judge.ask("create", topic="orders", queues=2)
    for part in range(6):
        letters = random_letters(random.Random(part), "orders", 40, 2, empty=False, prefix=f"java {part}")
        send_to_rocketmq(random.Random(part), judge, letters, sent)
    names, _ = judge.addresses
    until(lambda: sum(end for _, end in judge.bounds("orders").values()) == len(sent), "the queues to have all")
    found = [of_rocketmq(each) for each in judge.ask("pull", topic="orders", tags="*")]
    times = sorted({each.stored_ms for each in found})
    assert len(times) > 5
    for moment in {*times[:: len(times) // 7], times[0] - 1000, *(time + 1 for time in times[:: len(times) // 7])}:
        late: dict[int, int] = {}
        for each in found:
            if each.stored_ms >= moment:
                late[each.queue] = min(each.offset, late.get(each.queue, each.offset))
        given = {"startingTimestamp": str(moment), "startingOffsetsByTimestampStrategy": "latest"}
        assert since(asked(names, **given)) == late


def stored(judge: Judge, count: int) -> list[Letter]:
    """Every message of the topic, once its queues have so many: RocketMQ fills them after it has answered."""
    until(lambda: sum(end for _, end in judge.bounds("orders").values()) >= count, "the queues to have all")
    return [of_rocketmq(each) for each in judge.ask("pull", topic="orders", tags="*")]


class Sink:
    """Batches of rows for the topic, committed through a name server."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.target = RemoteTarget(servers)
        self.home = Staging(folder / "staged", shared=True)
        self.query = Query.of(self.home, "q")
        self.batch = 0

    def write(self, rows: int, **columns: object) -> list[bytes]:
        """Bodies of the rows."""
        bodies = [b"%d %d" % (self.batch, number) for number in range(rows)]
        batch = pa.record_batch({"value": bodies, **columns})
        made = staging.stage([batch], Shape("orders", self.target.checked("orders")), self.home.job("job"), f"{self.batch}")
        commit(self.home, self.target, self.query, self.batch, [made])
        self.batch += 1
        return bodies


def test_the_sink(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: RocketMQ's client gets each row. Answers that are lost, and connections, store no row twice; requests that come
    late do, because a RocketMQ broker knows no ids: at least once."""
    judge.start(tmp_path / "store", SMALL)
    judge.ask("create", topic="orders", queues=4)
    sink = Sink(tmp_path, Servers(judge.addresses[0], 60))
    columns = {"tags": [f"tag{n % 3}" for n in range(500)], "keys": pa.array([[f"k{n}", "all"] for n in range(500)])}
    bodies = sink.write(500, **columns, partition=pa.array([n % 4 for n in range(500)], pa.int32()))
    found = {each.body: each for each in stored(judge, len(bodies))}
    assert sorted(found) == sorted(bodies)
    for number, body in enumerate(bodies):
        each = found[body]
        row = (("SPARK_ROW", f"{sink.query.mark}-0-{number}"),)
        assert (each.tags, each.keys, each.queue) == (f"tag{number % 3}", (f"k{number}", "all"), number % 4)
        assert tuple(pair for pair in each.properties if pair[0] == "SPARK_ROW") == row

    real, lost = Cluster.once, iter([False, True, False, False, True, True])

    def once(self: Cluster, *request: Any) -> Answer:
        answer = real(self, *request)
        if next(lost, False):
            raise ConnectionResetError("lost")
        return answer

    monkeypatch.setattr(Cluster, "once", once)
    bodies += sink.write(3000)
    assert next(lost, None) is None
    assert sorted(each.body for each in stored(judge, len(bodies))) == sorted(bodies)

    late: list[tuple[Any, ...]] = []

    def kept(self: Cluster, *request: Any) -> Answer:
        if not late:
            late.append(request)
            raise ConnectionResetError("lost")
        return real(self, *request)

    monkeypatch.setattr(Cluster, "once", kept)
    bodies += sink.write(100)
    assert sorted(each.body for each in stored(judge, len(bodies))) == sorted(bodies)
    with Cluster(sink.target.servers) as cluster:
        assert real(cluster, *late[0]).code == 0
    assert {each.body for each in stored(judge, len(bodies) + 1)} == set(bodies)  # the late ones came again


def drop_empty_files(store: Path) -> None:
    """RocketMQ refuses a store in which its death has left a file that it had made and not yet stretched."""
    for each in (*store.glob("commitlog/*"), *store.glob("consumequeue/*/*/*")):
        if each.stat().st_size == 0:
            each.unlink()


def test_the_sink_while_the_broker_dies(victim: Judge, tools: Toolchain, tmp_path: Path) -> None:
    """Goal: no row is lost. Method: SIGKILL to the broker in the middle of a commit; the query is run again when another one is
    there on the same store."""
    victim.start(tmp_path / "store", SMALL)
    victim.ask("create", topic="orders", queues=4)
    sink = Sink(tmp_path, Servers(victim.addresses[0], 60))
    bodies = sink.write(100)
    sink.target = RemoteTarget(Servers(victim.addresses[0], 15))
    count = 0

    def strike(point: str) -> None:
        nonlocal count
        count += point == "sink_remote_target_sent"
        if count == 5:
            victim.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_target, "crash_point", strike)
        with pytest.raises((TimedOut, UnknownTopic)):
            sink.write(3000)
    assert count >= 5, "the broker was not killed"
    drop_empty_files(tmp_path / "store")
    after = Judge(tools, tmp_path / "after")
    try:
        after._ports = victim._ports
        after.start(tmp_path / "store", SMALL)
        sink.target = RemoteTarget(Servers(after.addresses[0], 60))
        until(lambda: "orders" in after.topics(), "the topic in the name server")
        bodies += sink.write(3000)
        found = Counter(each.body for each in stored(after, len(bodies)))
        assert set(found) == set(bodies) and found.total() == len(bodies)  # no request was late here
    finally:
        after.close()


RULES = """\
accounts:
- accessKey: operator
  secretKey: 12345678
  admin: true
- accessKey: spark-1
  secretKey: of-spark-alone
  topicPerms: [orders=PUB|SUB]
  groupPerms: [TOOLS_CONSUMER=SUB]
"""


def test_accounts(judge: Judge, tmp_path: Path) -> None:
    judge.start(tmp_path / "store", SMALL, rules=RULES, operator=("operator", "12345678"))
    judge.ask("create", topic="orders", queues=4)
    names, _ = judge.addresses
    bodies = Sink(tmp_path, Servers(names, 60, "spark-1", "of-spark-alone")).write(50)
    own = {"accessKey": "spark-1", "secretKey": "of-spark-alone"}
    until(lambda: len(list(read(asked(names, **own)))) == len(bodies), "the queues to have all")
    assert sorted(each.body for each in read(asked(names, **own))) == sorted(bodies)
    for wrong in ({}, {"accessKey": "spark-1", "secretKey": "of-nobody"}):
        with pytest.raises(ProtocolError, match="AclException"):
            list(read(asked(names, **wrong)))
    with pytest.raises(ProtocolError, match="AclException"):
        Sink(tmp_path / "other", Servers(names, 60, "spark-1", "of-nobody")).write(50)


def test_a_topic_of_both(judge: Judge, tmp_path: Path) -> None:
    """Goal: a cluster of a RocketMQ broker and one of OrbitMQ is written to and read as one."""
    judge.start(tmp_path / "theirs", SMALL)
    names, _ = judge.addresses
    with broker_on(tmp_path / "ours", SMALL, name="beside", listen="127.0.0.1:0", namesrv=names) as broker:
        broker.create_topic("orders", queues=2)
        judge.ask("create", topic="orders", queues=4)
        until(lambda: judge.mqadmin("topicRoute", "-n", names, "-t", "orders").count('"brokerName":') == 4, "both in the route")
        servers = Servers(names, 60, brokers=("judged", "beside"))
        bodies = Sink(tmp_path, servers).write(
            600, partition=pa.array([[0, STRIDE + 1, *[None] * 5][n % 7] for n in range(600)], pa.int32())
        )
        here = [body for body, *_ in everything(broker, "orders")]
        assert 150 < len(here) < 300
        ordered = asked(names, brokers="judged,beside")
        until(lambda: len(list(read(ordered))) == len(bodies), "the queues to have all")
        found = list(read(ordered))
        assert sorted(each.body for each in found) == sorted(bodies)
        assert {each.queue for each in found} == {0, 1, 2, 3, STRIDE, STRIDE + 1}
        assert {each.body for each in found if each.queue >= STRIDE} == set(here)
        assert {each.body for each in found if each.queue == STRIDE + 1} >= set(bodies[1::7])
