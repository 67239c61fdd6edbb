"""The allocator: pages ahead of the writer are made ready, whole, once, and no further than needed."""

from __future__ import annotations

from pathlib import Path

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p
from tests.native.pipeline import run

ALLOCATOR = 6


def test_pages_are_made_ready_once(tmp_path: Path) -> None:
    """Method: the log ends in the middle of a page; every file's pages become ready, then nothing is left."""
    with p.pipeline(tmp_path, file_size=1 << 20, files=3) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"one"), p.message(bytes(5000)))
        run(handler, writer)
        allocator = lib.allocator_open(tree.tree(ALLOCATOR))
        done = []
        while ready := lib.allocator_step(allocator):
            done.append(ready)
            assert len(done) < 10, "the same pages again and again"
        assert sum(done) == 3 * (1 << 20) - tree.wrote // 4096 * 4096
        assert lib.allocator_step(allocator) == 0


def test_it_asks_for_the_next_file(tmp_path: Path) -> None:
    """Goal: one file beyond the current one is always needed; if it exists there is nothing to ask for."""
    with p.pipeline(tmp_path, files=1) as tree:
        allocator = lib.allocator_open(tree.tree(ALLOCATOR))
        assert lib.allocator_run(allocator, 1) == lib.RUN_NEED
        tree.allocate()
        assert lib.allocator_run(allocator, 1) == lib.RUN_TIME
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(tree.control, seen)
        assert seen.allocated == 2 * tree.file_size
