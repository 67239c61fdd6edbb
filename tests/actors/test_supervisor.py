"""Goal: a tree starts whole or not at all, heals itself, and leaves nothing behind. Method: real trees on small stores;
processes are killed with SIGKILL, and shared memory is compared before and after. Of actors/supervisor/supervisor.py; of the
processes also actors/actor.py and actors/supervisor/children.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.actors.supervisor.segments import Segments
from orbitmq.client.admin.status import read_actors
from orbitmq.shm import runtime
from orbitmq.store.settings.settings import MESSAGE_MAX
from orbitmq.store.settings.tree_settings import tree_settings
from tests.trees import SMALL, actors, kill, segments, small_broker
from tests.waiting import dead, until

KINDS = [
    "flush", "allocator", "reput", "writer", "scheduler", "handler 0", "handler 1", "notifier", "dispatcher", "coordinator",
]  # fmt: skip


def test_start_and_stop_leave_nothing(tmp_path: Path) -> None:
    """Every actor is there, by name, while the tree runs; afterwards no process, no segment, no runtime file, no
    `abort`."""
    with small_broker(tmp_path / "store") as broker:
        generation = broker.connection.attachment.generation
        seen = actors(broker)
        assert set(seen) == {"supervisor", *KINDS}
        assert {actor.state for actor in seen.values()} == {"running"}
        for actor in seen.values():
            command = Path(f"/proc/{actor.pid}/cmdline").read_bytes().rstrip(b"\0").decode()
            assert command == f"orbitmq[{broker.name}] {actor.name}"
        assert len(segments(generation)) == 6  # with the lanes of two handlers, the scheduler and the dispatcher
        assert (tmp_path / "store" / "abort").exists()
        name, pids = broker.name, [actor.pid for actor in seen.values()]
    assert all(dead(pid) for pid in pids)
    assert not segments(generation)
    assert not runtime.description_path(name).exists()
    assert not runtime.socket_path(name).exists()
    assert not (tmp_path / "store" / "abort").exists()


def test_second_start_on_the_same_store(tmp_path: Path) -> None:
    """Topics survive a stop. The sizes of the files are the store's, and need not be given again."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 3)
    with orbitmq.Broker(tmp_path, handlers=1) as broker:
        assert broker.topics() == [orbitmq.TopicInfo("orders", 3, 6)]


def test_locked_store(tmp_path: Path) -> None:
    """A second broker on the store is refused, with the holder's name, and the first does not notice."""
    with small_broker(tmp_path, name="first-of-two") as broker:
        with pytest.raises(errors.StoreLocked) as caught:
            orbitmq.Broker(tmp_path, **SMALL)
        assert caught.value.holder == "first-of-two"
        assert caught.value.pid == broker.pid
        assert broker.status().state == "running"


def test_two_brokers(tmp_path: Path) -> None:
    """Two stores, two trees, side by side in one process."""
    with small_broker(tmp_path / "a") as first, small_broker(tmp_path / "b") as second:
        first.create_topic("one")
        assert second.topics() == []
        assert first.name != second.name


def test_name_in_use(tmp_path: Path) -> None:
    """One name, two stores: the second is told who has the name, and its store is free again."""
    with small_broker(tmp_path / "a", name="contended"), pytest.raises(errors.SettingError, match="contended"):
        orbitmq.Broker(tmp_path / "b", name="contended", **SMALL)
    with small_broker(tmp_path / "b", name="contended"):
        pass


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("handlers", 0),
        ("handlers", 17),
        ("lane_capacity", 100_000),
        ("log_file_size", 5000),
        ("colour", "red"),
        ("flush", "x"),
        ("handlers", True),
        ("offsets_interval_s", "x"),
        ("start_grace_s", -1),
        ("stop_grace_s", float("nan")),
        ("read_only", "perhaps"),
        ("name", "two\nlines"),
    ],
)
def test_bad_setting(tmp_path: Path, setting: str, value: object) -> None:
    """An invalid setting is named in an error of this process, though another one found it."""
    with pytest.raises(errors.SettingError) as caught:
        orbitmq.Broker(tmp_path, **{**SMALL, setting: value})
    assert caught.value.values["name"] == setting


def test_other_sizes_than_the_store_has(tmp_path: Path) -> None:
    with small_broker(tmp_path):
        pass
    with pytest.raises(errors.StoreSettingsError) as caught:
        orbitmq.Broker(tmp_path, **{**SMALL, "log_file_size": 1 << 21})
    assert caught.value.values["stored"] == 1 << 20


def test_shared_memory_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A /dev/shm with 1,000 free bytes: an error that counts the whole tree's need, and no segment is left."""
    generation = os.getpid()
    monkeypatch.setattr("orbitmq.shm.segment.shared_memory_free", lambda: 1000)
    settings = tree_settings(str(tmp_path), SMALL)
    with pytest.raises(errors.StoreFull) as caught:
        Segments(settings, generation, None)
    assert caught.value.values["mount"] == "/dev/shm"
    assert caught.value.values["free"] == 1000
    assert caught.value.values["need"] > 2 * SMALL["lane_capacity"]
    assert not segments(generation)


def test_larger_messages_get_a_larger_lane(tmp_path: Path) -> None:
    """The largest message can be requested without knowing what a lane is."""
    for message_max, lane_capacity in ((4 << 20, 16 << 20), (MESSAGE_MAX, 32 << 20)):
        settings = tree_settings(str(tmp_path), {"message_max": message_max})
        assert settings.files.message_max == message_max and settings.lane_capacity == lane_capacity
    with pytest.raises(errors.SettingError, match="raise lane_capacity"):
        tree_settings(str(tmp_path), {"message_max": 4 << 20, "lane_capacity": 8 << 20})


def test_remote_clients_get_what_rocketmq_takes(tmp_path: Path) -> None:
    """A body of 4 MiB, and 64 KiB for the rest; unless the broker serves local programs alone, or its files are too small."""
    for more in ({"listen": "127.0.0.1:0"}, {"gateway": True}):
        settings = tree_settings(str(tmp_path), more)
        assert (settings.files.message_max, settings.lane_capacity) == ((4 << 20) + (64 << 10), 16 << 20)
    small = tree_settings(str(tmp_path), {"listen": "127.0.0.1:0", "log_file_size": 1 << 20})
    assert (small.files.message_max, small.lane_capacity) == (1 << 18, 8 << 20)
    assert tree_settings(str(tmp_path), {}).lane_capacity == 8 << 20


def test_too_few_open_files(tmp_path: Path) -> None:
    """Refused before anything runs that could not be reached, or stopped, without them."""
    code = "import orbitmq, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); orbitmq.Broker(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "may open 40 files each, and at least 64 are needed" in done.stderr, done.stderr


def test_a_stop_that_cannot_write(tmp_path: Path) -> None:
    """The reason why a stop is not clean is reported, by the exit code too, and only costs a recovery."""
    obstacle = tmp_path / "checkpoint.tmp"

    def stands() -> bool:
        with suppress(FileExistsError):  # the checkpoint is just being written
            obstacle.mkdir()
            return True
        return False

    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        until(stands, "the obstacle to stand")  # before the message, which a checkpoint would else cover already
        broker.producer().send("orders", b"kept", durability="flushed")
        process = broker._started.process  # type: ignore[union-attr]
    assert process.returncode == 1 and (tmp_path / "abort").exists()
    obstacle.rmdir()
    with small_broker(tmp_path) as broker:
        assert [bytes(message) for message in broker.consumer(topics=["orders"]).poll_batch(timeout=240)] == [b"kept"]
    assert not (tmp_path / "abort").exists()


def test_a_topic_that_could_not_be_written_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Creating it again keeps it; a topic without messages is nowhere but in the file."""
    with small_broker(tmp_path) as broker:
        obstacle = tmp_path / "config" / "topics.json.tmp"
        obstacle.mkdir()
        with pytest.raises(errors.StoreFailed, match=r"the topic 'orders' in .*/topics\.json"):
            broker.create_topic("orders", 3)
        assert broker.topics() == [], "what failed was not done"
        obstacle.rmdir()
        broker.create_topic("orders", 3)
    with small_broker(tmp_path) as broker:
        assert broker.topics() == [orbitmq.TopicInfo("orders", 3, 6)]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("name", KINDS)
def test_killed_actor_is_restarted(tmp_path: Path, name: str) -> None:
    """Each kind of actor is killed while the tree is idle: a successor of the next epoch runs, the others never
    stopped."""
    with small_broker(tmp_path) as broker:
        before = actors(broker)
        kill(broker, name)
        until(lambda: actors(broker)[name].epoch == 2 and actors(broker)[name].state == "running", f"a new {name}")
        after = actors(broker)
        assert {each: actor.pid for each, actor in after.items() if each != name} == {
            each: actor.pid for each, actor in before.items() if each != name
        }
        broker.create_topic("after")
        assert broker.status().state == "running"
    assert not (tmp_path / "abort").exists()


def test_restart_intensity(tmp_path: Path) -> None:
    """An actor that dies too often takes the tree down; the next start works."""
    with small_broker(tmp_path, restarts=3, restart_period_s=3600) as broker:
        pids = {actor.name: actor.pid for actor in actors(broker).values()}
        attachment = broker.connection.attachment
        killed = 0
        while not dead(broker.pid) and attachment.alive() and killed < 50:
            # Read from the existing mapping, because the tree may end at any moment.
            [pid] = [actor.pid for actor in read_actors(attachment) if actor.name == "notifier"]
            if pid and not dead(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                until(lambda: dead(pid), "the notifier's death")
        until(lambda: not attachment.alive(), "the end of the tree")
        attachment.wait_ended(30)
        assert killed >= 4
        assert all(dead(pid) for pid in pids.values())
    with small_broker(tmp_path) as broker:
        assert broker.status().state == "running"


def test_killed_supervisor(tmp_path: Path) -> None:
    """The supervisor's SIGKILL ends every process of the tree; the next start removes what it left, and works."""
    with small_broker(tmp_path) as broker:
        killed = broker.connection.attachment.generation
        broker.create_topic("kept", 2)
        pids = [actor.pid for actor in actors(broker).values()]
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: all(dead(pid) for pid in pids), "the death of all actors")
    with small_broker(tmp_path) as broker:
        successor = broker.connection.attachment.generation
        assert [topic.name for topic in broker.topics()] == ["kept"]
        assert segments(successor) and not segments(killed)
    assert not segments(successor)


def test_owner_dies(tmp_path: Path) -> None:
    """A script that is killed takes the tree that it started along; the store is stopped cleanly."""
    program = (
        "import orbitmq, sys; from tests.trees import SMALL\n"
        "broker = orbitmq.Broker(sys.argv[1], **SMALL); print(broker.pid, flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        supervisor = int(script.stdout.readline())
        script.kill()
    until(lambda: dead(supervisor), "the end of the supervisor")
    assert not (tmp_path / "abort").exists()
