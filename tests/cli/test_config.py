"""Goal: an operator sees and changes the settings of a store, and a script can answer every question. Method: the commands on a
store, while a broker runs on it and while none does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.actors.test_retention_tree import old_store
from tests.cli import commands

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs `orbitmq` with these arguments, and returns when it has ended."""
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    return partial(commands.run, XDG_RUNTIME_DIR=str(folder), ORBITMQ_BROKER="conf")


def shown(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[object, str]]:
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["setting"]: (line["value"], line["source"]) for line in lines}


def test_up_down_up(run: Run, tmp_path: Path) -> None:
    """The case for which this command exists; each start says what it remembers."""
    store = str(tmp_path / "store")
    small = ("--log-file-size", "1M", "--handlers", "1")
    first = run("up", "-s", store, "-d", "--retention-hours", "0", "--flush", "batch", *small)
    assert first.returncode == 0, first.stderr
    try:
        assert run("config", "show").stdout.count("given to this start") == 5  # the name is one of them
        assert run("config", "set", "stop-grace-s=5", "flush=timed").stdout.startswith("flush = timed\nstop_grace_s = 5\n")
        rows = {line.split()[0]: line.split()[1:] for line in run("config", "diff").stdout.splitlines()}
        assert rows["flush"] == ["batch", "timed", "timed", "at", "the", "next", "start"]
        assert rows["retention_hours"] == ["0", "0", "72"]
        assert run("config", "set", "handlers=0").returncode == 2
        assert run("config", "set", "name=x").returncode == 2
        assert "nothing to change" in run("config", "set", "flush=timed").stdout
    finally:
        assert run("down").returncode == 0
    second = run("up", "-s", store, "-d")
    try:
        assert "remembered" in second.stdout and "retention_hours = 0" in second.stdout
        found = shown(run("config", "show", "--json"))
        assert found["retention_hours"] == (0, "file") and found["stop_grace_s"] == (5.0, "file")
        assert found["log_file_size"] == (1 << 20, "store") and found["spin_us"][1] == "default"
    finally:
        assert run("down").returncode == 0


def test_a_store_without_a_broker(run: Run, tmp_path: Path) -> None:
    """The commands work on the store itself. A folder that is not a store does not become one. A damaged file ends every
    start."""
    nowhere = run("config", "set", "-s", str(tmp_path / "nowhere"), "flush=batch")
    assert nowhere.returncode == 2 and "is no store" in nowhere.stderr and not (tmp_path / "nowhere").exists()
    assert run("config", "show").returncode == 3, "no broker runs"
    store = tmp_path / "store"
    old_store(store, t=None)
    assert run("config", "set", "-s", str(store), "flush=batch", "handlers=1").returncode == 0
    assert shown(run("config", "show", "-s", str(store), "--json", ORBITMQ_FLUSH="timed"))["flush"] == ("timed", "environment")
    assert [json.loads(line)["setting"] for line in run("config", "diff", "-s", str(store), "--json").stdout.splitlines()] == [
        "flush",
        "handlers",
    ]
    assert run("config", "unset", "-s", str(store), "handlers").stdout == "handlers: the default\n"
    file = store / "orbitmq" / "settings.toml"
    file.write_text("# mine\nflush = batch\n")
    for command in (("up", "-s", str(store), "-d"), ("config", "show", "-s", str(store))):
        done = run(*command)
        assert done.returncode == 1 and f"{file}, line 2" in done.stderr


def test_a_script_answers(run: Run, tmp_path: Path) -> None:
    """Messages of 2023 under the default of 72 hours: exit code 6 and nothing deleted, until an option allows it."""
    store = tmp_path / "store"
    old_store(store, t=None)
    before = sorted(path.name for path in (store / "commitlog").iterdir())
    asked = run("up", "-s", str(store), "-d")
    assert asked.returncode == 6 and "2 log files" in asked.stderr and "--allow-deletion" in asked.stderr
    asked = run("config", "set", "-s", str(store), "retention_hours=24")
    assert asked.returncode == 6 and "--allow-deletion" in asked.stderr
    assert sorted(path.name for path in (store / "commitlog").iterdir()) == before
    assert run("config", "set", "-s", str(store), "retention_hours=24", "--allow-deletion").returncode == 0
    assert run("up", "-s", str(store), "-d").returncode == 0, "that was the answer for the next start too"
    assert run("down").returncode == 0
