"""Goal: folders in memory take no more than the machine can spare. Method: a file that is too large, and a full machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import memory


def test_a_large_file_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "LARGEST", 1 << 20)
    with memory.folder_in_memory(lambda: tmp_path) as folder:
        (folder / "small").write_bytes(bytes(1 << 20))
        with (folder / "sparse").open("wb") as file:
            file.truncate(1 << 30)
    with (
        pytest.raises(AssertionError, match=r"too large for memory.*large"),
        memory.folder_in_memory(lambda: tmp_path) as folder,
    ):
        (folder / "large").write_bytes(bytes((1 << 20) + 1))
    assert not folder.exists()


@pytest.mark.parametrize("full", ["shared_memory_free", "memory_free"])
def test_a_full_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: str) -> None:
    assert memory.memory_free() > 1 << 20
    monkeypatch.setattr(memory, full, lambda: memory.ROOM - 1)
    with memory.folder_in_memory(lambda: tmp_path) as folder:
        assert folder == tmp_path
