"""Goal: either a tree comes up and its starter has reported it, or there is none: killing `orbitmq up --detach` on its way
leaves nothing.

Method: the command itself, in a process that kills itself at a point of the start: when the supervisor has just been made, when
it hears that the tree runs, in the middle of the report, and after it. Of actors/supervisor/recovery.py,
client/broker/launch.py and cli/tree.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.actors.supervisor.supervisor import main
from orbitmq.shm import runtime
from orbitmq.store import broker_file
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import is_held
from tests.waiting import WATCHDOG_S, dead, until

NAME = "struck"
# Notes the supervisor as soon as there is one, and strikes at the point.
STRUCK = """
import os, signal, sys
from orbitmq.cli import tree
from orbitmq.client.broker import launch

point, number, note, *arguments = sys.argv[1:]

def strike(here):
    if here == point:
        os.kill(os.getpid(), int(number))

class Supervisor(launch.Supervisor):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        with open(note, "w") as file:
            file.write(f"{self.pid}")
        strike("made")

class Started(launch.Started):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        strike("heard")

class Out:
    def __init__(self, real):
        self.real = real
    def print(self, text):
        if "stop  " in text:
            strike("telling")
        self.real.print(text)

def start_tree(*arguments, **options):
    started = real_start_tree(*arguments, **options)
    strike("told")
    return started

real_start_tree = tree.start_tree
launch.Supervisor = Supervisor
launch.Started = Started
tree.out, tree.start_tree = Out(tree.out), start_tree
sys.argv = ["orbitmq", *arguments]
from orbitmq.cli.main import main
main()
"""
SMALL = ["log_file_size=1048576", "index_slots=1000", "index_entries=4000", "queue_file_units=1000", "handlers=1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = Path(os.environ["XDG_RUNTIME_DIR"], tmp_path.name[-20:])
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(made))
    yield made
    layout = StoreLayout.at(tmp_path / "store")
    found = broker_file.read(layout)
    if found is not None and runtime.lives(found):
        os.kill(found.pid, signal.SIGKILL)


def struck(tmp_path: Path, point: str, number: int) -> tuple[int, int, str]:
    """(how the command ended, the supervisor, what was printed)."""
    note = tmp_path / "supervisor"
    sizes = [part for each in SMALL for part in ("--set", each)]
    command = [sys.executable, "-c", STRUCK, point, str(int(number)), str(note)]
    done = subprocess.run(
        [*command, "up", "--store", str(tmp_path / "store"), "--name", NAME, "--detach", *sizes],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=WATCHDOG_S * 2,
    )
    return done.returncode, int(note.read_text()), done.stdout


def nothing_is_left(tmp_path: Path, folder: Path, supervisor: int) -> None:
    until(lambda: dead(supervisor), "the end of the supervisor")
    layout = StoreLayout.at(tmp_path / "store")
    until(lambda: not layout.lock.exists() or not is_held(layout), "the end of its processes")
    assert not layout.broker_json.exists() and not layout.tree_json.exists()
    left = {path.name for path in folder.iterdir()} - {f"{NAME}.log"} if folder.exists() else set()
    assert not left


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("point", ["made", "heard", "telling"])
def test_a_starter_that_dies_before_it_has_told(tmp_path: Path, folder: Path, point: str, number: int) -> None:
    code, supervisor, told = struck(tmp_path, point, number)
    assert code != 0 and "stop  " not in told
    nothing_is_left(tmp_path, folder, supervisor)
    with orbitmq.Broker(tmp_path / "store", name=NAME) as broker:
        assert broker.status().state == "running"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_starter_that_dies_when_it_has_told(tmp_path: Path, folder: Path, number: int) -> None:
    """The tree is there, and can be found."""
    code, supervisor, told = struck(tmp_path, "told", number)
    assert code != 0 and "orbitmq down --name struck" in told
    with orbitmq.connect(NAME) as client:
        assert client.status().pid == supervisor and client.status().state == "running"
        client.stop_broker()
    nothing_is_left(tmp_path, folder, supervisor)


def test_a_starter_that_dies_while_the_store_is_recovered(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: a supervisor in a fork of this process, whose recovery never ends by itself."""
    begun = tmp_path / "begun"
    ours, theirs = socket.socketpair()

    def recover(*_: object, **__: object) -> None:
        begun.touch()
        signal.pause()

    monkeypatch.setattr("orbitmq.actors.supervisor.recovery.recover", recover)
    supervisor = os.fork()
    if supervisor == 0:
        code = 1
        with suppress(BaseException):
            ours.close()
            options = {"name": NAME, **{name: int(value) for name, _, value in (each.partition("=") for each in SMALL)}}
            content = {"store": str(tmp_path / "store"), "options": options, "allow_deletion": False}
            code = main([json.dumps(content), str(theirs.detach())])
        os._exit(code)
    theirs.close()
    until(begun.exists, "the recovery to begin")
    layout = StoreLayout.at(tmp_path / "store")
    assert is_held(layout)
    ours.close()
    assert os.waitpid(supervisor, 0)[1] == 0
    nothing_is_left(tmp_path, folder, supervisor)


def test_a_reader_that_has_had_enough(tmp_path: Path, folder: Path) -> None:
    """`orbitmq up --detach | head -1`: the reader was told, and the tree stays."""
    reader, writer = os.pipe()
    os.close(reader)
    sizes = [part for each in SMALL for part in ("--set", each)]
    command = [sys.executable, "-m", "orbitmq.cli.main", "up", "--store", str(tmp_path / "store"), "--name", NAME, "--detach"]
    subprocess.run([*command, *sizes], stdout=writer, check=False, timeout=WATCHDOG_S * 2)
    os.close(writer)
    with orbitmq.connect(NAME) as client:
        supervisor = client.status().pid
        client.stop_broker()
    nothing_is_left(tmp_path, folder, supervisor)
