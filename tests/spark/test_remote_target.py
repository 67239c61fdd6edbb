"""Goal: a batch that tasks have staged is stored once over TCP, in order and on disk, whichever process is killed during the
commit. Method: as test_sink_commit.py, with a gateway in place of the store's folder. Also of spark/sink/remote_batches.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orbitmq
from orbitmq.errors import NoPermission, ProtocolError, SettingError, TimedOut, UnknownQueue, UnknownTopic
from orbitmq.spark.servers.cluster import Cluster
from orbitmq.spark.servers.connection import Answer
from orbitmq.spark.servers.route import STRIDE
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.sink import options as sink_options
from orbitmq.spark.sink import remote_target, staging
from orbitmq.spark.sink.columns import Shape
from orbitmq.spark.sink.commit import abandon, commit
from orbitmq.spark.sink.remote_target import RemoteTarget
from orbitmq.spark.sink.staging import StagedRows, Staging
from tests.spark.committing import CommittingSink
from tests.spark.name_server import Held, Routes, name_server
from tests.spark.sink_rows import left, messages, stage, wrong
from tests.trees import kill, small_broker

TASKS, ROWS = 2, 4_000
POINTS = (
    "sink_remote_target_intended",
    "sink_remote_target_sent",
    "sink_commit_stored",
    "sink_commit_done",
    "sink_commit_cleared",
)


class Sink(CommittingSink):
    """Commits through the broker's gateway."""

    kind = "servers"
    listens = "127.0.0.1:0"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Staging(folder / "staged here", shared=True))
        self.listens = self.broker.status().listens

    def start(self) -> None:
        self.broker = orbitmq.Broker(self.store, handlers=1, log_file_size=1 << 26, listen=self.listens)

    def target(self, timeout: float = 60) -> RemoteTarget:
        return RemoteTarget(Servers(self.listens, timeout))

    def stage(self, mark: str = "", topic: str = "t") -> list[StagedRows]:
        return stage(self.home, TASKS, ROWS, mark=mark, topic=topic)

    def commit(self, staged: list[StagedRows], *, batch: int = 7, timeout: float = 60) -> None:
        commit(self.home, self.target(timeout), self.query, batch, staged)

    def die_at(self, point: str, passage: int, staged: list[StagedRows]) -> None:
        self.die(point, passage, self.command([self.listens, 60], staged))


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path)
    yield made
    made.broker.close()


@pytest.mark.usefixtures("crash_points")
@pytest.mark.parametrize(("point", "passage"), [*((point, 1) for point in POINTS), ("sink_remote_target_sent", 20)])
def test_a_death_at_every_point(sink: Sink, point: str, passage: int) -> None:
    sink.die_at(point, passage, sink.stage())
    # The repetition's rows are different, so that a row taken from the wrong files is noticed.
    sink.commit(sink.stage("" if point == "sink_commit_cleared" else " again"))
    assert wrong(sink.store, TASKS, ROWS) == []
    state = sink.query.load()
    assert state is not None and (state.done, state.intent) == (7, None)
    assert left(sink.home) == []


def strike_at(
    monkeypatch: pytest.MonkeyPatch, point: str, passage: int, strike: Callable[[], None], times: int = 2
) -> list[str]:
    """Calls `strike` at every such passage, so many times."""
    passed: list[str] = []
    struck: list[str] = []

    def pass_by(name: str) -> None:
        if name == point and len(struck) < times:
            passed.append(name)
            if len(passed) % passage == 0:
                struck.append(name)
                strike()

    monkeypatch.setattr(remote_target, "crash_point", pass_by)
    return struck


@pytest.mark.parametrize(("point", "passage"), [("sink_remote_target_intended", 1), ("sink_remote_target_sent", 7)])
@pytest.mark.parametrize("victim", ["gateway", "broker"])
def test_a_death_in_the_middle(sink: Sink, monkeypatch: pytest.MonkeyPatch, victim: str, point: str, passage: int) -> None:
    """Of the gateway alone, and of the whole broker; twice, and it comes back each time."""

    def strike() -> None:
        if victim == "gateway":
            kill(sink.broker, "gateway")
        else:
            sink.kill_broker()
            sink.start()

    struck = strike_at(monkeypatch, point, passage, strike)
    sink.commit(sink.stage())
    assert len(struck) == (2 if point == "sink_remote_target_sent" else len(struck)) and struck
    assert wrong(sink.store, TASKS, ROWS) == []


def test_a_broker_that_stays_away(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit fails when its time is over, and the next one continues with it."""
    strike_at(monkeypatch, "sink_remote_target_sent", 3, sink.kill_broker, times=1)
    staged = sink.stage()
    with pytest.raises(TimedOut) as caught:
        sink.commit(staged, timeout=15)
    assert caught.value.option == "timeout"
    abandon(sink.query, staged)  # what Spark does then
    sink.start()
    sink.commit(sink.stage(" again"))
    assert wrong(sink.store, TASKS, ROWS) == []
    assert left(sink.home) == []


def test_requests_that_are_late(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what a dead sender's connection still holds, and comes when others have sent it again, is not stored a second time.
    Method: requests are kept back as if lost, and made at the end."""
    late: list[tuple[Any, ...]] = []
    real = Cluster.once

    def once(self: Cluster, *request: Any) -> Answer:
        if len(late) < 5:
            late.append(request)
            raise ConnectionResetError("lost")
        return real(self, *request)

    monkeypatch.setattr(Cluster, "once", once)
    sink.commit(sink.stage())
    assert len(late) == 5 and wrong(sink.store, TASKS, ROWS) == []
    with Cluster(Servers(sink.listens, 60)) as cluster:
        for request in late:
            assert real(cluster, *request).fields["duplicate"] == "true"
    assert wrong(sink.store, TASKS, ROWS) == []


def test_requests_that_are_made_twice(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are lost."""
    real = Cluster.once
    count = 0

    def once(self: Cluster, *request: Any) -> Answer:
        nonlocal count
        answer = real(self, *request)
        count += 1
        if count % 5 == 3 and count < 20:
            raise ConnectionResetError("lost")
        return answer

    monkeypatch.setattr(Cluster, "once", once)
    sink.commit(sink.stage())
    assert wrong(sink.store, TASKS, ROWS) == []


@pytest.mark.usefixtures("crash_points")
def test_a_log_that_got_shorter(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: after a crash of the broker's machine, rows are looked for where the log ends now. Method: the intent notes offsets
    that the queues never had; ids, which would hide what is stored twice, are left out."""
    sink.die_at("sink_remote_target_intended", 1, sink.stage())
    state = sink.query.load()
    assert state is not None and state.intent is not None
    state.intent.places = {
        "t": [(number, name, queue, begin + 9000) for number, name, queue, begin in state.intent.places["t"]]
    }
    sink.query.store(state)
    real = Cluster.once

    def once(self: Cluster, *request: Any) -> Answer:
        address, code, fields, body = request
        return real(self, address, code, {name: value for name, value in fields.items() if name != "dedupId"}, body)

    monkeypatch.setattr(Cluster, "once", once)

    def strike() -> None:
        kill(sink.broker, "gateway")

    struck = strike_at(monkeypatch, "sink_remote_target_sent", 7, strike)
    sink.commit(sink.stage(" again"))
    assert len(struck) == 2 and wrong(sink.store, TASKS, ROWS) == []


def test_ids_are_of_one_intent(sink: Sink) -> None:
    """Goal: a query whose notes were removed, and that begins again, stores its rows again. Method: the same query
    and batch."""
    sink.commit(stage(sink.home, 1, 10))
    sink.query.forget()
    sink.commit(stage(sink.home, 1, 10, mark=" anew"))
    assert sorted(len(queue) for queue in messages(sink.store)) == [6, 6, 8]


def test_on_disk_when_it_returns(sink: Sink) -> None:
    sink.commit(sink.stage())
    positions = sink.broker.status().positions
    assert positions.flushed == positions.wrote


def test_it_does_not_wait_for_the_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the last batch has the disk synced. Method: a broker that does so once a minute, a commit with less patience."""
    monkeypatch.setenv("ORBITMQ_FLUSH_INTERVAL_MS", "60000")
    sink = Sink(tmp_path)
    try:
        sink.commit(sink.stage(), timeout=20)
        positions = sink.broker.status().positions
        assert positions.flushed == positions.wrote
    finally:
        sink.broker.close()


def test_rows_and_their_queues(sink: Sink) -> None:
    """Bodies, properties and flags as they are; keys go where a local producer sends them, partitions where they say."""
    columns = {
        "value": [bytes([number]) * number for number in range(200)],
        "key": [None if number % 3 else b"k%d" % (number % 7) for number in range(200)],
        "partition": pa.array([2 if number % 5 == 0 else None for number in range(200)], pa.int32()),
        "flag": pa.array([number - 100 for number in range(200)], pa.int32()),
        "tags": [f"tag{number % 4}" for number in range(200)],
    }
    job = sink.home.job("job")
    batch = pa.record_batch({**columns, "key": pa.array(columns["key"], pa.binary())})
    sink.commit([staging.stage([batch], Shape("t", 1 << 20), job, "0-0")])
    found = {len(bytes(message.body)): (queue, message) for queue, some in enumerate(messages(sink.store)) for message in some}
    assert len(found) == 200
    with sink.broker.producer() as producer:
        own = {key: producer.send("t", b"", queue_key=key).queue for key in {f"k{number}" for number in range(7)}}
    for number in range(200):
        queue, message = found[number]
        assert bytes(message.body) == bytes([number]) * number and message.flag == number - 100
        assert message.properties["TAGS"] == f"tag{number % 4}"
        assert message.properties["SPARK_ROW"] == f"{sink.query.mark}-7-{number}"
        key = None if number % 3 else f"k{number % 7}"
        assert queue == (2 if number % 5 == 0 else own[key] if key else number % 3)


def test_large_rows(sink: Sink) -> None:
    """One row alone may be larger than a batch is otherwise."""
    bodies = [bytes([number]) * size for number, size in enumerate([10, 3_000_000, 10, 200_000, 200_000, 1])]
    batch = pa.record_batch({"value": bodies, "partition": pa.array([0] * 6, pa.int32())})
    sink.commit([staging.stage([batch], Shape("t", 1 << 22), sink.home.job("job"), "0-0")])
    assert [bytes(message.body) for message in messages(sink.store)[0]] == bodies


def test_topics_that_rows_name(sink: Sink) -> None:
    sink.broker.create_topic("u", 1)
    batch = pa.record_batch({"value": [b"%d" % each for each in range(100)], "topic": ["t", "u"] * 50})
    sink.commit([staging.stage([batch], Shape(None, 1 << 20), sink.home.job("job"), "0-0")])
    assert [bytes(message.body) for message in messages(sink.store, "u")[0]] == [b"%d" % each for each in range(1, 100, 2)]
    assert sum(map(len, messages(sink.store))) == 50


def test_refused_before_anything_is_sent(sink: Sink) -> None:
    sink.broker.create_topic("closed", 1)
    sink.broker.set_permissions("closed", read=True, write=False)
    target = sink.target()
    for topic, error in (("nowhere", UnknownTopic), ("closed", NoPermission)):
        with pytest.raises(error, match=repr(topic)):
            target.checked(topic)
        staged = stage(sink.home, 1, 10, topic=topic)
        with pytest.raises(error, match=repr(topic)):
            sink.commit(staged)
        abandon(sink.query, staged)
    batch = pa.record_batch({"value": ["a", "b"], "partition": pa.array([2, 3], pa.int32())})
    staged = [staging.stage([batch], Shape("t", 1 << 20), sink.home.job("job"), "0-0")]
    with pytest.raises(UnknownQueue, match=r"queue 3 of topic 't'.*it has 3: 0, 1, 2"):
        sink.commit(staged)
    abandon(sink.query, staged)
    assert [len(queue) for queue in messages(sink.store)] == [0, 0, 0]
    assert left(sink.home) == []
    assert target.checked("t") == sink.broker.connection.attachment.settings().message_max


def test_a_topic_that_goes(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    strike_at(monkeypatch, "sink_remote_target_sent", 3, lambda: sink.broker.delete_topic("t"), times=1)
    with pytest.raises(UnknownTopic, match="'t'"):
        sink.commit(sink.stage())


def test_a_batch_that_is_refused(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "once", lambda *_: Answer(13, "too large", {}, b""))
    with pytest.raises(ProtocolError, match="answers code 13, 'too large'"):
        sink.commit(sink.stage())


def test_busy_brokers_are_asked_again(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    real, busy = Cluster.once, iter([2, 14, 2])
    monkeypatch.setattr(
        Cluster, "once", lambda self, *request: Answer(code, "", {}, b"") if (code := next(busy, 0)) else real(self, *request)
    )
    sink.commit(sink.stage())
    assert next(busy, None) is None and wrong(sink.store, TASKS, ROWS) == []


def test_several_brokers(sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: rows go to the queues of all, each once, though one is away in the middle; and another order
    of names is in force."""
    with small_broker(tmp_path / "second", listen="127.0.0.1:0") as second:
        second.create_topic("t", 2)
        both = [Held("a", sink.listens, 3), Held("b", second.status().listens, 2)]
        routes: Routes = {"t": both}
        with name_server(routes) as names:

            def leave() -> None:
                routes["t"] = both[:1]
                kill(second, "gateway")
                threading.Timer(0.3, lambda: routes.update(t=both)).start()

            strike_at(monkeypatch, "sink_remote_target_sent", 6, leave, times=1)
            commit(sink.home, RemoteTarget(Servers(names, 60)), sink.query, 7, sink.stage())
            batch = pa.record_batch({"value": ["first", "last"], "partition": pa.array([0, STRIDE + 1], pa.int32())})
            staged = staging.stage([batch], Shape("t", 1 << 20), sink.home.job("job"), "0-0")
            commit(sink.home, RemoteTarget(Servers(names, 60, brokers=("b", "a"))), sink.query, 8, [staged])
        here, there = messages(sink.store), messages(tmp_path / "second")
        assert bytes(there[0][-1].body) == b"first" and bytes(here[1][-1].body) == b"last"
        counts = [len(queue) for queue in (*here, *there)]
        assert sum(counts) == TASKS * ROWS + 2 and max(counts) - min(counts) <= 2
        bodies = {bytes(message.body) for queue in (*here, *there) for message in queue}
        assert len(bodies) == TASKS * ROWS + 2


def test_leftovers_of_other_machines_are_kept(sink: Sink) -> None:
    """A driver of another boot may be one of another machine that has the same folder."""
    foreign = sink.home.staged / "0123456789ab-1-1" / "job"
    foreign.mkdir(parents=True)
    (foreign / "theirs.arrow").touch()
    sink.commit(stage(sink.home, 1, 10))
    assert left(sink.home) == ["theirs.arrow"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"servers": "h:1"}, "stagingLocation = None: with servers"),
        ({"servers": "h:1", "path": "p"}, "path and servers are given"),
        ({}, "none is given"),
        ({"path": "p", "tls": "true"}, "they are not given"),
        ({"servers": "h:1", "stagingLocation": "s", "secretKey": "mine-alone"}, "only together with accessKey"),
    ],
)
def test_options_that_do_not_fit(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        sink_options.parse({**given, "topic": "t"})
    assert "mine-alone" not in str(caught.value)
