"""Goal: a runtime folder is open to a group for as long as a broker there is let to it, and no longer."""

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
