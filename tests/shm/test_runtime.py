"""Goal: a runtime folder is open to a group only as long as a broker there is open to it; a folder that its maker has opened to
everybody stays so; and nobody but its owner can keep a broker from its name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.shm import runtime


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_a_folder_once_let_to_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(folder))
    group = os.getgid()
    assert runtime.make_runtime_folder(group) == folder and mode(folder) == 0o750
    ticks = runtime.start_ticks(os.getpid())
    assert ticks is not None
    runtime.write_description(runtime.Description("lives", os.getpid(), ticks, "store", 1, "0"), group)
    runtime.make_runtime_folder(None)
    assert mode(folder) == 0o750, "a broker is let to the group"
    with pytest.raises(errors.SettingError, match="let to the group"):
        runtime.make_runtime_folder(group + 1)
    runtime.write_description(runtime.Description("lives", os.getpid(), ticks + 1, "store", 1, "0"), group)
    runtime.make_runtime_folder(None)
    assert mode(folder) == 0o700, "it died"


def test_a_folder_that_a_service_manager_has_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd's RuntimeDirectory= makes it with mode 0755. A folder in which somebody else could write is refused."""
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(folder))
    for group in (None, os.getgid(), None):
        assert runtime.make_runtime_folder(group) == runtime.runtime_folder() == folder
        assert mode(folder) == 0o755
    for refused in (0o775, 0o757, 0o777, 0o1777, 0o720):
        folder.chmod(refused)
        with pytest.raises(errors.SettingError, match=f"where nobody but its owner may write .mode {refused:04o}"):
            runtime.make_runtime_folder(None)
        assert mode(folder) == refused


@pytest.mark.parametrize("content", ["", "[]", "5", "{}", '"x"', '{"name": "x"}', "[" * 100_000])
def test_a_description_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """Whatever lies in its place, a broker that is looked for is simply not there."""
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path))
    runtime.description_path("x").write_text(content)
    assert runtime.read_description("x") is None
