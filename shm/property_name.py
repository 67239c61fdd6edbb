"""What a property may not be called; native/format/reserved.h has the rule."""

from __future__ import annotations

from orbitmq.native._core import ffi, lib

NOTE: int = lib.RESERVED_NOTE
WISH: int = lib.RESERVED_WISH


def reserved_property(name: str) -> int:
    """What kind of name it is: 0 of a sender's own; NOTE, which brokers and clients write about a message; WISH, which asks a
    RocketMQ broker for something; or another number of enum reserved."""
    encoded = name.encode(errors="surrogateescape")
    kept = ffi.from_buffer("uint8_t[]", encoded)
    return int(lib.reserved_property({"data": kept, "size": len(encoded)}))


def why_reserved(kind: int) -> str:
    """Why no sender may set a property of this kind."""
    why = lib.reserved_property_why(kind)
    return "" if why == ffi.NULL else str(ffi.string(why).decode())
