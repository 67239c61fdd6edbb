"""Goal: a CommitLog file is whole when it gets its name, and a log whose files do not fit is refused with the file's name.

Method: real files; a full disk is imitated by a file size limit of the process and by an error put into posix_fallocate.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from orbitmq.errors import CorruptRecord, StoreFailed, StoreFull, StoreSettingsError
from orbitmq.store import abort, positions
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.layout import StoreLayout

SIZE = 64 << 10


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def test_files_are_made_whole_and_listed(layout: StoreLayout) -> None:
    assert mapped_file.list_starts(layout, SIZE) == []
    for start in (2 * SIZE, SIZE, 3 * SIZE):
        path = mapped_file.allocate(layout, start, SIZE)
        assert path.name == f"{start:020d}" and path.stat().st_size == SIZE and path.stat().st_blocks * 512 >= SIZE
    assert mapped_file.list_starts(layout, SIZE) == [SIZE, 2 * SIZE, 3 * SIZE]
    assert list(layout.allocating.iterdir()) == []


def test_an_existing_file_is_left_alone(layout: StoreLayout) -> None:
    path = mapped_file.allocate(layout, 0, SIZE)
    path.write_bytes(b"x" * SIZE)
    assert mapped_file.allocate(layout, 0, SIZE).read_bytes() == b"x" * SIZE


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, StoreFull), (errno.EDQUOT, StoreFull), (errno.EIO, StoreFailed)])
def test_no_room(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]) -> None:
    def fail(descriptor: int, offset: int, length: int) -> None:
        os.pwrite(descriptor, b"half", 0)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(kind) as caught:
        mapped_file.allocate(layout, 0, SIZE)
    assert list(layout.allocating.iterdir()) == [] and list(layout.commitlog.iterdir()) == []
    if isinstance(caught.value, StoreFull):
        assert caught.value.need == SIZE and caught.value.free >= 0 and caught.value.mount


def test_a_name_whose_sync_failed_is_made_again(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt must not find the name, believe it, and announce a file that a power cut takes away."""
    synced: list[Path] = []

    def fail(folder: Path) -> None:
        synced.append(folder)
        if len(synced) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(mapped_file.atomic_file, "sync_folder", fail)
    with pytest.raises(StoreFailed):
        mapped_file.allocate(layout, 0, SIZE)
    assert list(layout.commitlog.iterdir()) == []
    assert mapped_file.allocate(layout, 0, SIZE).exists() and synced == [layout.commitlog] * 2


def test_the_allocator_makes_anew_what_was_not_announced(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its predecessor may have been killed before the file's name was on the disk, or because of it."""
    from types import SimpleNamespace

    from orbitmq.actors.allocator import Allocator
    from orbitmq.actors.trouble import Trouble

    left = mapped_file.allocate(layout, 0, SIZE).stat().st_ino
    announced: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "orbitmq.actors.allocator.lib", SimpleNamespace(control_set_allocated=lambda _, *end: announced.append(end))
    )
    actor = Allocator.__new__(Allocator)
    settings = SimpleNamespace(layout=layout, files=SimpleNamespace(log_file_size=SIZE), name="test")
    actor.tree = SimpleNamespace(settings=settings, control=None, positions=lambda: SimpleNamespace(allocated=0))  # type: ignore[assignment]
    holder = os.open(layout.log_file(0), os.O_RDONLY)  # so that its number is not given again
    actor._trouble = Trouble()
    actor.need()
    os.close(holder)
    assert announced == [(SIZE, 0)] and layout.log_file(0).stat().st_ino != left


@pytest.mark.parametrize("name", ["0" * 19, "0" * 21, "0" * 19 + "x", "notes.txt", "\u0660" * 20])
def test_foreign_names_are_refused(layout: StoreLayout, name: str) -> None:
    mapped_file.allocate(layout, 0, SIZE)
    (layout.commitlog / name).write_bytes(b"")
    with pytest.raises(StoreSettingsError) as caught:
        mapped_file.list_starts(layout, SIZE)
    assert name in caught.value.path


@pytest.mark.parametrize(("start", "size"), [(0, SIZE - 1), (0, 2 * SIZE), (SIZE // 2, SIZE)])
def test_other_sizes_and_places_are_refused(layout: StoreLayout, start: int, size: int) -> None:
    with layout.log_file(start).open("wb") as file:
        file.truncate(size)
    with pytest.raises(StoreSettingsError):
        mapped_file.list_starts(layout, SIZE)


def test_a_gap_is_refused(layout: StoreLayout) -> None:
    for start in (0, 3 * SIZE):
        mapped_file.allocate(layout, start, SIZE)
    with pytest.raises(CorruptRecord) as caught:
        mapped_file.list_starts(layout, SIZE)
    assert caught.value.offset == SIZE


def test_leftovers_go(layout: StoreLayout) -> None:
    (layout.allocating / f"{0:020d}").write_bytes(b"half")
    assert mapped_file.clear_leftovers(layout) == 1
    assert mapped_file.clear_leftovers(layout) == 0


def test_checkpoint_is_rocketmqs(layout: StoreLayout) -> None:
    assert Checkpoint.load(layout) == Checkpoint()
    written = Checkpoint(0x1A1FC02CA78, 0x1A1FC02CA70, 7)
    written.store(layout)
    content = layout.checkpoint.read_bytes()
    assert len(content) == 4096 and content[:24].hex() == "000001a1fc02ca78000001a1fc02ca700000000000000007"
    assert Checkpoint.load(layout) == written
    assert written.threshold_ms == 0x1A1FC02CA70 - 3000
    layout.checkpoint.write_bytes(b"short")
    assert Checkpoint.load(layout) == Checkpoint()


def test_abort(layout: StoreLayout) -> None:
    assert not abort.exists(layout)
    abort.create(layout)
    assert abort.exists(layout) and abort.boot(layout) == positions.boot_id()
    abort.remove(layout)
    abort.remove(layout)
    assert not abort.exists(layout)
