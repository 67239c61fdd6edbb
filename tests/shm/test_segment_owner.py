"""Goal: a segment is removed if the tree that made it is known to be dead, or if it is the store's own, and never otherwise: a
living tree would suffer. Method: segments with owners of every kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import lib
from orbitmq.shm import segment_owner
from orbitmq.shm.file_id import FileId
from orbitmq.shm.segment import MOUNT, SegmentKind, create_segment, segment_name
from orbitmq.shm.segment_owner import SegmentOwner, owner_of, remove_dead

GENERATION = os.getpid() << 8 & 0xFFFFFFFF | 0x3E
NAME = segment_name(GENERATION, "c-tl")  # other brokers, started at this moment, do not take it for a segment
NOBODY = 1 << 22  # more than any pid


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_owner, "_NAME", re.compile(re.escape(NAME)))


@pytest.fixture
def locks(tmp_path: Path) -> tuple[FileId, FileId]:
    """Ours, and another store's."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.touch()
    theirs.touch()
    return FileId.of(ours), FileId.of(theirs)


@pytest.fixture
def made() -> Iterator[list[Any]]:
    segments: list[Any] = []
    yield segments
    (MOUNT / NAME).unlink(missing_ok=True)


def segment(made: list[Any], owner: SegmentOwner | None, *, whole: bool = True) -> Any:
    """whole: with its magic; a tree that died while it made the segment leaves none."""
    made.append(create_segment(NAME, 4096, sign=owner.sign if owner else None))
    if whole:
        lib.segment_init(made[-1].pointer, SegmentKind.CONTROL, 4096, GENERATION)
    return made[-1]


def owners(ours: FileId, theirs: FileId) -> dict[str, SegmentOwner | None]:
    here = SegmentOwner.here(theirs)
    return {
        "living stranger": here,
        "dead stranger": SegmentOwner(NOBODY, here.namespace, 1, theirs),
        "a later process of the number": SegmentOwner(here.pid, here.namespace, here.start_ticks + 1, theirs),
        "stranger of another namespace": SegmentOwner(NOBODY, here.namespace - 1, 1, theirs),
        "our dead": SegmentOwner(NOBODY, here.namespace, 1, ours),
        "ours, as if alive": SegmentOwner.here(ours),
        "nobody": None,
    }


# Whether the segment goes if a file of the store names its generation, and if none does.
FATE = {
    "living stranger": (False, False),
    "dead stranger": (True, True),  # its store may be gone
    "a later process of the number": (True, True),
    "stranger of another namespace": (False, False),
    "our dead": (True, True),
    "ours, as if alive": (True, True),  # the caller holds the lock: no tree of the store lives
    "nobody": (True, False),  # only believed of a file that is the store's own
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", FATE)
def test_whose_segments_go(locks: tuple[FileId, FileId], made: list[Any], kind: str, named: bool, whole: bool) -> None:
    owner = owners(*locks)[kind]
    segment(made, owner, whole=whole)
    assert owner_of(NAME) == owner
    removed = remove_dead(locks[0], GENERATION if named else None, is_own=True)
    assert (NAME in removed) is FATE[kind][not named] is not (MOUNT / NAME).exists()


def test_a_copy_of_a_store_names_segments_that_nobody_signed(locks: tuple[FileId, FileId], made: list[Any]) -> None:
    """They may belong to the original's tree, which is making them."""
    segment(made, None, whole=False)
    assert NAME not in remove_dead(locks[0], GENERATION, is_own=False)


@pytest.mark.parametrize(("at", "value"), [(8, (lib.SEGMENT_LAYOUT + 1).to_bytes(4, "little")), (0, b"another!")])
def test_another_layout_tells_nobody_whose_it_is(locks: tuple[FileId, FileId], made: list[Any], at: int, value: bytes) -> None:
    """Goal: bytes of another version's header are not believed. Method: those at our place say that the maker is dead."""
    made_here = segment(made, owners(*locks)["dead stranger"])
    made_here.memory[at : at + len(value)] = value
    assert owner_of(NAME) is None
    assert NAME not in remove_dead(locks[0], GENERATION, is_own=False)


def test_what_is_no_segment(locks: tuple[FileId, FileId]) -> None:
    """Shorter than its header, or gone."""
    (MOUNT / NAME).write_bytes(b"short")
    try:
        assert owner_of(NAME) is None
    finally:
        (MOUNT / NAME).unlink()
    with pytest.raises(FileNotFoundError):
        owner_of(NAME)


def test_who_lives(locks: tuple[FileId, FileId]) -> None:
    dead = [kind for kind, owner in owners(*locks).items() if owner is not None and not owner.lives()]
    assert dead == [
        "dead stranger",
        "a later process of the number",
        "our dead",
    ]
