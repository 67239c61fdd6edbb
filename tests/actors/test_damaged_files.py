"""Goal: if a start could not read a small file, the log, `orbitmq status` and its --json name the file and what replaces it.
Method: files of a stopped store are damaged one at a time, and a broker is started on it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from orbitmq.store import config, positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.fallbacks import fallbacks
from tests.trees import indexed, kill, small_broker
from tests.waiting import until


def stored(root: Path) -> StoreLayout:
    """A store with a topic and a group, each of whose files has a .bak."""
    for at in (3, 7):
        with small_broker(root) as broker:
            broker.create_topic("t", at)
            broker.producer().send_batch("t", [b"x"] * 10, queue=0)
            indexed(broker)
            with broker.consumer(f"g{at}", ["t"]) as consumer:
                consumer.seek("t", 0, at)
                consumer.commit()
    return StoreLayout.at(root)


def status(*arguments: str) -> tuple[int, str]:
    """The exit code of `orbitmq status`, and its output."""
    command = [sys.executable, "-m", "orbitmq.cli", "status", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("damage", ["torn", "empty", "missing"])
def test_told_in_the_log_and_in_status(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """consumerOffset.json, of which a .bak is left: groups may go back, and status says so."""
    path = stored(tmp_path).config / config.OFFSETS
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:30] if damage == "torn" else b"")
    caplog.clear()
    with small_broker(tmp_path) as broker:
        (note,) = broker.status().notes
        assert note.startswith(f"{path} ") and "consumerOffset.json.bak was read instead" in note
        until(lambda: note in caplog.text, "the line in the log")
        code, told = status("--json", "--name", broker.name)
        assert json.loads(told)["notes"] == [note] and code == 4
        code, told = status("--name", broker.name)
        assert told.startswith("health degraded: config/consumerOffset.json could not be read") and "note" in told and code == 4
        # A later coordinator reports it too, though the file is intact again by then.
        with broker.consumer("g3", ["t"]) as consumer:
            consumer.commit()
        kill(broker, "coordinator")
        assert broker.status().notes == (note,) and broker.status().health.state == "degraded"
    with small_broker(tmp_path) as broker:
        assert broker.status().notes == () and broker.status().health.state == "ok"


def test_damaged_while_the_broker_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next coordinator is the first to read it."""
    layout = stored(tmp_path)
    with small_broker(tmp_path) as broker:
        assert broker.status().notes == ()
        path = layout.config / config.TOPICS
        path.write_bytes(b"{")
        kill(broker, "coordinator")
        (note,) = until(lambda: broker.status().notes, "the note")
        assert note.startswith(f"{path} cannot be read")
        assert "config/topics.json" in str(broker.status().health)
        until(lambda: note in caplog.text, "the line in the log")


def test_every_small_file(tmp_path: Path) -> None:
    layout = stored(tmp_path)
    assert fallbacks(layout) == ()
    (layout.config / "consumerFilter.json").write_bytes(b"{")
    (layout.config / config.GROUPS).write_bytes(b"[]")
    content = layout.positions.read_bytes()
    at = positions.SLOTS[0]
    layout.positions.write_bytes(content[: at + 9] + bytes([content[at + 9] ^ 1]) + content[at + 10 :])
    for path in (layout.checkpoint, layout.reput, layout.rising):
        assert path.exists()
        path.write_bytes(b"\1" * 20)
    layout.delayed.write_bytes(b"\1" * 168)
    (layout.own / "group").write_bytes(b"\xff")
    notes = fallbacks(layout)
    named = [note.text.partition(" cannot")[0].partition(" has ")[0] for note in notes]
    assert [note.lost for note in notes if note.lost] == [f"config/{config.GROUPS}"], "the rest costs time, or nothing"
    assert named[0] == str(layout.config / config.GROUPS)
    others = [Path(each.rpartition(" ")[2]).name for each in named[1:]]
    assert others == ["consumerFilter.json", "older", "checkpoint", "reput", "rising", "delayed", "group"]
    layout.positions.write_bytes(b"\1" * 4096)
    (unknown,) = [note for note in fallbacks(layout) if f"{layout.positions} cannot be read" in note.text]
    assert unknown.lost == "orbitmq/positions"


def test_a_damaged_file_never_takes_the_place_of_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while the file is replaced: one of the two can be read."""

    class Cut(BaseException):
        pass

    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    config.store_offsets(layout, {("t", "g"): {0: 1}})
    config.store_offsets(layout, {("t", "g"): {0: 2}})
    (layout.config / config.OFFSETS).write_bytes(b"{")

    def cut(name: str) -> None:
        if name == "config_backed_up":
            raise Cut

    with monkeypatch.context() as patched:
        patched.setattr("orbitmq.store.config.crash_point", cut)
        with suppress(Cut):
            config.store_offsets(layout, {("t", "g"): {0: 3}})
    assert config.load_offsets(layout) in ({("t", "g"): {0: 1}}, {("t", "g"): {0: 3}})
    config.store_offsets(layout, {("t", "g"): {0: 4}})
    assert config.load_offsets(layout) == {("t", "g"): {0: 4}}
