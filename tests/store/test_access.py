"""Goal: a store is private to its user, or may be read by one group; and modes that somebody else has chosen stay. Method: the
function that lets a group in, on small stores, also after a predecessor that died half-way."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store import access, atomic_file
from orbitmq.store.layout import StoreLayout

GROUP, OTHER = os.getegid(), 1
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to any group")


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[StoreLayout]:
    """A store as a broker makes it, with a file in each kind of place."""
    before = os.umask(access.PRIVATE_UMASK)
    made = StoreLayout.at(tmp_path / "store")
    made.open(made.settings())
    fill(made, "first")
    yield made
    os.umask(before)


def fill(layout: StoreLayout, name: str) -> None:
    folder = layout.queue_folder(name, 0)
    folder.mkdir(parents=True)
    (folder / "0").touch()
    atomic_file.replace(layout.checkpoint, b"x")
    atomic_file.replace(layout.config / f"{name}.json", b"{}")


def modes(layout: StoreLayout) -> set[tuple[bool, int, int]]:
    """(is a folder, mode, group or -1 if it does not count) of everything in the store."""
    found = set()
    for path in (layout.root, *layout.root.rglob("*")):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        found.add((path.is_dir(), mode, status.st_gid if mode & 0o070 else -1))
    return found


def shut() -> set[tuple[bool, int, int]]:
    return {(True, 0o700, -1), (False, 0o600, -1)}


def let_to(group: int) -> set[tuple[bool, int, int]]:
    return {(True, 0o2750, group), (False, 0o640, group)}


def test_nobody_is_let_in_unasked(layout: StoreLayout) -> None:
    access.let(layout, None)
    assert modes(layout) == shut()


def test_a_group_comes_and_goes(layout: StoreLayout) -> None:
    """What is made while the group is let in belongs to the group as well."""
    access.let(layout, GROUP)
    assert modes(layout) == let_to(GROUP)
    os.umask(access.GROUP_UMASK)
    fill(layout, "second")
    assert modes(layout) == let_to(GROUP)
    access.let(layout, GROUP)
    os.umask(access.PRIVATE_UMASK)
    access.let(layout, None)
    assert {(folder, mode & ~0o2000, group) for folder, mode, group in modes(layout)} == shut()


@needs_root
def test_one_group_after_another(layout: StoreLayout) -> None:
    access.let(layout, GROUP)
    access.let(layout, OTHER)
    assert modes(layout) == let_to(OTHER)


@pytest.mark.parametrize("after", [None, GROUP])
@pytest.mark.parametrize("doing", [None, GROUP])
def test_a_start_that_died_half_way(
    layout: StoreLayout, doing: int | None, after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: every number of changed modes after which it can die."""
    change, left = access._Entry.change, 0

    def dying(entry: access._Entry, group: int, mode: int) -> None:
        nonlocal left
        if left == 0:
            raise InterruptedError
        left -= 1
        change(entry, group, mode)

    deaths = 0
    while True:
        access.let(layout, None if doing is not None else GROUP)
        left = deaths
        with monkeypatch.context() as patch:
            patch.setattr(access._Entry, "change", dying)
            try:
                access.let(layout, doing)
                break
            except InterruptedError:
                deaths += 1
        access.let(layout, after)
        wanted = let_to(GROUP) if after is not None else shut()
        assert {(folder, mode & 0o777, group) for folder, mode, group in modes(layout)} == {
            (folder, mode & 0o777, group) for folder, mode, group in wanted
        }
    assert deaths > 10


@needs_root
def test_modes_that_somebody_chose_stay(tmp_path: Path) -> None:
    """A store as RocketMQ makes it, under the umasks that are usual."""
    before = os.umask(0o022)
    layout = StoreLayout.at(tmp_path)
    tmp_path.chmod(0o755)
    for folder in (layout.commitlog, layout.consumequeue):
        folder.mkdir()
        (folder / "x").touch()
    (layout.consumequeue / "x").chmod(0o664)
    layout.checkpoint.touch()
    chosen = {path: path.stat().st_mode for path in (tmp_path, *tmp_path.rglob("*"))}
    os.umask(access.PRIVATE_UMASK)
    layout.open(layout.settings(log_file_size=1 << 20, queue_file_units=10))
    for group in (OTHER, None, OTHER, GROUP, None):
        access.let(layout, group)
        assert {path: path.stat().st_mode for path in chosen} == chosen
        assert {path.stat().st_gid for path in chosen} == {os.getegid()}
        assert bool(layout.own.stat().st_mode & 0o050) == (group is not None)
    os.umask(before)


@needs_root
def test_links_lead_nowhere(layout: StoreLayout, tmp_path: Path) -> None:
    """Goal: a user who may make names in a store folder cannot make the broker open other files of its user."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(mode=0o600)
    (layout.config / "soft").symlink_to(elsewhere)
    (layout.config / "hard").hardlink_to(elsewhere)
    os.mkfifo(layout.config / "pipe", 0o600)
    access.let(layout, OTHER)
    for path in (elsewhere, layout.config / "pipe"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert elsewhere.stat().st_gid == GROUP
