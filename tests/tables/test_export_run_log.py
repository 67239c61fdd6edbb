"""Goal: a run reads a checkpoint and few manifests, and finds what all manifests say, whatever has become of the checkpoint.
Method: a log of random runs beside the plain sum of them; damage at each byte; exports over manifests that cannot be read.
Kills at each step: test_export_kills.py."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import ExportDamaged
from orbitmq.store import atomic_file
from orbitmq.tables.export import checkpoint, run_log
from orbitmq.tables.export.folder import OWN
from orbitmq.tables.export.manifest import COMPLETE, End, ExportFile, Gap, Mark, Range, Run
from orbitmq.tables.export.run_log import RunLog
from orbitmq.tables.export.state import State
from tests.tables.exporting import add, days_of_messages, export_here, seen

TOPICS = ["a", "b", "ü%"]


def run_of(number: int, topics: list[str], replaces: list[str]) -> Run:
    ends = {topic: {number % 3: End(number, Mark(number, 7) if number % 2 else None)} for topic in topics}
    gaps = tuple(Gap(topic, 0, number, number + 1, 1) for topic in topics if number % 4 == 0)
    files = tuple(ExportFile(f"{topic}/{number}", topic, 5, 9, (Range(0, number, number + 5, 5),)) for topic in topics)
    return Run(number, COMPLETE, "", "/s", ("day",), ("value",), tuple(replaces), "", ends, gaps, files)


def told(state: State) -> tuple[object, ...]:
    return state.run, state.ends, state.gaps, state.files


def made(folder: Path, count: int) -> tuple[RunLog, list[Run]]:
    log, runs = RunLog(folder), [run_of(number, TOPICS[: 1 + number % 3], []) for number in range(1, count + 1)]
    log.make()
    for run in runs:
        log.put(run)
    return log, runs


STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(TOPICS), unique=True),
        st.just([]) | st.lists(st.sampled_from(TOPICS), unique=True),
        st.sampled_from(["", "", "", "flip", "cut", "remove", "old", "newer version", "drop"]),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(STEPS, st.integers(1, 4), st.randoms())
def test_the_sum_is_that_of_all_manifests(steps: list[tuple[list[str], list[str], str]], every: int, chance: object) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_log, "EVERY", every)
        patch.setattr(run_log, "_logger", logging.getLogger("nobody's"))
        log, path = RunLog(Path(name)), Path(name, "checkpoint")
        log.make()
        runs: list[Run] = []
        every_run: list[Run] = []
        olds = [b""]
        for number, (topics, replaces, fate) in enumerate(steps, 1):
            runs.append(run_of(number, topics, replaces))
            every_run.append(runs[-1])
            log.put(runs[-1])
            if fate == "drop":  # as an export does with runs of which nothing is left
                for void in [run for run in runs if runs[-1].voids(run)]:
                    log.drop(void)
                    runs.remove(void)
                assert told(log.state()) == told(State.of(every_run))
            log.clean(log.state())
            content = path.read_bytes() if path.exists() else b""
            olds.append(content)
            if content and fate == "flip":
                at = chance.randrange(len(content))  # type: ignore[attr-defined]
                path.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :])  # type: ignore[attr-defined]
            elif content and fate == "cut":
                path.write_bytes(content[: chance.randrange(len(content))])  # type: ignore[attr-defined]
            elif content and fate == "newer version":
                path.write_bytes(content.replace(b'{"version":1', b'{"version":2', 1))
            elif fate == "old":
                path.write_bytes(chance.choice(olds))  # type: ignore[attr-defined]
            elif fate == "remove":
                path.unlink(missing_ok=True)
            assert told(log.state()) == told(State.of(every_run))
            assert log.all() == runs


def test_damage_at_each_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It is noticed, told, and mended by the next run."""
    monkeypatch.setattr(run_log, "EVERY", 3)
    log, runs = made(tmp_path, 3)
    log.clean(log.state())
    path = tmp_path / "checkpoint"
    content = path.read_bytes()
    assert log.state().since == [] and not caplog.records
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        caplog.clear()
        state = log.state()
        assert state.base is None and told(state) == told(State.of(runs)), at
        assert "the manifests of all runs are read instead" in caplog.text
    log.clean(state)
    assert path.read_bytes() == content


def test_a_manifest_that_has_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because an older copy of the manifests was brought back, and other runs have followed."""
    monkeypatch.setattr(run_log, "EVERY", 3)
    log, runs = made(tmp_path, 3)
    log.clean(log.state())
    runs[-1] = replace(runs[-1], began="another time")
    log.put(runs[-1])
    assert told(log.state()) == told(State.of(runs))


def test_manifests_before_the_checkpoint_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are its files parsed by a run that only adds. Without it they are read, and each message is still there once."""
    monkeypatch.setattr(run_log, "EVERY", 3)
    stored, out = days_of_messages(tmp_path / "store"), tmp_path / "out"
    for _ in range(4):  # the fourth finds three manifests
        export_here(stored.root, out)
        add(stored, 20)
    hidden = [out / OWN / "runs" / f"{number:06d}.json" for number in (1, 2)]
    contents = [path.read_bytes() for path in hidden]
    for path in hidden:
        path.write_bytes(b"not to be read")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_files", lambda rest: pytest.fail("it parses them"))
        assert export_here(stored.root, out).rows == 20
    assert seen(out) == sorted(row[:4] for row in stored.rows)
    (out / OWN / "checkpoint").unlink()
    with pytest.raises(ExportDamaged, match="000001"):
        export_here(stored.root, out)
    for path, content in zip(hidden, contents, strict=True):
        path.write_bytes(content)
    add(stored, 20)
    assert export_here(stored.root, out).rows == 20
    assert seen(out) == sorted(row[:4] for row in stored.rows)


def test_full_takes_out_the_files_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "EVERY", 1)
    stored, out = days_of_messages(tmp_path / "store"), tmp_path / "out"
    for _ in range(3):
        export_here(stored.root, out)
        add(stored, 20)
    for topics in (["a"], []):
        export_here(stored.root, out, *topics, full=True)
        export_here(stored.root, out)
        assert seen(out) == sorted(row[:4] for row in stored.rows)


def test_a_disk_that_takes_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without."""
    monkeypatch.setattr(run_log, "EVERY", 2)
    log, runs = made(tmp_path, 2)

    def full(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "write_synced", full)
        log.clean(log.state())
    assert told(log.state()) == told(State.of(runs)) and not (tmp_path / "checkpoint").exists()
    log.clean(log.state())
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "checkpoint"}
