"""What a start reads of operation messages. The model of transactions over several lives is in tests/actors/test_halves.py."""

from __future__ import annotations

import errno
import random
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p

SPAN = 1 << 23  # HALVES_SPAN in halves.h


@pytest.fixture
def settles_five(tmp_path: Path) -> Iterator[tuple[p.Pipeline, Any, bytes]]:
    """A writer, and the unit of a record that says, as an operation message does: half 5 is settled."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"5"))
        p.run(handler, writer)
        first = session.verdict(1)
        yield tree, writer, struct.pack(">qiq", first.physical_offset, first.size, ord("d"))


def test_a_log_that_cannot_be_mapped_is_no_end(settles_five: tuple[p.Pipeline, Any, bytes]) -> None:
    """Goal: a half whose operation message cannot be read now does not become open, because the start fails. Method: no file
    can be opened meanwhile."""
    tree, writer, unit = settles_five
    lib.writer_halves_begin(writer, 0, 10)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        read, why = lib.writer_read_ops(writer, unit, 1), ffi.errno
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (read, why) == (False, errno.EMFILE)
    assert lib.writer_read_ops(writer, unit, 1)
    assert [lib.control_half_state(tree.control, offset) for offset in (4, 5)] == [lib.HALF_OPEN, lib.HALF_SETTLED]


@pytest.mark.parametrize(("floor", "seed"), [(0, 1), (3, 2), (SPAN - 100, 3), (3 * SPAN - 7, 4)])
def test_the_next_that_is_open(tmp_path: Path, floor: int, seed: int) -> None:
    """Method: runs of settled halves of random lengths, some around a place that is used again; against a look at each."""
    rng = random.Random(seed)
    known = floor + 600
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        settled, at = list[int](), floor
        while at < known:
            run = rng.choice((1, 3, 32, 70, 150))
            if rng.random() < 0.6:
                settled += range(at, min(known, at + run))
            at += run
        for begin in range(0, len(settled), 100):
            session.send(p.message(",".join(map(str, settled[begin : begin + 100])).encode()))
        p.run(handler, writer)
        lib.writer_halves_begin(writer, floor, known)
        for number in range(1, -(-len(settled) // 100) + 1):
            verdict = session.verdict(number)
            assert lib.writer_read_ops(writer, struct.pack(">qiq", verdict.physical_offset, verdict.size, 0), 1)
        places = range(max(0, floor - 40), known + 80)
        is_open = {place: lib.control_half_state(tree.control, place) == lib.HALF_OPEN for place in places}
        assert sum(is_open.values()) == known + 80 - floor - len(settled)
        for _ in range(2000):
            first, last = sorted(rng.choices(places, k=2))
            wanted = next((place for place in range(first, last) if is_open[place]), last)
            assert lib.control_next_open_half(tree.control, first, last) == wanted
            count = sum(is_open[place] for place in range(first, last))
            assert lib.control_count_open_halves(tree.control, first, last) == count


def test_more_halves_than_places(settles_five: tuple[p.Pipeline, Any, bytes]) -> None:
    """A half and the one HALVES_SPAN before it have the same place. What settles the older one does not settle the younger."""
    tree, writer, unit = settles_five
    lib.writer_halves_begin(writer, 0, SPAN + 10)
    assert lib.writer_read_ops(writer, unit, 1)
    states = [lib.control_half_state(tree.control, offset) for offset in (5, 9, 10, SPAN + 5)]
    assert states == [lib.HALF_SETTLED, lib.HALF_SETTLED, lib.HALF_OPEN, lib.HALF_OPEN]
