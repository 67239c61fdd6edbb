"""Goal: C gets no address that lies outside of its buffer or across a cache line, and the buffer lives on with it."""

from __future__ import annotations

import gc
import mmap

import pytest

from orbitmq.shm.memory import LINE, line_pointer


@pytest.mark.parametrize(("offset", "size", "fits"), [(0, 4096, True), (64, 4032, True), (4096, 0, True)])
def test_what_fits(offset: int, size: int, fits: bool) -> None:
    assert line_pointer("uint8_t *", mmap.mmap(-1, 4096), offset, size) is not None


@pytest.mark.parametrize(
    ("offset", "size", "why"),
    [(0, 4097, "the buffer has 4096"), (64, 4033, "the buffer has"), (-64, 64, "has 4096"), (8, 8, f"multiple of {LINE}")],
)
def test_what_does_not(offset: int, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        line_pointer("uint64_t *", mmap.mmap(-1, 4096), offset, size)


def test_a_buffer_that_nobody_may_write() -> None:
    with pytest.raises((BufferError, TypeError, ValueError)):
        line_pointer("uint8_t *", bytes(4096), 0, 64)


def test_the_pointer_keeps_the_buffer() -> None:
    memory = mmap.mmap(-1, 4096)
    memory[64] = 7
    pointer = line_pointer("uint8_t *", memory, 64, 64)
    with pytest.raises(BufferError):
        memory.close()
    del memory
    gc.collect()
    assert pointer[0] == 7
