"""Goal: a backup goes only where nothing else can be lost. Method: every kind of folder that may be there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import StoreError, StoreFull, StoreLocked, StoreUnsupported
from orbitmq.store.backup import backup_place, file_copy
from orbitmq.store.backup.backup import back_up
from orbitmq.store.backup.backup_place import BackupPlace
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock
from tests.store.stored_by_broker import Stored


def test_an_empty_folder_is_taken(stored: Stored, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    back_up(stored.layout, tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup"]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("store", "the store itself"),
        ("store/backup", "it lies in the store"),
        (".", "lies in it"),
        ("else", "is no backup"),
        ("file", "is no backup"),
        ("missing/backup", "there is no folder"),
        ("backup.partial", "are for backups that are being made"),
        ("taken", "is not an unfinished backup"),
    ],
)
def test_refused(tmp_path: Path, stored: Stored, place: str, why: str) -> None:
    """Nothing is changed."""
    source = tmp_path / "store"
    source.symlink_to(stored.layout.root)
    layout = stored.layout
    if place == ".":
        target = layout.root.parent
    elif place.startswith("store"):
        target = layout.root / Path(place).relative_to("store")
    else:
        target = tmp_path / place
    (tmp_path / "else").mkdir()
    for path in (tmp_path / "else" / "letter", tmp_path / "file"):
        path.write_text("dear")
    (tmp_path / "taken.partial").mkdir()
    (tmp_path / "taken.partial" / "letter").write_text("dear")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreUnsupported, match=why):
        back_up(layout, target)
    assert sorted(tmp_path.rglob("*")) == before
    assert {path for path in layout.root.rglob("*") if path.is_file()} == set(stored.files)


def test_a_backup_of_another_store(stored: Stored, tmp_path: Path) -> None:
    back_up(stored.layout, tmp_path / "one")
    back_up(StoreLayout.at(tmp_path / "one"), tmp_path / "two")
    with pytest.raises(StoreUnsupported, match="it holds a backup of "):
        back_up(stored.layout, tmp_path / "two")


def test_two_at_once(stored: Stored, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with BackupPlace.take(stored.layout, target), pytest.raises(StoreLocked):
        back_up(stored.layout, target)
    back_up(stored.layout, target)
    lock = StoreLock.acquire(StoreLayout.at(target), "somebody")
    with pytest.raises(StoreLocked):
        back_up(stored.layout, target)
    lock.release()
    back_up(stored.layout, target)


def test_names_cannot_be_exchanged(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last backup stays."""
    back_up(stored.layout, tmp_path / "backup")
    inode = (tmp_path / "backup").stat().st_ino

    def refuse(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(backup_place.atomic_file, "exchange", refuse)
    with pytest.raises(StoreUnsupported, match="in the place of"):
        back_up(stored.layout, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_ino == inode and not (tmp_path / "backup.partial").exists()


def test_a_full_disk(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last backup stays, and what was begun gives its room back."""
    back_up(stored.layout, tmp_path / "backup")
    copied = []

    def full(source: Path, target: Path, done: file_copy.Copied, *, reserve: bool) -> bool:
        copied.append(target.write_bytes(b"begun"))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_copy, "copy", full)
    with pytest.raises(StoreFull) as caught:
        back_up(stored.layout, tmp_path / "backup")
    assert copied and isinstance(caught.value, StoreError) and caught.value.need
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup"]
