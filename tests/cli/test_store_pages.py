"""Goal: docs/move-a-store.md and docs/resize-files.md do what they say. Method: their commands and their program are run, as
printed but for the folders, on a store with messages, a group and a delayed message."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.cli.commands import SMALL, environment, run
from tests.sources import ROOT
from tests.waiting import until

MOVE = (ROOT / "docs" / "move-a-store.md").read_text()
RESIZE = (ROOT / "docs" / "resize-files.md").read_text()
COUNT = 30


def commands(page: str) -> list[list[str]]:
    """The commands of a page, one after the other."""
    return [shlex.split(line) for line in re.findall(r"^ +orbitmq (.*)$", page, re.MULTILINE)]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a running store, whose group has read a third."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))  # the broker's name is "default"
    (tmp_path / "run").mkdir()
    folder = tmp_path / "data"
    carry_out(["up", "--store", str(folder), "--detach", *SMALL])
    with orbitmq.connect() as client:
        client.create_topic("orders", 2)
        with client.producer() as producer:
            for number in range(COUNT):
                named = {"tags": f"t{number}", "keys": [f"k{number}"], "properties": {"n": str(number)}}
                producer.send("orders", b"%d" % number, queue=number % 2, durability="flushed", **named)
            producer.send("orders", b"later", delay=3600)
        with client.consumer("billing", ["orders"], start="earliest") as consumer:
            got = 0
            while got < COUNT // 3:
                got += len(consumer.poll_batch(COUNT // 3 - got, timeout=10.0))
            consumer.commit()
    yield folder
    for name in ("default", "resized"):
        run("down", "--name", name)


def carry_out(command: list[str]) -> None:
    done = run(*command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_a_store_moves(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "elsewhere"
    carry_out(["backup", str(new), "--store", str(old)])  # once before, for a short pause
    assert [each[0] for each in commands(MOVE)] == ["down", "backup", "verify", "up"]
    for command in commands(MOVE):
        carry_out([{"/old/data": str(old), "/new/data": str(new)}.get(word, word) for word in command])
    with orbitmq.connect() as client:
        assert client.status().store == str(new)
        assert client.group("billing").lag_messages == COUNT - COUNT // 3
        until(lambda: [each.body for each in client.delayed()] == [b"later"], "the delayed message")
        assert sum(each.max_offset for each in client.topic("orders").queues) == COUNT


def test_files_are_resized(old: Path, tmp_path: Path) -> None:
    """With the old messages, and at the end under the old name."""
    begin, create, *rest = commands(RESIZE)
    for command in (begin, create):
        carry_out([str(tmp_path / "resized") if word == "./resized" else word for word in command])
    [program] = re.findall(r"```python\n(.*?)```", RESIZE, re.DOTALL)
    subprocess.run([sys.executable, "-c", program, "default", "resized", "orders"], check=True, env=environment())
    assert run("group", "list").returncode == run("delay", "list").returncode == 0
    assert [each[0] for each in rest] == ["down", "down", "up"]
    for command in rest:
        carry_out([str(tmp_path / "resized") if word == "./resized" else word for word in command])
    with orbitmq.connect() as client, client.consumer("billing", ["orders"], start="earliest") as consumer:
        found = []
        while len(found) < COUNT:
            found += [
                (each.queue, bytes(each), each.tags, list(each.keys), each.user_properties)
                for each in consumer.poll_batch(COUNT, timeout=10.0)
            ]
        for queue in range(2):
            assert [each for each in found if each[0] == queue] == [
                (queue, b"%d" % number, f"t{number}", [f"k{number}"], {"n": str(number)}) for number in range(queue, COUNT, 2)
            ]
        assert client.status().store == str(tmp_path / "resized")
    sizes = {path.stat().st_size for path in (tmp_path / "resized" / "commitlog").iterdir()}
    assert sizes == {64 << 20}
