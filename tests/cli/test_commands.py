"""Goal: the commands do what their help says, and never answer with a traceback.

Method: a real broker in the background, started and stopped by the command itself; each command is a process of its own.
Of cli/reading.py, cli/sending.py and cli/topic.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from tests.cli import commands
from tests.waiting import WATCHDOG_S, until

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    return {**commands.environment(), "XDG_RUNTIME_DIR": str(folder), "ORBITMQ_BROKER": "test"}


@pytest.fixture(scope="module")
def run(environment: dict[str, str]) -> Run:
    """Runs `orbitmq` with these arguments, and returns when it has ended."""

    return partial(commands.run, **environment)


@pytest.fixture(scope="module")
def broker(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A broker in the background; its store."""
    store = tmp_path_factory.mktemp("store")
    started = run("up", "--store", str(store), "--detach", "--log-file-size", "4M", "--handlers", "1")
    assert started.returncode == 0, started.stderr
    assert "appended" in started.stdout and str(store) in started.stdout and "orbitmq down --name test" in started.stdout
    yield store
    stopped = run("down")
    assert stopped.returncode == 0, stopped.stderr


def failed(done: subprocess.CompletedProcess[str], *parts: str, code: int = 1) -> None:
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def test_a_broker_is_found_by_its_store(broker: Path, run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """Goal: every command that asks a broker finds it by the folder of its store, from another runtime folder too."""
    elsewhere = {"ORBITMQ_RUNTIME_DIR": str(tmp_path / "run")}
    failed(run("status", **elsewhere), "none runs under this name", code=3)
    where = ("--store", str(broker))
    assert run("topic", "create", "by-store", "--queues", "1", *where, **elsewhere).returncode == 0
    sent = run("send", "by-store", "hello", "--key", "k", *where, **elsewhere)
    assert sent.returncode == 0, sent.stderr
    assert "by-store" in run("topic", "list", *where, **elsewhere).stdout
    assert "hello" in run("tail", "by-store", "--from", "earliest", "--no-follow", *where, **elsewhere).stdout
    assert "hello" in run("find", "by-store", "k", *where, **elsewhere).stdout
    assert json.loads(run("status", "--json", *where, **elsewhere).stdout)["name"] == "test"
    failed(run("status", *where, "--name", "test"), "either the name or the store, not both")
    failed(run("status", "--store", str(tmp_path)), "none runs on it", code=3)


def test_a_broker_whose_runtime_folder_is_gone(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """Goal: the command stops it, by its store as well as by its name, with everything sent on disk."""
    small = ("--log-file-size", "4M", "--handlers", "1", "--detach")
    gone = {"ORBITMQ_RUNTIME_DIR": str(tmp_path / "run")}

    def folder_gone() -> bool:
        """The broker may write into it meanwhile."""
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return not (tmp_path / "run").exists()

    for find in (("--store", str(tmp_path / "store")), ("--name", "test")):
        assert run("up", "--store", str(tmp_path / "store"), *small, **gone).returncode == 0
        until(folder_gone, "the folder to go")
        if find[0] == "--name":
            until((tmp_path / "run" / "test.json").exists, "the broker to be found again")
        stopped = run("down", *find, **gone)
        assert stopped.returncode == 0, stopped.stderr
        assert not (tmp_path / "store" / "abort").exists()


def test_create_and_list_topics(broker: Path, run: Run) -> None:
    """Goal: a created topic is listed. Method: as text and as JSON."""
    assert "colours with 3 queues" in run("topic", "create", "colours", "--queues", "3").stdout
    assert "colours" in run("topic", "list").stdout
    listed = [json.loads(line) for line in run("topic", "list", "--json").stdout.splitlines()]
    assert {"name": "colours", "queues": 3, "perm": 6, "retention_hours": None, "durability": "appended"} in listed


def test_how_long_messages_are_kept(broker: Path, run: Run) -> None:
    """Goal: the time is shown where a topic is created, changed and listed. Method: a topic that gets one, another one, and
    none."""

    def listed() -> list[str]:
        return next(line.split() for line in run("topic", "list").stdout.splitlines() if line.startswith("hours"))

    made = run("topic", "create", "hours", "--queues", "2", "--retention-hours", "168")
    assert "hours with 2 queues, kept 168 hours (7 days)" in made.stdout
    assert listed()[-2:] == ["(7", "days)"]
    assert "2 queues, kept 36 hours" in run("topic", "create", "hours", "--retention-hours", "36").stdout, "queues stay"
    assert "kept for ever" in run("topic", "create", "hours", "--retention-hours", "0").stdout
    assert "for ever" in run("status").stdout
    assert "kept" not in run("topic", "create", "hours", "--retention-hours", "-1").stdout
    assert listed()[-1] == "write"
    failed(run("topic", "create", "hours", "--retention-hours", "1000001"), "1,000,000", code=2)
    run("send", "hours", "x")
    told = run("status").stdout
    assert "oldest message 20" in told and "kept 72 hours (3 days)" in told
    status = json.loads(run("status", "--json").stdout)
    assert status["retention_hours"] == 72 and status["oldest_ms"] > 0


def test_a_tail_whose_reader_has_gone(broker: Path, run: Run, environment: dict[str, str]) -> None:
    """`orbitmq tail | head` ends when head has ended, not with the next message."""
    run("topic", "create", "short", "--queues", "1")
    run("send", "short", "x")
    command = [sys.executable, "-m", "orbitmq.cli.main", "tail", "short", "--from", "earliest"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None and b"x" in tail.stdout.readline()
        tail.stdout.close()
        assert tail.wait(WATCHDOG_S) == 0
        assert tail.stderr is not None and not tail.stderr.read()


def test_what_receipts_wait_for(broker: Path, run: Run) -> None:
    """Goal: a topic's durability is shown where it is created, changed and listed, and `send` uses it by default. Method: the
    output of each command; the disk follows within half a second anyway, so only its receipts prove anything."""

    def listed() -> list[str]:
        return next(line.split() for line in run("topic", "list").stdout.splitlines() if line.startswith("safe"))

    assert (
        "safe with 2 queues, durability flushed" in run("topic", "create", "safe", "-q", "2", "--durability", "flushed").stdout
    )
    assert listed()[-2:] == ["write", "flushed"]
    assert "flushed" in next(line for line in run("status").stdout.splitlines() if line.startswith("safe"))
    assert "kept 36 hours, durability flushed" in run("topic", "create", "safe", "--retention-hours", "36").stdout, "it stays"
    assert run("send", "safe", "x").stdout.split()[0] == "flushed"
    assert run("send", "safe", "x", "--appended").returncode == 0
    assert "durability appended" in run("topic", "create", "safe", "--durability", "appended").stdout
    assert "durability" not in run("topic", "create", "safe").stdout
    assert listed()[-3:] == ["write", "36", "hours"]
    topics = {topic["name"]: topic for topic in json.loads(run("status", "--json").stdout)["topics"]}
    assert topics["safe"]["durability"] == "appended"
    failed(run("topic", "create", "safe", "--durability", "replicated"), "'replicated'", "appended", "flushed", code=2)


def test_send_prints_receipts(broker: Path, run: Run) -> None:
    """Goal: a receipt says place and level. Method: one message, several, from standard input, line by line, on disk."""
    run("topic", "create", "letters", "--queues", "1")
    first = run("send", "letters", "a", "--tag", "t", "--key", "k1", "--key", "k2").stdout.split()
    assert first[0] in ("appended", "flushed"), "the disk may be sooner than the command's own words"
    assert first[1] == "letters/0@0" and len(first[-1]) == 32
    assert run("send", "letters", "-", "--flushed", feed="b").stdout.split()[:2] == ["flushed", "letters/0@1"]
    many = run("send", "letters", "c", "--count", "2500").stdout
    assert "2,500 messages" in many and "letters/0@2 " in many and "letters/0@2501 " in many
    assert "3 messages" in run("send", "letters", "-", "--lines", feed="x\ny\nz\n").stdout
    assert "500118 bytes" in run("send", "letters", "-", feed="x" * 500_000).stdout, "no knob of the library is in the way"
    failed(run("send", "letters", "-", feed="x" * 2_000_000), "2000118", "raise --message-max of orbitmq up")
    failed(run("send", "letters", "-", feed=""), "standard input was empty")


def test_send_later(broker: Path, run: Run) -> None:
    """Goal: a delayed message says where it waits, and comes. Method: one and several, and tail until they are there."""
    run("topic", "create", "reminders", "--queues", "1")
    assert "SCHEDULE_TOPIC_XXXX/0@0" in run("send", "reminders", "a", "--delay-level", "1").stdout.split()
    many = run("send", "reminders", "b", "--count", "3", "--delay-level", "1").stdout
    assert "3 messages to reminders" in many and "SCHEDULE_TOPIC_XXXX/0@3 " in many
    assert run("tail", "reminders", "--from", "earliest", "--count", "4").stdout.count("\n") == 4
    failed(run("send", "reminders", "a", "--delay-level", "-1"), "--delay-level", code=2)


def test_tail_shows_what_was_sent(broker: Path, run: Run) -> None:
    """Goal: messages come out as they went in. Method: text, JSON, other bytes, tags, an offset, a group that continues."""
    run("topic", "create", "tales", "--queues", "1")
    run("send", "tales", "one", "--tag", "a", "--key", "k")
    run("send", "tales", "two\x1b[2J", "--tag", "b")
    line, escaped = run("tail", "tales", "--from", "earliest", "--count", "2").stdout.splitlines()
    assert line.split("\t")[0] == "tales/0@0" and line.split("\t")[2:] == ["a", "k", "one"]
    assert escaped.endswith("two\\x1b[2J"), "a message must not control the terminal"
    told = [
        json.loads(text) for text in run("tail", "tales", "--from", "earliest", "--no-follow", "--json").stdout.splitlines()
    ]
    assert [each["body"] for each in told] == ["one", "two\x1b[2J"]
    assert told[0]["keys"] == ["k"] and told[0]["tags"] == "a"
    assert run("tail", "tales", "--from", "1", "--no-follow").stdout.startswith("tales/0@1")
    assert run("tail", "tales", "--from", "earliest", "--no-follow", "--tag", "b").stdout.count("\n") == 1
    assert run("tail", "tales", "--from", "earliest", "--no-follow", "--sql", "TAGS = 'b'").stdout.startswith("tales/0@1")
    failed(run("tail", "tales", "--sql", "TAGS = "), "column 8", "TAGS = \n", "expected")
    assert run("tail", "tales", "--group", "g", "--from", "earliest", "--count", "1").stdout.startswith("tales/0@0")
    assert run("tail", "tales", "--group", "g", "--no-follow").stdout.startswith("tales/0@1")
    assert run("tail", "tales", "--group", "g", "--no-follow").stdout == ""
    failed(run("tail", "tales", "--from", "soon"), "soon", code=2)
    failed(run("tail", "untold"), "untold", "hint:")


def test_find_and_show(broker: Path, run: Run) -> None:
    """Goal: a message is found again by key and by id. Method: send, find, show; then what does not exist."""
    run("topic", "create", "lost")
    receipt = run("send", "lost", "and found", "--key", "k-7").stdout.split()
    place, message_id = receipt[1], receipt[-1]
    assert place in run("tail", "lost", "--from", "earliest", "--count", "1").stdout, "readable, so indexed"
    assert place in run("find", "lost", "k-7").stdout
    shown = run("show", message_id).stdout
    assert place in shown and "k-7" in shown and shown.endswith("and found\n")
    assert json.loads(run("show", message_id, "--json").stdout)["id"] == message_id
    failed(run("find", "lost", "k-8"), "k-8")
    failed(run("find", "nowhere", "k-8"), "nowhere", "hint:")
    failed(run("show", "xyz"), "xyz")
    failed(run("show", "0" * 31 + "1"), "error:")


def test_status_tells_what_runs(broker: Path, run: Run) -> None:
    """Goal: status shows every process and topic. Method: the text for a person, the JSON for a program."""
    run("topic", "create", "shown")
    text = run("status", "--queues").stdout
    for word in ("writer", "handler 0", "flush", "coordinator", "running", "wrote", "flushed", "shown", str(broker)):
        assert word in text
    content = json.loads(run("status", "--json").stdout)
    assert content["state"] == "running" and content["store"] == str(broker)
    assert all(actor["pid"] > 0 and actor["epoch"] == 1 for actor in content["actors"])


def test_a_watched_status_can_be_piped(broker: Path, environment: dict[str, str]) -> None:
    """Goal: if the output cannot be redrawn, picture follows picture. Method: three of them through a pipe, then Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli.main", "status", "--watch", "--interval", "0.1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pictures = 0
    while pictures < 3:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=WATCHDOG_S)
        pictures += line.startswith("broker test")
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=WATCHDOG_S)
    assert process.returncode == 0, complaint


def test_bad_wishes_are_answered_in_a_line(broker: Path, run: Run) -> None:
    """Goal: every refusal names the value and what would help. Method: one wrong request after another; then the broker
    works."""
    failed(run("send", "nowhere", "x"), "nowhere", "hint:", "orbitmq topic create nowhere")
    failed(run("topic", "create", "two words"), "two words", code=2)
    failed(run("topic", "create", "x" * 128), "128", code=2)
    run("topic", "create", "narrow", "--queues", "2")
    failed(run("send", "narrow", "x", "--queue", "2"), "queue 2", "narrow", "2 queues", "leave out --queue")
    failed(run("up", "--store", str(broker), "--detach"), "error:", "hint:")
    failed(run("up", "--store", str(broker), "--detach", ORBITMQ_BROKER="other"), str(broker))
    failed(run("status", XDG_RUNTIME_DIR="/dev/null"), "/dev/null/orbitmq", "set XDG_RUNTIME_DIR")
    failed(run("status", ORBITMQ_BROKER="nobody"), "nobody", "orbitmq up --name nobody", code=3)
    failed(run("send", "narrow"), "rror", code=2)
    failed(run("send", "narrow", "x", "--queue", "1", "--queue-key", "k"), "--queue-key", code=2)
    failed(run("up", "--log-file-size", "much"), "much", code=2)
    failed(run("up", "--handlers", "0", ORBITMQ_BROKER="other"), "handlers", "1 to", code=2)
    failed(run("up", "--detach", "--set", "spin-us=x", ORBITMQ_BROKER="other"), "spin_us", code=2)
    failed(run("up", ORBITMQ_BROKER="a/b"), "'a/b'", code=2)
    failed(run("up", "--set", "handler=3", ORBITMQ_BROKER="other"), "did you mean handlers", code=2)
    failed(run("send", "narrow", "x", "--tag", "a||b"), "'a||b'", "one tag", code=2)
    refused = run("up", "--set", "depth=3", ORBITMQ_BROKER="other")
    failed(refused, "depth", "hint:", "spin_us", code=2)
    assert "owner" not in refused.stderr, "that is for programs"
    assert refused.stderr.count("depth") == 1, "once is enough"
    assert "narrow/0@0" in run("send", "narrow", "x").stdout.split()


def test_help_teaches(run: Run) -> None:
    """Goal: a beginner finds the way. Method: the first page names the first steps; every command has a help page."""
    page = run("--help").stdout
    for step in ("orbitmq up", "orbitmq topic create", "orbitmq send", "orbitmq status", "orbitmq down"):
        assert step in page
    for command in ("up", "down", "status", "send", "tail", "find", "show", "topic", "config"):
        page = run(command, "--help").stdout
        assert page and "[default: (" not in page
    assert "[default: 500]" in run("up", "--help").stdout
    assert run("--version").stdout.startswith("orbitmq ")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_up_in_the_foreground_stops_cleanly(environment: dict[str, str], tmp_path: Path, how: signal.Signals) -> None:
    """Goal: Ctrl-C leaves nothing running and a closed store. Method: wait for the last line of its greeting, then signal."""
    arguments = ["up", "--store", str(tmp_path / "store"), "--log-file-size", "1M", "--handlers", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli.main", *arguments],
        env={**environment, "ORBITMQ_BROKER": "front"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, process.communicate(timeout=WATCHDOG_S)
    process.send_signal(how)
    answer, complaint = process.communicate(timeout=WATCHDOG_S)
    assert process.returncode == 0, complaint
    assert "stopped" in answer
    assert not (tmp_path / "store" / "abort").exists()


def test_up_in_the_foreground_ends_when_it_is_told_to(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """Goal: `orbitmq down` ends a broker that runs in another terminal. Method: does that."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli.main", "up", "--store", str(tmp_path / "store"), "--log-file-size", "1M"],
        env={**environment, "ORBITMQ_BROKER": "front"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, process.communicate(timeout=WATCHDOG_S)
    assert "stopped" in run("down", ORBITMQ_BROKER="front").stdout
    answer, _ = process.communicate(timeout=WATCHDOG_S)
    assert process.returncode == 0 and "stopped" in answer


def test_a_broker_that_is_killed(environment: dict[str, str], tmp_path: Path) -> None:
    """Goal: the report of its end names the real cause. Method: SIGKILL to the supervisor, as the kernel does if memory runs
    out."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli.main", "up", "--store", str(tmp_path / "store"), "--log-file-size", "1M"],
        env={**environment, "ORBITMQ_BROKER": "front"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid = 0
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, process.communicate(timeout=WATCHDOG_S)
        pid = int(line.partition("pid ")[2].partition(",")[0]) if "pid " in line else pid
    os.kill(pid, signal.SIGKILL)
    _, complaint = process.communicate(timeout=WATCHDOG_S)
    assert process.returncode == 1
    assert "was killed by signal 9 (SIGKILL)" in complaint and "memory" in complaint and "code -9" not in complaint
    with orbitmq.Broker(tmp_path / "store", name="after", log_file_size=1 << 20):
        pass  # the next start frees what it left in /dev/shm


def test_queues_that_a_member_is_to_let_go(broker: Path, run: Run, environment: dict[str, str]) -> None:
    """Goal: a rebalance that waits for a busy member is visible. Method: a member that holds messages while another one
    joins."""
    run("topic", "create", "shares", "--queues", "2")
    run("send", "shares", "x", "--count", "4")
    with orbitmq.connect(store=broker) as client:
        busy = client.consumer("sharers", ["shares"], start="earliest", revoke_timeout=600)
        assert busy.poll_batch(4, timeout=240)
        newcomer = client.consumer("sharers", ["shares"])
        ((busy_now, new_now),) = [group.members for group in client.status().groups if group.name == "sharers"]
        assert (len(busy_now.queues), len(busy_now.leaving), new_now.queues, new_now.leaving) == (2, 1, (), ())
        told = run("status", "--queues").stdout
        (line,) = [line for line in told.splitlines() if line.startswith("sharers")]
        assert f"{os.getpid()} (2, 1 leaving), {os.getpid()} (0)" in line
        assert told.count(" leaving  ") == 1, "beside the queue"
        groups = {group["name"]: group for group in json.loads(run("status", "--json").stdout)["groups"]}
        assert groups["sharers"]["members"][0]["leaving"] == [list(busy_now.leaving[0])]
        busy.commit()
        busy.settle()
        newcomer.settle()
        assert "leaving" not in run("status", "--queues").stdout
        busy.close()
        newcomer.close()
