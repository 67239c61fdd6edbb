"""Goal: a start, or a change of settings, that would delete messages asks the user at the terminal, and accepts only yes.
Method: an old store, and the command at a terminal of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import is_held
from tests.actors.test_retention_tree import old_store
from tests.cli.commands import Terminal, run
from tests.waiting import until

NAME = "prompt"
# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """Messages of 2023, in three log files."""
    old_store(tmp_path / "store", t=None)
    yield tmp_path / "store"
    if is_held(StoreLayout.at(tmp_path / "store")):
        run("down", "--store", str(tmp_path / "store"))


def log_files(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "commitlog").iterdir())


@pytest.mark.parametrize("answer", ["n\n", "\n", "x\nn\n", "\x04", "\x03"])
def test_every_answer_but_yes(store: Path, answer: str) -> None:
    """No, nothing, nonsense, the end of the input, Ctrl-C: nothing is deleted, and nothing runs."""
    before = log_files(store)
    with Terminal("up", "-s", str(store), "-n", NAME, "-d") as terminal:
        terminal.read_to("Delete them? [y/N]:")
        terminal.type_when_it_waits(answer)
        assert terminal.end() in ((1, 130) if answer == "\x03" else (6, 1)), terminal.shown
    assert "2 log files" in terminal.shown and "broker prompt runs" not in terminal.shown
    assert log_files(store) == before and not is_held(StoreLayout.at(store))


@pytest.mark.parametrize("how", ["detached", "in the foreground"])
def test_yes(store: Path, how: str) -> None:
    before = log_files(store)
    with Terminal("up", "-s", str(store), "-n", NAME, *(("-d",) if how == "detached" else ())) as terminal:
        terminal.read_to("Delete them? [y/N]:")
        assert log_files(store) == before
        terminal.type("y\n")
        if how == "detached":
            assert terminal.end() == 0, terminal.shown
            until(lambda: before[0] not in log_files(store), "the files to go")
        else:
            terminal.read_to("Ctrl-C")
            until(lambda: before[0] not in log_files(store), "the files to go")
            terminal.type("\x03")
            assert terminal.end() == 0, terminal.shown
    assert "broker prompt runs" in terminal.shown


def test_a_change_of_settings_asks(store: Path) -> None:
    """For a store at rest: what is not allowed is not written. After an allowed change, the next start need not ask."""
    before = log_files(store)
    file = StoreLayout.at(store).settings_toml
    for answer, code in (("n\n", 6), ("y\n", 0)):
        with Terminal("config", "set", "-s", str(store), "retention_hours=24") as terminal:
            terminal.read_to("Delete them? [y/N]:")
            terminal.type(answer)
            assert terminal.end() == code, terminal.shown
        assert ("retention_hours = 24" in file.read_text() if file.exists() else False) == (code == 0)
    assert log_files(store) == before
    assert run("up", "-s", str(store), "-n", NAME, "-d").returncode == 0
    until(lambda: before[0] not in log_files(store), "the files to go")


def test_nobody_at_the_terminal(store: Path) -> None:
    """A terminal to write to, and none to read from, or the other way round: nobody can answer."""
    before = log_files(store)
    asked = run("up", "-s", str(store), "-n", NAME, "-d", feed="y\n")
    assert asked.returncode == 6 and "--allow-deletion" in asked.stderr and "Delete them?" not in asked.stderr
    assert log_files(store) == before
    assert run("up", "-s", str(store), "-n", NAME, "-d", "--allow-deletion").returncode == 0
    until(lambda: before[0] not in log_files(store), "the files to go")
