"""Goal: an operator chooses form, level and file of the log, and can move the file away while the broker runs. Method: the
command, whose processes are killed, and whose file is moved; and logrotate itself where it is installed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import orbitmq
from tests.cli.commands import SMALL, Background, run
from tests.tools import tool
from tests.trees import actors, kill
from tests.waiting import until

RECIPE = Path(__file__).parents[2] / "ops" / "logrotate" / "orbitmq"


def killed(name: str, life: int = 2) -> None:
    with orbitmq.connect(name, wait=60) as client:
        kill(client, "notifier")
        until(lambda: actors(client)["notifier"].epoch == life, "the notifier's next life")


@contextmanager
def foreground(store: Path, *options: str) -> Iterator[tuple[Background, str]]:
    name = f"logs-{os.getpid()}"
    with Background("up", "--store", str(store), "--name", name, *SMALL, *options) as command:
        orbitmq.connect(name, wait=120).close()
        assert command.process.stdout is not None
        while b"Ctrl-C" not in (line := command.process.stdout.readline()):  # from then on it passes signals on
            assert line, command.process.communicate()
        yield command, name


def test_text_on_the_error_output(tmp_path: Path) -> None:
    """As a service manager takes it. Another signal than one that ends it reopens nothing, because there is no file."""
    with foreground(tmp_path) as (command, name):
        killed(name)
        command.process.send_signal(signal.SIGUSR1)
        killed(name, 3)
        command.interrupt()
        code, _, shown = command.end()
    assert code == 0
    lines = [line for line in shown.splitlines() if f"orbitmq[{name}]" in line]
    assert len(lines) == 5
    for line in lines:
        assert re.match(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}} (INFO|ERROR) orbitmq\[{name}\] supervisor\[\d+\]: ", line)
    assert "notifier (process " in lines[1] and "died, SIGKILL; restarted" in lines[1] and "ended=SIGKILL" in lines[1]


def test_json_on_the_error_output(tmp_path: Path) -> None:
    with foreground(tmp_path, "--log-format", "json", "--log-level", "error") as (command, name):
        killed(name)
        command.interrupt()
        code, _, shown = command.end()
    assert code == 0
    [line] = [json.loads(line) for line in shown.splitlines()]
    assert (line["broker"], line["actor"], line["level"], line["fields"]["died"]) == (name, "supervisor", "error", "notifier")


def test_a_file_that_is_moved(tmp_path: Path) -> None:
    """SIGUSR1 to the command that a service manager knows. Each line is in one of the files, in order, and none on the error
    output."""
    file = tmp_path / "b.log"
    with foreground(tmp_path / "store", "--log-file", str(file), "--log-format", "json") as (command, name):
        for turn in range(1, 4):
            killed(name, turn + 1)
            file.rename(tmp_path / f"{turn}.log")
            command.process.send_signal(signal.SIGUSR1)
            until(file.exists, "the next file")
        command.interrupt()
        code, _, shown = command.end()
    assert code == 0 and f"orbitmq[{name}]" not in shown and "died" not in shown
    files = [tmp_path / f"{turn}.log" for turn in (1, 2, 3)] + [file]
    lines = [json.loads(line) for each in files for line in each.read_text().splitlines()]
    lives = [line["fields"]["life"] for line in lines if line.get("fields", {}).get("died") == "notifier"]
    assert lives == [1, 2, 3]
    assert lines[0]["message"].startswith("runs on") and lines[-1]["message"].startswith("has stopped")


def test_in_the_background(tmp_path: Path) -> None:
    """Without a file of its own it has one in the runtime folder, which is reopened as well; SIGUSR1 goes to the broker."""
    name = f"logs-detached-{os.getpid()}"
    told = run("up", "--detach", "--store", str(tmp_path), "--name", name, *SMALL)
    assert told.returncode == 0, told.stderr
    [place] = re.findall(r"  log +(\S+)", told.stdout)
    file = Path(place)
    assert file.name == f"{name}.log"
    with orbitmq.connect(name) as client:
        moved = file.with_suffix(".1")
        file.rename(moved)
        os.kill(client.status().pid, signal.SIGUSR1)
        until(file.exists, "the next file")
        killed(name)
        until(lambda: client.status().deaths, "the news of its death")
        shown = run("status", "--name", name)
        assert shown.returncode == 0 and "died  notifier, process " in shown.stdout and ": SIGKILL" in shown.stdout
        [death] = json.loads(run("status", "--name", name, "--json").stdout)["deaths"]
        assert (death["actor"], death["life"], death["ended"], death["words"]) == ("notifier", 1, "SIGKILL", [])
        client.stop_broker()
    assert "runs on the store" in moved.read_text() and "runs on the store" not in file.read_text()
    assert "died, SIGKILL" in file.read_text() and "died" not in moved.read_text()


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--log-level", "loud", "it must be one of debug, info, warning, error"),
        ("--log-format", "xml", "it must be one of text, json"),
        ("--log-file", "nowhere/b.log", "could not write the log file"),
    ],
)
def test_what_is_refused(tmp_path: Path, option: str, value: str, why: str) -> None:
    done = run("up", "--detach", "--store", str(tmp_path / "store"), "--name", "refused", option, value)
    assert done.returncode == 2 and why in done.stderr
    assert not (tmp_path / "store" / "commitlog").exists()


def test_the_recipe(tmp_path: Path) -> None:
    """Method: with the test's file and user, and with a signal instead of systemctl, which reloads a service by sending it.
    The recipe leaves an empty file where it is, so the broker's first line is waited for."""
    logrotate = tool("logrotate", package="logrotate")
    file = tmp_path / "logs" / "b.log"
    file.parent.mkdir()
    with foreground(tmp_path / "store", "--log-file", str(file)) as (command, name):
        text = RECIPE.read_text()
        changes = {
            "/var/log/orbitmq/*.log": str(file),
            "systemctl reload orbitmq.service": f"kill -USR1 {command.process.pid}",
            "su orbitmq orbitmq\n": "",
        }
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        recipe = tmp_path / "recipe"
        recipe.write_text(text)
        recipe.chmod(0o600)
        until(lambda: "runs on the store" in file.read_text(), "the broker's first line")
        rotate = [logrotate, "--force", "--state", str(tmp_path / "state"), str(recipe)]
        done = subprocess.run(rotate, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        until(file.exists, "the next file")
        killed(name)
        command.interrupt()
        assert command.end()[0] == 0
    assert "runs on the store" in Path(f"{file}.1").read_text() and "died, SIGKILL" in file.read_text()
