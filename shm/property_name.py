"""Names that a property may not have; native/format/reserved.h has the rule."""

from __future__ import annotations

from orbitmq.native._core import ffi, lib

NOTE: int = lib.RESERVED_NOTE
WISH: int = lib.RESERVED_WISH
REPLY: int = lib.RESERVED_REPLY


def reserved_property(name: str) -> int:
    """The kind of a name. 0: the sender's own; NOTE: brokers and clients write it about a message; WISH: it asks a RocketMQ
    broker for something; REPLY: it makes a message a request or a reply; or another number of enum reserved."""
    encoded = name.encode(errors="surrogateescape")
    kept = ffi.from_buffer("uint8_t[]", encoded)
    return int(lib.reserved_property({"data": kept, "size": len(encoded)}))


def why_reserved(kind: int) -> str:
    """Why no sender may set a property of this kind."""
    why = lib.reserved_property_why(kind)
    return "" if why == ffi.NULL else str(ffi.string(why).decode())
