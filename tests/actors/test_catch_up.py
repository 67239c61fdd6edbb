"""Goal: no client takes a queue for shorter than it is. Method: a real store whose queues are gone is started while its reput
is held back; and the start's wait is driven by hand over a reput that fails, or makes no progress."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.catch_up import CatchUp
from orbitmq.errors import BrokerNotRunning
from tests.trees import small_broker

MESSAGES = 1000


def test_queues_are_whole_when_the_broker_is_there(tmp_path: Path) -> None:
    """A tree is not announced before its reput has made the queues anew. What a program does first then is to look at their
    ends, and to continue where it was."""
    store, gate = tmp_path / "store", tmp_path / "gate"
    with small_broker(store) as broker:
        broker.create_topic("orders", 1)
        broker.producer().send_batch("orders", [b"body"] * MESSAGES)
        with broker.consumer("billing", ["orders"], start="earliest") as consumer:
            consumer.seek("orders", 0, MESSAGES - 2)
            consumer.commit()
    shutil.rmtree(store / "consumequeue")
    ours, theirs = socket.socketpair()
    content = {"store": str(store), "options": {"name": "gated"}, "allow_deletion": False}
    command = [sys.executable, str(Path(__file__).with_name("gated_supervisor.py")), str(gate), json.dumps(content)]
    with theirs:
        process = subprocess.Popen([*command, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    try:
        with ours, ours.makefile("rb") as lines:
            assert "made the queues anew up to 0 of" in json.loads(lines.readline())["progress"]
            with pytest.raises(BrokerNotRunning, match="still starting"):
                orbitmq.connect("gated", timeout=0).status()
            gate.touch()
            ready = next(line for line in map(json.loads, lines) if "progress" not in line)
            assert ready["ready"]["name"] == "gated"
            ours.sendall(b"\n")
        with orbitmq.connect("gated") as client, client.consumer(None, ["orders"]) as consumer:
            assert consumer.lag() == {("orders", 0): MESSAGES}
            consumer.seek("orders", 0, MESSAGES - 1)
            assert consumer.poll(30).offset == MESSAGES - 1
            with client.consumer("billing", ["orders"], start="earliest") as other:
                assert other.position() == {("orders", 0): MESSAGES - 2}, "the coordinator was there before its reput"
    finally:
        process.terminate()
        process.wait()


class Reput:
    """As much of a tree as the wait looks at."""

    def __init__(self, position: int = 0) -> None:
        self.reput = position
        self.error = 0

    def positions(self) -> Any:
        return SimpleNamespace(reput=self.reput)

    def page_error(self, _page: int) -> int:
        return self.error


def catch_up(reput: Reput, *, missing: int = 1, patience_s: float = 1e9) -> CatchUp:
    report: Any = SimpleNamespace(end=100, queues=[SimpleNamespace(max_offset=5, next_offset=5 + missing)])
    tree: Any = reput
    return CatchUp(tree, report, patience_s, lambda line: None)


def test_until_reput_is_there() -> None:
    reput = Reput()
    wait = catch_up(reput)
    assert wait.lasts() and wait.lasts()
    reput.reput = 100
    assert not wait.lasts() and not wait.given_up


def test_keys_alone_are_not_waited_for() -> None:
    assert not catch_up(Reput(), missing=0).lasts()


def test_a_reput_that_has_failed() -> None:
    reput = Reput()
    reput.error = 5
    assert not catch_up(reput).lasts()


def test_a_reput_that_gets_no_further() -> None:
    """The patience starts again with each step forward."""
    reput = Reput()
    wait = catch_up(reput, patience_s=0)
    for position in range(1, 50):
        reput.reput = position
        assert wait.lasts()
    while wait.lasts():
        pass
    assert wait.given_up


def test_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.actors.catch_up.SHOW_S", 0.0)
    lines: list[str] = []
    wait = catch_up(Reput(40))
    wait._show = lines.append
    while not lines:
        assert wait.lasts()
    assert lines[0] == "made the queues anew up to 40 of 100 bytes of the log"
