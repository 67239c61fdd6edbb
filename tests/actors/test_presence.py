"""Goal: a broker can be found as long as it runs, whatever other programs remove; and if it cannot continue, it says so and
ends. Method: real trees, whose files are removed while they run. Of
actors/supervisor/presence.py."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.shm import runtime
from orbitmq.shm.segment import MOUNT
from orbitmq.store import broker_file
from orbitmq.store.layout import StoreLayout
from tests.trees import actors, kill, segments, small_broker
from tests.waiting import WATCHDOG_S, dead, until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder of this test's own."""
    made = Path(os.environ["XDG_RUNTIME_DIR"], tmp_path.name[-20:])
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(made))
    return made


def answers(name: str) -> bool:
    try:
        with orbitmq.connect(name) as fresh:
            fresh.create_topic("orders", 1)
            return fresh.status().state == "running"
    except (errors.BrokerError, errors.TimedOut):
        return False


@pytest.mark.parametrize("what", ["folder", "socket", "description", "in the store"])
def test_what_it_is_found_by_is_cleared_away(tmp_path: Path, folder: Path, what: str) -> None:
    """New clients find it again, connected clients continue, and a new coordinator and an orderly stop work."""
    layout = StoreLayout.at(tmp_path / "store")
    with small_broker(tmp_path / "store", name="cleared") as broker:
        broker.create_topic("orders", 1)
        producer = broker.producer()
        before = runtime.read_description("cleared")
        if what == "folder":
            shutil.rmtree(folder.rename(folder.with_name("gone")))  # the broker makes it again, perhaps meanwhile
        else:
            {
                "socket": runtime.socket_path("cleared"),
                "description": runtime.description_path("cleared"),
                "in the store": layout.broker_json,
            }[what].unlink()
        until(lambda: runtime.socket_path("cleared").exists() and answers("cleared"), "the broker to be found again")
        assert runtime.read_description("cleared") == before
        until(lambda: broker_file.read(layout) == before, "the store's description")
        producer.send("orders", b"x")
        kill(broker, "coordinator")
        until(lambda: answers("cleared"), "a new coordinator that answers at the new socket")
        with orbitmq.connect("cleared", timeout=WATCHDOG_S) as fresh:
            fresh.stop_broker()
    assert list(folder.iterdir()) == []
    assert not layout.abort.exists()


def test_a_name_that_somebody_has_taken_meanwhile(tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says who has the name, once, and takes nothing away. It has the name again when the other is gone."""
    with small_broker(tmp_path / "store", name="wanted") as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        shutil.rmtree(folder)
        with small_broker(tmp_path / "second", name="wanted") as second:
            os.kill(broker.pid, signal.SIGCONT)
            said = f"process {second.pid} has the name"
            until(lambda: said in caplog.text, "the first to say who has its name")
            found = runtime.read_description("wanted")
            assert found is not None and found.pid == second.pid
            assert answers("wanted")
        until(lambda: answers("wanted"), "the first to be there again")
        assert caplog.text.count(said) == 1


@pytest.mark.parametrize("part", ["ctl", "l01"])
def test_somebody_clears_shared_memory_away(tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture) -> None:
    """It says so and ends in order, with everything flushed; the next start works at once."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", 1)
        producer = broker.producer()
        producer.send("orders", b"kept")
        attachment = broker.connection.attachment
        pids = [actor.pid for actor in actors(broker).values()]
        (name,) = (each for each in segments(attachment.generation) if each.endswith(part))
        (MOUNT / name).unlink()
        attachment.wait_ended(30)
        assert all(dead(pid) for pid in pids)
        assert not segments(attachment.generation)
    assert f"another program removed this broker's shared memory, {MOUNT / name}" in caplog.text
    assert not StoreLayout.at(tmp_path / "store").abort.exists()
    with small_broker(tmp_path / "store") as broker, broker.consumer(topics=["orders"]) as consumer:
        assert [bytes(message) for message in consumer.poll_batch(timeout=240)] == [b"kept"]
