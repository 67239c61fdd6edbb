"""Goal: exit codes and one line tell a script what it has to know. Method: commands on brokers that are well, stopped,
read-only, or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import NoPermission
from tests.actors.test_retention_tree import old_store
from tests.cli.test_config import Run, run
from tests.trees import small_broker

__all__ = ["run"]

# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


def content(root: Path) -> dict[str, bytes]:
    """A digest of everything that holds messages and topics."""
    files = (path for folder in ("commitlog", "consumequeue", "index", "config") for path in (root / folder).rglob("*"))
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}


def test_health_in_status(run: Run, tmp_path: Path) -> None:
    assert run("status").returncode == 3 and run("status").stdout == "health stopped\n"
    assert json.loads(run("status", "--json").stdout) == {"state": "stopped", "health": "stopped"}
    small = ("--log-file-size", "1M", "--handlers", "1")
    assert run("up", "-s", str(tmp_path), "-d", *small).returncode == 0
    told = run("status")
    assert told.returncode == 0 and told.stdout.startswith("health ok\n")
    assert json.loads(run("status", "--json").stdout)["health"] == "ok"
    assert run("down").returncode == 0
    assert run("up", "-s", str(tmp_path), "-d", "--set", "read_only=true").returncode == 0
    told = run("status")
    assert told.returncode == 5 and told.stdout.startswith("health refusing: the store is opened read-only\n")
    assert run("status", "--json").returncode == 5
    assert run("down").returncode == 0 and run("down").returncode == 3


def test_read_only_writes_nothing(tmp_path: Path) -> None:
    """It accepts neither topics nor settings, and its refusal does not advise to repair a healthy store."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.producer().send("t", b"x", queue=0)
    before = content(tmp_path)
    settings = (tmp_path / "orbitmq" / "settings.toml").read_bytes()
    with orbitmq.Broker(tmp_path, read_only=True, flush="batch") as broker:
        assert broker.create_topic("t", 2).queues == 2, "it is there as it is wanted"
        for queues, hours in ((3, None), (2, 5)):
            with pytest.raises(NoPermission, match="read-only"):
                broker.create_topic("t", queues, retention_hours=hours)
        with pytest.raises(NoPermission, match="read-only"):
            broker.create_topic("u")
        told = "as its broker was told to; start the broker without"
        with broker.producer() as producer, pytest.raises(NoPermission, match=told):
            producer.send("t", b"y")
        with broker.consumer(None, ["t"]) as consumer:
            assert [bytes(each) for each in consumer.poll_batch(5, 10)] == [b"x"]
    assert content(tmp_path) == before
    assert (tmp_path / "orbitmq" / "settings.toml").read_bytes() == settings
    with orbitmq.Broker(tmp_path) as broker:
        assert broker.status().flush == "timed" and not broker.status().read_only


def test_a_damaged_record_can_be_passed(run: Run, tmp_path: Path) -> None:
    """The error advises an option that the command has."""
    store = tmp_path / "store"
    log = old_store(store, t=None)
    assert run("up", "-s", str(store), "-d", "--retention-hours", "0").returncode == 0 and run("down").returncode == 0
    damaged = log.written[2]
    log.spoil(damaged.offset + 200, b"\xff" * 8)
    assert run("up", "-s", str(store), "-d", "--retention-hours", "0").returncode == 0
    try:
        for group in ((), ("-g", "g")):
            stopped = run("tail", "t", "--from", "earliest", "--count", "5", "--no-follow", *group)
            assert stopped.returncode == 1 and "--skip-damaged" in stopped.stderr
            gone_on = run("tail", "t", "--from", "earliest", "--count", "5", "--no-follow", "--skip-damaged", *group)
            assert gone_on.returncode == 0 and "skipped" in gone_on.stderr and "message 2 of t" in gone_on.stderr
            assert "t/0@3" in gone_on.stdout and "t/0@2\t" not in gone_on.stdout
    finally:
        run("down")


def test_an_interrupted_send_says_how_many(run: Run, tmp_path: Path) -> None:
    """2,500 lines, of which the last is larger than the broker accepts: two batches are stored, and the command says so."""
    assert run("up", "-s", str(tmp_path), "-d", "--log-file-size", "1M", "--handlers", "1").returncode == 0
    try:
        run("topic", "create", "t")
        feed = "x\n" * 2499 + "y" * 400_000 + "\n"
        done = run("send", "t", "-", "--lines", feed=feed)
        assert done.returncode == 1 and "the first 2,000 of 2,500 messages are stored" in done.stderr
    finally:
        run("down")


@pytest.mark.parametrize("place", ["last", "only"])
def test_a_group_gets_past_its_last_damaged_message(run: Run, tmp_path: Path, place: str) -> None:
    """The skipped message is committed: the next tail does not meet it again, and the group has no lag."""
    store = tmp_path / "store"
    log = old_store(store, t=None)
    assert run("up", "-s", str(store), "-d", "--retention-hours", "0").returncode == 0 and run("down").returncode == 0
    count = len(log.written)
    log.spoil(log.written[-1].offset + 200, b"\xff" * 8)
    assert run("up", "-s", str(store), "-d", "--retention-hours", "0").returncode == 0
    tail = ("tail", "t", "--from", "earliest", "--no-follow", "--skip-damaged", "-g", "g")
    try:
        if place == "only":
            run(*tail, "--count", str(count - 1))
        done = run(*tail)
        assert done.returncode == 0 and f"message {count - 1} of t" in done.stderr
        assert done.stdout.count("\n") == (count - 1 if place == "last" else 0)
        status = json.loads(run("status", "--json").stdout)
        queues = [queue for group in status["groups"] for queue in group["queues"]]
        assert [(queue["committed"], queue["lag_messages"]) for queue in queues] == [(count, 0)]
        again = run(*tail)
        assert (again.returncode, again.stdout) == (0, "") and "skipped" not in again.stderr
    finally:
        run("down")
