"""Goal: `orbitmq work` runs a command for each message, and its exit code decides. Method: the command on a
broker of the test's. Also of cli/last_words.py."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import Background, run
from tests.trees import small_broker
from tests.waiting import until

PROGRAM = """
import os, pathlib, sys
body = sys.stdin.read()
print(body, os.environ["ORBITMQ_TOPIC"], os.environ["ORBITMQ_KEYS"], os.environ["ORBITMQ_DELIVERY"], flush=True)
if body == "bad":
    sys.exit("no such card")
if body == "slow":
    pathlib.Path(sys.argv[1]).touch()
    while not pathlib.Path(sys.argv[2]).exists():
        os.sched_yield()
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with small_broker(tmp_path_factory.mktemp("work"), name="works") as broker:
        yield broker


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(PROGRAM)
    return f"{sys.executable} {tmp_path}/program.py {tmp_path}/begun {tmp_path}/go"


def test_exit_codes(broker: Broker, program: str) -> None:
    broker.create_topic("orders", 1)
    with broker.producer() as producer:
        for body in ("good", "bad", "fine"):
            producer.send("orders", body, keys=f"k-{body}")
    done = run("work", "orders", "-g", "billing", "--exec", program, "--count", "3", "--name", "works")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["good orders k-good 1", "bad orders k-bad 1", "fine orders k-fine 1"]
    assert "failed  orders/0@1, delivery 1: exit code 1" in done.stderr and "no such card" in done.stderr
    # What failed is in its place, or, if the broker was quick, a retry.
    until(lambda: (group := broker.group("billing")).lag_messages == 2 or group.retries == 1, "the failed message")


def test_the_last_try(broker: Broker) -> None:
    broker.create_topic("lost", 1)
    with broker.producer() as producer:
        producer.send("lost", "bad")
    done = run("work", "lost", "-g", "once", "--exec", "false", "--count", "1", "--max-tries", "1", "--name", "works")
    assert done.returncode == 0
    letters = until(lambda: broker.dead_letters("once").list(), "the dead letter")
    assert [bytes(each.message.body) for each in letters] == [b"bad"]
    wrong = run("work", "lost", "-g", "once", "--exec", "false", "--max-tries", "501", "--name", "works")
    assert wrong.returncode == 2 and "--max-tries" in wrong.stderr


@pytest.mark.parametrize(
    ("command", "why"),
    [("", "it names no command"), ("cat 'x", "no closing quotation"), ("no-such-command x", "no command 'no-such-command'")],
)
def test_what_is_no_command(broker: Broker, command: str, why: str) -> None:
    """It is refused before a message is taken, which would only come again."""
    broker.create_topic("untouched", 1)
    wrong = run("work", "untouched", "-g", "nobody", "--exec", command, "--idle", "0", "--name", "works")
    assert wrong.returncode == 2 and why in " ".join(wrong.stderr.split())
    assert "nobody" not in [group.name for group in broker.groups()]


def test_a_command_that_goes_missing(broker: Broker, tmp_path: Path) -> None:
    """Its message fails, with a line and no traceback: here the file is executable and no program."""
    broker.create_topic("gone", 1)
    with broker.producer() as producer:
        producer.send("gone", b"x")
    script = tmp_path / "script"
    script.write_text("no program")
    script.chmod(0o755)
    done = run("work", "gone", "-g", "g", "--exec", str(script), "--count", "1", "--name", "works")
    assert done.returncode == 0 and "could not run" in done.stderr and "Traceback" not in done.stderr


def test_a_hung_command(broker: Broker) -> None:
    broker.create_topic("hangs", 1)
    with broker.producer() as producer:
        producer.send("hangs", b"x")
    options = ("--count", "1", "--timeout", "0.2", "--name", "works")
    done = run("work", "hangs", "-g", "billing2", "--exec", "sleep 1000", *options)
    assert done.returncode == 0 and "killed after 0.2 s" in done.stderr


def test_a_command_that_leaves_a_process(broker: Broker, tmp_path: Path) -> None:
    """Its end counts, not that of what it has started, which keeps its standard input and error."""
    broker.create_topic("leaves", 1)
    with broker.producer() as producer:
        producer.send("leaves", b"x")
    said = "echo one >&2; echo two > /dev/stderr; echo three >&2"
    command = f"sh -c 'tail -f /dev/null >/dev/null & echo $! > {tmp_path}/left; {said}; exit 7'"
    try:
        done = run("work", "leaves", "-g", "billing4", "--exec", command, "--count", "1", "--name", "works")
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert done.returncode == 0 and "exit code 7\none\ntwo\nthree\n" in done.stderr


def test_a_command_that_says_much(broker: Broker) -> None:
    """It does not wait for a reader, and the end of it is kept."""
    broker.create_topic("says", 1)
    with broker.producer() as producer:
        producer.send("says", b"x")
    command = f"{sys.executable} -c 'import sys; sys.stderr.write(1_000_000 * \"x\" + \"the end\"); sys.exit(3)'"
    done = run("work", "says", "-g", "billing5", "--exec", command, "--count", "1", "--name", "works")
    assert done.returncode == 0 and "exit code 3" in done.stderr
    assert done.stderr.replace("\n", "").endswith("xxxthe end") and 1900 < done.stderr.count("x") < 2100


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own. A worker gives up those of both signals when one of them has stopped it."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")]
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_ctrl_c_lets_the_command_end(broker: Broker, program: str, tmp_path: Path) -> None:
    broker.create_topic("slow", 1)
    with broker.producer() as producer:
        producer.send("slow", b"slow")
        producer.send("slow", b"next")
    with Background("work", "slow", "-g", "billing3", "--exec", program, "--name", "works") as command:
        until((tmp_path / "begun").exists)
        assert catches(command.process.pid, signal.SIGTERM)
        command.process.send_signal(signal.SIGINT)
        until(lambda: not catches(command.process.pid, signal.SIGTERM), "the worker to take note")
        (tmp_path / "go").touch()
        said, _ = command.process.communicate()
        assert command.process.returncode == 0 and said.split()[::4] == [b"slow"]
    assert broker.group("billing3").lag_messages == 1


def test_one_key_after_the_other(broker: Broker, tmp_path: Path) -> None:
    """Goal: with --key-ordered, the second message of a key waits while a command works on the first, and others do not.

    Method: the first command ends only when that of another key has run."""
    broker.create_topic("customers", 1)
    with broker.producer() as producer:
        for body, key in (("first", "a"), ("second", "a"), ("other", "b")):
            producer.send("customers", body, keys=key)
    script = tmp_path / "customer.py"
    script.write_text(
        "import os, pathlib, sys\n"
        "body, folder = sys.stdin.read(), pathlib.Path(sys.argv[1])\n"
        "(folder / body).touch()\n"
        "while body == 'first' and not (folder / 'other').exists():\n"
        "    os.sched_yield()\n"
        "if body == 'first':\n"
        "    print('early' if (folder / 'second').exists() else 'in order')\n"
    )
    options = ("--key-ordered", "--concurrency", "3", "--count", "3", "--name", "works")
    done = run("work", "customers", "-g", "story", "--exec", f"{sys.executable} {script} {tmp_path}", *options)
    assert done.returncode == 0 and done.stdout.split("\n") == ["in order", ""]
