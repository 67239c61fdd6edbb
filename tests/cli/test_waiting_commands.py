"""Goal: `send --wait` and `tail --wait` outlast a broker's absence. Method: the commands are started first, and the broker when
they wait; or the broker is killed under them and started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.shm import runtime
from tests.cli.commands import SMALL, Background, run
from tests.trees import small_broker, stopped
from tests.waiting import dead, until

# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    """The name of a broker that does not run, and whose store has a topic."""
    with small_broker(tmp_path / "store", name="later") as broker:
        broker.create_topic("t", 1)
    assert runtime.runtime_folder().is_dir()
    yield "later"
    run("down", "--name", "later")


def up(tmp_path: Path) -> None:
    started = run("up", "-s", str(tmp_path / "store"), "-n", "later", "-d", *SMALL[:2])
    assert started.returncode == 0, started.stderr


@pytest.mark.parametrize("by", ["name", "store"])
def test_the_broker_comes_later(tmp_path: Path, name: str, by: str) -> None:
    where = ("--name", name) if by == "name" else ("--store", str(tmp_path / "store"))
    tail = Background("tail", "t", "--from", "earliest", "--count", "2", "--wait", "60", *where)
    one = Background("send", "t", "one", "--wait", "60", *where)
    with tail, one:
        tail.waits_for_a_broker()
        one.waits_for_a_broker()
        up(tmp_path)
        code, receipt, complaint = one.end()
        assert code == 0 and receipt.startswith(("appended  t/0@0", "flushed  t/0@0")), complaint
        assert run("send", "t", "two", *where).returncode == 0
        code, lines, complaint = tail.end()
        assert code == 0, complaint
        assert [line.split("\t")[-1] for line in lines.splitlines()] == ["one", "two"]


def test_the_broker_goes_and_comes(tmp_path: Path, name: str) -> None:
    """A tail continues after what it has shown, with a group and without; without --wait it ends with 3."""
    up(tmp_path)
    run("send", "t", "one", "--name", name)
    following = ("--from", "earliest", "--name", name)
    patient = [Background("tail", "t", *following, "--count", "2", "--wait", "60", *more) for more in ((), ("-g", "g"))]
    impatient = Background("tail", "t", *following)
    with patient[0], patient[1], impatient:
        firsts = []
        for each in (*patient, impatient):
            assert each.process.stdout is not None
            firsts.append(each.process.stdout.readline())
        assert all(line.endswith(b"one\n") for line in firsts)
        with orbitmq.connect(name) as client:
            supervisor = client.status().pid
            until(lambda: not any(group.lag_messages for group in client.status().groups), "the commit")
        os.kill(supervisor, signal.SIGKILL)
        until(lambda: dead(supervisor), "its end")
        code, _, complaint = impatient.end()
        assert code == 3, complaint
        up(tmp_path)
        assert run("send", "t", "two", "--name", name).returncode == 0
        for each in patient:
            code, lines, complaint = each.end()
            assert code == 0 and lines.endswith("two\n") and lines.count("\n") == 1, (lines, complaint)


def test_no_broker_comes(name: str) -> None:
    for command in (("send", "t", "x"), ("tail", "t")):
        done = run(*command, "--name", name, "--wait", "0.2")
        assert done.returncode == 3 and "'later'" in done.stderr
        with Background(*command, "--name", name, "--wait", "600") as waiting:
            waiting.waits_for_a_broker()
            waiting.interrupt()
            assert waiting.end()[0] in (0, 130), "Ctrl-C ends the wait"


def test_no_follow_waits_for_the_queues(tmp_path: Path) -> None:
    """Goal: `tail --no-follow` shows all that was acknowledged before, or says why it cannot: reput, which hangs."""
    with small_broker(tmp_path / "store", name="later") as broker:
        broker.create_topic("t", 1)
        asked = ("tail", "t", "--from", "earliest", "--no-follow", "--name", "later")
        with stopped(broker, "reput"):
            assert run("send", "t", "one", "--name", "later").returncode == 0
            done = run(*asked)
            assert done.returncode != 0 and "reput" in done.stderr and not done.stdout
        done = run(*asked)
        assert done.returncode == 0 and done.stdout.rstrip().split("\t")[-1] == "one"
