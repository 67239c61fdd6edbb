"""Goal: a batch that tasks have staged is stored once, in order, whichever process is killed during the commit.

Method: commits without Spark. A committing process dies at each crash point, the broker dies and comes back in the middle, a
dead sender's frames are held back. Then the batch is committed again, as Spark does, out of files of its own, and the log is
read.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import BrokerNotRunning, SettingError, TimedOut, UnknownQueue, UnknownTopic
from orbitmq.spark.sink import commit as sink_commit
from orbitmq.spark.sink import state as sink_state
from orbitmq.spark.sink.commit import Target, abandon, commit
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.spark.sink.state import Query
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout
from tests.crash import crash_build
from tests.spark.committing import CommittingSink
from tests.spark.sink_rows import left, messages, stage, wrong

TASKS, ROWS = 2, 15_000
NAME = "sink-commits"
POINTS = [point for point, part in crash_build.points().items() if part == "sink_commit"]


class Sink(CommittingSink):
    """Commits as Spark's driver does them."""

    kind = "store"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Staging(StoreLayout.at(folder / "store").own / "spark"))

    def start(self) -> None:
        self.broker = orbitmq.Broker(self.store, name=NAME, handlers=1, log_file_size=1 << 26)

    def target(self, timeout: float = 60) -> Target:
        return Target(NAME, str(StoreLayout.at(self.store).root), timeout)

    def commit(self, staged: list[StagedRows], *, batch: int = 7, timeout: float = 60, named: bool = True) -> None:
        commit(self.home, self.target(timeout), self.query, batch, staged, named=named)

    def committing(self, staged: list[StagedRows], *, named: bool = True) -> list[str]:
        """The command of a process of its own that commits them."""
        target = self.target()
        return self.command([target.name, target.root, target.timeout], staged, named=named)

    def die_at(self, point: str, passage: int, staged: list[StagedRows], *, named: bool = True) -> None:
        self.die(point, passage, self.committing(staged, named=named))


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path)
    yield made
    made.broker.close()


@pytest.mark.usefixtures("crash_points")
@pytest.mark.parametrize(("point", "passage"), [*((point, 1) for point in POINTS), ("sink_commit_sent", 3)])
def test_a_death_at_every_point(sink: Sink, point: str, passage: int) -> None:
    sink.die_at(point, passage, stage(sink.home, TASKS, ROWS))
    # The repetition's rows are different, so that a row taken from the wrong files is noticed.
    sink.commit(
        stage(sink.home, TASKS, ROWS) if point == "sink_commit_cleared" else stage(sink.home, TASKS, ROWS, mark=" again")
    )
    assert wrong(sink.store, TASKS, ROWS) == []
    state = sink.query.load()
    assert state is not None and (state.done, state.intent) == (7, None)
    assert left(sink.home) == []


@pytest.mark.usefixtures("crash_points")
def test_deaths_of_one_commit_after_another(sink: Sink) -> None:
    for passage in (2, 1, 1):
        sink.die_at("sink_commit_sent", passage, stage(sink.home, TASKS, ROWS))
    sink.die_at("sink_commit_stored", 1, stage(sink.home, TASKS, ROWS))
    sink.commit(stage(sink.home, TASKS, ROWS))
    assert wrong(sink.store, TASKS, ROWS) == []


@pytest.mark.parametrize("point", ("sink_commit_intended", "sink_commit_sent", "sink_commit_stored"))
def test_the_broker_dies_in_the_middle(sink: Sink, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Twice, and comes back each time."""
    deaths: list[str] = []

    def strike(passed: str) -> None:
        if passed == point and len(deaths) < 2:
            deaths.append(passed)
            sink.kill_broker()
            sink.start()

    monkeypatch.setattr(sink_commit, "crash_point", strike)
    sink.commit(stage(sink.home, TASKS, ROWS))
    assert deaths
    assert wrong(sink.store, TASKS, ROWS) == []


def test_a_broker_that_stays_away(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit fails when its time is over, and the next one continues with it."""

    def strike(passed: str) -> None:
        if passed == "sink_commit_sent":
            monkeypatch.undo()
            sink.kill_broker()

    monkeypatch.setattr(sink_commit, "crash_point", strike)
    staged = stage(sink.home, TASKS, ROWS)
    with pytest.raises(BrokerNotRunning):
        sink.commit(staged, timeout=0.2)
    abandon(sink.query, staged)  # what Spark does then
    sink.start()
    sink.commit(stage(sink.home, TASKS, ROWS, mark=" again"))
    assert wrong(sink.store, TASKS, ROWS) == []
    assert left(sink.home) == []


@pytest.mark.usefixtures("crash_points")
def test_frames_of_a_dead_sender_are_waited_for(sink: Sink) -> None:
    """Goal: rows that are still in a ring are not sent a second time. Method: a stopped handler keeps them there while their
    sender dies and the batch is committed again."""
    [handler] = [actor.pid for actor in sink.broker.status().actors if actor.name == "handler 0"]
    os.kill(handler, signal.SIGSTOP)
    try:
        sink.die_at("sink_commit_sent", 2, stage(sink.home, TASKS, ROWS))
        with pytest.raises(TimedOut, match="not drained"):
            sink.commit(stage(sink.home, TASKS, ROWS), timeout=0.2)
    finally:
        os.kill(handler, signal.SIGCONT)
    sink.commit(stage(sink.home, TASKS, ROWS))
    assert wrong(sink.store, TASKS, ROWS) == []


def test_one_process_at_a_time(sink: Sink) -> None:
    """The process of a commit outlives the driver that is killed; the next driver waits for it."""
    with sink.query.locked(0), pytest.raises(TimedOut, match="another process"):
        sink.commit(stage(sink.home, 1, 10), timeout=0.1)
    sink.commit(stage(sink.home, TASKS, ROWS))
    assert wrong(sink.store, TASKS, ROWS) == []


def test_batches_one_after_another(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    sink.commit(stage(sink.home, 1, 10), batch=0)
    sink.commit([], batch=1)
    sink.commit(stage(sink.home, 1, 10, topic="t", mark=" never"), batch=1)
    assert "batch 1 of query 'q' is stored already: 10 rows are not stored again" in caplog.text
    sink.commit(stage(sink.home, 1, 10, mark=" never"), batch=0)
    assert wrong(sink.store, 1, 10) == []
    assert left(sink.home) == []
    named = {message.properties["SPARK_ROW"] for queue in messages(sink.store) for message in queue}
    assert named == {f"{sink.query.mark}-0-{row}" for row in range(10)}


def test_a_stream_with_an_older_checkpoint(sink: Sink) -> None:
    """Its batches may hold other rows under the same numbers: skipping them silently would lose these."""
    for batch in (0, 1):
        commit(sink.home, sink.target(), sink.query, batch, stage(sink.home, 1, 5, mark=f" {batch}"), in_turn=True)
    commit(sink.home, sink.target(), sink.query, 1, stage(sink.home, 1, 5, mark=" never"), in_turn=True)
    staged = stage(sink.home, 1, 5, mark=" never")
    with pytest.raises(SettingError, match=r"batch 0 of query 'q'.*up to 1 are stored.*queryId") as caught:
        commit(sink.home, sink.target(), sink.query, 0, staged, in_turn=True)
    assert (caught.value.option, caught.value.batch, caught.value.done) == ("checkpointLocation", 0, 1)
    abandon(sink.query, staged)
    assert left(sink.home) == []
    assert sorted(bytes(message.body)[-2:] for queue in messages(sink.store) for message in queue) == [b" 0"] * 5 + [b" 1"] * 5


def test_names_of_staged_files_are_durable(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """An intent names them, and must find them when the machine comes back. Method: the test notes which folders are synced."""
    synced: list[Path] = []
    monkeypatch.setattr(atomic_file, "sync_folder", synced.append)
    [staged] = stage(sink.home, 1, 10)
    job, driver, folder, home, own = list(Path(staged.path).parents)[:5]
    assert home == sink.home.home and set(synced) == {job, driver, folder, home, own}
    synced.clear()
    with sink.query.locked(0):
        assert synced == [sink.home.queries, home]


def test_refused_before_anything_is_sent(sink: Sink) -> None:
    nowhere = stage(sink.home, 1, 10, topic="nowhere")
    with pytest.raises(UnknownTopic, match="'nowhere'"):
        sink.commit(nowhere)
    [staged] = stage(sink.home, 1, 10)
    with pytest.raises(UnknownQueue, match=r"queue 3 of topic 't'.*3 queues"):
        sink.commit([StagedRows(staged.path, staged.rows, {"t": (10, 3)}, staged.largest)])
    assert [len(queue) for queue in messages(sink.store)] == [0, 0, 0]
    abandon(sink.query, [*nowhere, staged])
    assert left(sink.home) == []


@pytest.mark.usefixtures("crash_points")
def test_what_dead_drivers_left_is_cleared(sink: Sink) -> None:
    """A job without a name is not asked for again. Method: its commit dies, and its driver gets the name of a dead one; a job
    that is half stored under a name keeps its files."""
    sink.die_at("sink_commit_sent", 1, stage(sink.home, TASKS, ROWS), named=False)
    kept = Query.of(sink.home, "kept")
    pending = sink_state.State("kept", True, "x", -1, sink_state.Intent(0, [], {}, 1))
    kept.folder.mkdir(parents=True)
    driver = next(sink.home.staged.iterdir())
    dead = driver.rename(driver.with_name(f"{driver.name.partition('-')[0]}-{1 << 30}-1"))
    job = next(dead.iterdir())
    (job / "mine.arrow").touch()
    assert pending.intent is not None
    pending.intent.files = [(str(job / "mine.arrow"), 1)]
    kept.store(pending)
    state = sink.query.load()
    assert state is not None
    state.owner = dead.name
    sink.query.store(state)
    commit(sink.home, sink.target(), Query.of(sink.home, "other"), 0, stage(sink.home, 1, 10))
    assert left(sink.home) == ["mine.arrow"]
    assert sorted(folder.name for folder in sink.home.query_folders()) == sorted(
        [kept.folder.name, Query.of(sink.home, "other").folder.name]
    )
