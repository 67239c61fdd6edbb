"""Goal: the parts found of a sparse file are those that are not zero, and zeroed parts are zero, whether they were holes,
reserved or written. Method: files written in a few places, compared with the same bytes in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.store import sparse

SIZE = 5 * sparse.CHUNK // 2
PLACES = st.integers(0, SIZE)
WRITES = st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=50)), max_size=6)


@contextmanager
def written(writes: list[tuple[int, bytes]], reserved: bool) -> Iterator[tuple[int, bytearray]]:
    """A descriptor, and what the file should hold."""
    model = bytearray(SIZE)
    with tempfile.TemporaryFile() as file:
        descriptor = file.fileno()
        os.ftruncate(descriptor, SIZE)
        if reserved:
            os.posix_fallocate(descriptor, 0, SIZE)
        for at, content in writes:
            size = os.pwrite(descriptor, content[: SIZE - at], at)
            model[at : at + size] = content[:size]
        yield descriptor, model


@settings(max_examples=40)
@given(WRITES, st.booleans(), PLACES, PLACES)
def test_it_finds_what_is_not_zero(writes: list[tuple[int, bytes]], reserved: bool, start: int, end: int) -> None:
    with written(writes, reserved) as (descriptor, model):
        found = bytearray(SIZE)
        before = start
        for at, chunk in sparse.nonzero_chunks(descriptor, start, end):
            assert before <= at and at + len(chunk) <= end and any(chunk), "ascending, within, and not all zero"
            found[at : at + len(chunk)] = chunk
            before = at + len(chunk)
        assert found[start:end] == model[start:end]
        assert sparse.last_nonzero(descriptor, start) == max(start, len(model.rstrip(b"\0")))


@settings(max_examples=40)
@given(WRITES, st.booleans(), PLACES, PLACES)
def test_it_zeroes_this_and_nothing_else(writes: list[tuple[int, bytes]], reserved: bool, start: int, end: int) -> None:
    with written(writes, reserved) as (descriptor, model):
        changed = sparse.zero(descriptor, start, end)
        assert changed == any(model[start:end])
        model[start:end] = bytes(len(model[start:end]))
        assert os.pread(descriptor, SIZE + 1, 0) == model, "of the same size, too"
        sparse.zero_again(descriptor, start, end)
        assert os.pread(descriptor, SIZE + 1, 0) == model
