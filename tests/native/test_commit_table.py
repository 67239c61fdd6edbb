"""Goal: the table of offsets that are committed with atomic batches finds every key, also when it is full. Method: a writer
that is told of more than it holds."""

from __future__ import annotations

import random
from pathlib import Path

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p

MOST: int = lib.COMMIT_KEYS_MAX


def test_a_full_table(tmp_path: Path) -> None:
    rng = random.Random(1)
    # Keys that crowd: those of all first places.
    keys = [(rng.randrange(1, 1 << 64), rng.randrange(300) if n % 3 else rng.randrange(1 << 64)) for n in range(MOST + 100)]
    words = [word for n, key in enumerate(keys) for word in (*key, n)]
    with p.pipeline(tmp_path) as tree:
        writer = tree.writer()
        lib.writer_commits_begin(writer, 7, ffi.new("uint64_t[]", words), len(keys))
        assert (lib.control_commits_count(tree.control), lib.control_commits_next(tree.control)) == (MOST, 7)
        room = ffi.new("uint64_t[]", 3 * MOST)
        assert lib.control_commits_copy(tree.control, room, MOST) == MOST
        found = {(room[at], room[at + 1]): room[at + 2] for at in range(0, 3 * MOST, 3)}
        assert found == {key: n for n, key in enumerate(keys[:MOST])}


def test_keys(tmp_path: Path) -> None:
    """Goal: group, topic and queue each count, and so does where one name ends and the next begins."""
    with p.pipeline(tmp_path) as tree:
        lib.session_join_group(tree.control, 0, b"g", 1)
        offsets = [lib.control_commit_of(tree.control, group, len(group), b"t", 1, 0) for group in (b"g", b"", b"h" * 255)]
        assert set(offsets) == {(1 << 64) - 1}, "an empty table has nothing"
