"""Texts for C."""

from __future__ import annotations

from orbitmq.native._core import ffi


class Piece:
    """A text for C, as long as this lives."""

    def __init__(self, text: str) -> None:
        self._data = text.encode(errors="replace")
        self._kept = ffi.from_buffer("uint8_t[]", self._data)
        self.slice = ffi.new("struct slice *", {"data": self._kept, "size": len(self._data)})[0]
