"""Addresses inside a mapped buffer, for the C core.

Every structure that processes share begins on a cache line. If a buffer is too small for it or not aligned, that is a bug of
the caller, and is refused here before C uses the address.
"""

from __future__ import annotations

from typing import Any

from orbitmq.native._core import ffi, lib

# bytearray, mmap, memoryview: whatever exports a writable buffer. collections.abc.Buffer exists from Python 3.12 on.
Buffer = Any

LINE: int = lib.SEGMENT_LINE


def line_pointer(kind: str, memory: Buffer, offset: int, size: int) -> Any:
    """A cffi pointer of type `kind` to memory[offset : offset + size]; it keeps the buffer alive.

    Raises: ValueError: the buffer is too small there, or the address is not a multiple of 64.
    """
    whole = ffi.from_buffer("uint8_t[]", memory, require_writable=True)
    if offset < 0 or offset + size > len(whole):
        raise ValueError(f"cannot place {kind} at byte {offset}, it takes {size} bytes and the buffer has {len(whole)}")
    at = whole + offset
    if int(ffi.cast("uintptr_t", at)) % LINE:
        raise ValueError(f"cannot place {kind} at byte {offset}, its address is not a multiple of {LINE}")
    # gc with a function that does nothing keeps `whole`, and with it the exported buffer, alive as long as the pointer.
    return ffi.gc(ffi.cast(kind, at), _Keep(whole))


class _Keep:
    """Holds a reference until the pointer that it belongs to is collected."""

    __slots__ = ("_held",)

    def __init__(self, held: object) -> None:
        self._held = held

    def __call__(self, _pointer: object) -> None:
        self._held = None
