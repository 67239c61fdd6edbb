"""Goal: the note of offsets that are committed with atomic batches is read back, and damage says nothing instead of something
wrong. Method: files that are whole, damaged and missing."""

from __future__ import annotations

from pathlib import Path

from orbitmq.store import group_commits
from orbitmq.store.group_commits import GroupCommits
from orbitmq.store.layout import StoreLayout

NOTED = GroupCommits(17, (1, 2, 3, (1 << 64) - 1, 5, 1 << 47))


def test_a_file_is_read_back(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.make_folders()
    assert group_commits.load(layout) == GroupCommits()
    for each in (NOTED, GroupCommits(4, ())):
        group_commits.store(layout, each)
        assert group_commits.load(layout) == each


def test_damage_is_noticed(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.make_folders()
    content = group_commits.packed(NOTED)
    for at in range(len(content)):
        layout.group_commits.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert group_commits.load(layout) == GroupCommits()
        layout.group_commits.write_bytes(content[:at])
        assert group_commits.load(layout) == GroupCommits()
