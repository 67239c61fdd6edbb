"""Goal: files that a broker was making when it died are no damage, and damaged ones are reported. Method: each state in which a
death at the beginning leaves orbitmq/commits/, taken in as the next start does, and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import commit_words, commits, config, positions
from orbitmq.store.group_memory import GroupMemory, Remembered
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.file_checks import check_commits

FIRST = "groups-1"  # written before groups-0 is


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    made = StoreLayout.at(tmp_path)
    made.make_folders()
    return made


def written(layout: StoreLayout, *members: str) -> GroupMemory:
    memory = GroupMemory(layout)
    assigned = {member: [["t", 0]] for member in members}
    vouched = config.offset_crcs(layout)
    group = {"offsets": [], "group": {"epoch": 1, "assigned": assigned}}
    memory.write(Remembered(1, positions.boot_id(), vouched, {"g": group}))
    return memory


def faults(layout: StoreLayout) -> list[str]:
    return [str(finding) for finding in check_commits(layout, clean=False)]


def nothing(layout: StoreLayout) -> None:
    (layout.commits / "0.1").touch()


def a_file_without_head(layout: StoreLayout) -> None:
    (layout.commits / "0.1").write_bytes(bytes(576))


def one_of_two(layout: StoreLayout) -> None:
    (layout.commits / "groups-0").touch()


def reserved(layout: StoreLayout) -> None:
    GroupMemory(layout).reserve(5000)
    commit_words.make(layout.commits / "0.1", 64)


def half_written(layout: StoreLayout) -> None:
    """The content without its head, which comes last."""
    written(layout, "0.1")
    path = layout.commits / FIRST
    path.write_bytes(bytes(24) + path.read_bytes()[24:])
    commit_words.make(layout.commits / "0.1", 64)


def another_member(layout: StoreLayout) -> None:
    written(layout, "0.1")
    commit_words.make(layout.commits / "0.1", 64)
    (layout.commits / "1.1").touch()


@pytest.mark.parametrize("begin", [nothing, a_file_without_head, one_of_two, reserved, half_written, another_member])
def test_what_a_death_at_the_beginning_leaves(layout: StoreLayout, begin: object) -> None:
    begin(layout)  # type: ignore[operator]
    assert faults(layout) == []
    assert commits.settle(layout) == commits.Settled()
    assert list(layout.commits.iterdir()) == []


def test_damage_is_told(layout: StoreLayout) -> None:
    written(layout, "0.1")
    commit_words.make(layout.commits / "0.1", 64)
    path = layout.commits / FIRST
    path.write_bytes(path.read_bytes()[:30] + b"rubbish" + path.read_bytes()[37:])
    assert "cannot be read" in faults(layout)[0]
    (note,) = commits.settle(layout).notes
    assert "groups-* cannot be read" in note.text and note.lost == "orbitmq/commits/groups-*"


@pytest.mark.parametrize("size", [None, 0, 32, 64])
def test_a_member_that_damaged_its_file(layout: StoreLayout, size: int | None) -> None:
    """Its own queues continue where they were written; size: what is left of the file."""
    written(layout, "0.1")
    if size is not None:
        commit_words.make(layout.commits / "0.1", 64)
        with (layout.commits / "0.1").open("r+b") as file:
            file.truncate(size)
    assert "lost" in faults(layout)[0] and len(faults(layout)) == 1
    settled = commits.settle(layout)
    assert settled.taken == 0 and "the commits of a member of g cannot be read" in settled.notes[0].text
    assert list(layout.commits.iterdir()) == []
