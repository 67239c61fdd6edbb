"""One CommitLog record, from Python: for recovery's reports, look-ups, tools and tests. Hot paths stay in C.

The bytes are drawn in docs/formats/commitlog.md and in native/format/record.h, whose functions do the work here. A buffer may
hold anything: reading one returns a record or the reason why there is none. It never raises, and never reads a byte beyond the
buffer.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.errors import PropertyError, UsageError
from orbitmq.native._core import ffi, lib

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CRC_PROPERTY = "__CRC32#"
MAGIC = 0xDAA320A7
BLANK_MAGIC = 0xCBD43194

Host = tuple[str, int]


class Fault(enum.IntEnum):
    """Why there is no record at a place; `text` completes "the record at N ..."."""

    IS_BLANK = 1
    END = 2
    BAD_MAGIC = 3
    BAD_SIZE = 4
    BAD_BODY_CRC = 5
    BAD_CRC = 6
    BAD_PLACE = 7
    LOST = 8

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        return _FAULT_TEXTS[self]

    @property
    def damage(self) -> bool:
        """False for the two regular ends: of a file (blank marker) and of the log (nothing written yet)."""
        return self not in (Fault.IS_BLANK, Fault.END)


_FAULT_TEXTS = {
    Fault.IS_BLANK: "is the blank marker at the end of its file",
    Fault.END: "was never written",
    Fault.BAD_MAGIC: "has an unknown magic",
    Fault.BAD_SIZE: "has a size that differs from the sum of its parts",
    Fault.BAD_BODY_CRC: "has a body that differs from its CRC",
    Fault.BAD_CRC: "differs from its CRC property",
    Fault.BAD_PLACE: "says that it belongs to another place",
    Fault.LOST: "stands in for one that was damaged and given up by a repair",
}


class Record(NamedTuple):
    """A parsed record. `body` and `raw_properties` are views of the buffer that it was read from; times are in ms since 1970.

    Offsets: queue_offset counts messages of the queue, physical_offset is the record's first byte in the log.
    """

    size: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_ms: int
    born_host: Host
    store_ms: int
    store_host: Host
    reconsume_times: int
    prepared_offset: int
    body: memoryview
    topic: str
    raw_properties: memoryview

    @property
    def properties(self) -> dict[str, str]:
        """The properties by name, without the CRC property."""
        found = unpack_properties(self.raw_properties)
        found.pop(CRC_PROPERTY, None)
        return found

    @property
    def message_id(self) -> MessageId:
        """The id that a receipt for this record carries."""
        return MessageId(*self.store_host, self.physical_offset)


def parse(buffer: ReadableBuffer, at: int = 0) -> Record | Fault:
    """The record that begins at byte `at` of the buffer, or why there is none. Checks the shape only."""
    whole = memoryview(buffer).cast("B")
    data = ffi.from_buffer("uint8_t[]", whole)
    view = ffi.new("struct record_view *")
    return _result(lib.record_parse(data + at, _available(whole, at), view), view, data, whole)


def check(buffer: ReadableBuffer, at: int = 0, *, physical_offset: int) -> Record | Fault:
    """Like parse; also checks the place, the body's CRC and, if there is one, the record's own CRC."""
    whole = memoryview(buffer).cast("B")
    data = ffi.from_buffer("uint8_t[]", whole)
    view = ffi.new("struct record_view *")
    code = lib.record_check(data + at, _available(whole, at), physical_offset, view)
    return _result(code, view, data, whole)


def _available(whole: memoryview, at: int) -> int:
    if not 0 <= at <= len(whole):
        raise IndexError(f"byte {at} of a buffer of {len(whole)}")
    return len(whole) - at


def _result(code: int, view: ffi.CData, data: ffi.CData, whole: memoryview) -> Record | Fault:
    if code:
        return Fault(code)
    readonly = whole.toreadonly()

    def part(piece: ffi.CData) -> memoryview:
        start = piece.data - data
        return readonly[start : start + piece.size]

    return Record(
        size=view.total_size,
        body_crc=view.body_crc,
        queue_id=view.queue_id,
        flag=view.flag,
        queue_offset=view.queue_offset,
        physical_offset=view.physical_offset,
        sys_flag=view.sys_flag,
        born_ms=view.born_ms,
        born_host=_host(part(view.born_host)),
        store_ms=view.store_ms,
        store_host=_host(part(view.store_host)),
        reconsume_times=view.reconsume_times,
        prepared_offset=view.prepared_offset,
        body=part(view.body),
        topic=str(part(view.topic), "utf-8", "replace"),
        raw_properties=part(view.properties),
    )


def encode(
    topic: str,
    body: bytes,
    *,
    properties: Mapping[str, str] | bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    born_ms: int = 0,
    store_ms: int = 0,
    born_host: Host = ("127.0.0.1", 0),
    store_host: Host = ("127.0.0.1", 0),
) -> bytes:
    """A complete record, CRC property included. For tools and tests, because one call for each record is slow."""
    packed = properties if isinstance(properties, bytes) else pack_properties(properties)
    name = topic.encode()
    keep = [ffi.from_buffer("uint8_t[]", piece) for piece in (name, packed, body)]
    parts = ffi.new(
        "struct record_parts *",
        {
            "topic": keep[0],
            "topic_size": len(name),
            "properties": keep[1],
            "properties_size": lib.record_trim(keep[1], len(packed)),
            "body": keep[2],
            "body_size": len(body),
            "queue_id": queue_id,
            "flag": flag,
            "sys_flag": sys_flag,
            "reconsume_times": reconsume_times,
            "born_ms": born_ms,
            "prepared_offset": prepared_offset,
            "born_host": stored_host(born_host),
            "store_host": stored_host(store_host),
        },
    )
    size = lib.record_image_size(parts)
    image = ffi.new("uint8_t[]", size)
    seal = ffi.new("struct record_seal *")
    lib.record_encode(parts, image, seal)
    lib.record_finish(image, size, seal, queue_offset, physical_offset, store_ms)
    return bytes(ffi.buffer(image))


def pack_properties(properties: Mapping[str, str]) -> bytes:
    """The properties string: name 0x01 value, joined by 0x02, none at the end.

    Raises: PropertyError: an empty name or value, a separator in one, or the CRC property's name; carries .name.
    """
    for name, value in properties.items():
        if name == CRC_PROPERTY:
            raise PropertyError(f"could not store property {name!r}: every record has one of this name already", name=name)
        if not name or not value or any(separator in name + value for separator in "\1\2"):
            why = "names and values must not be empty, nor contain the byte 0x01 or 0x02"
            raise PropertyError(f"could not store property {name!r} = {value!r}: {why}", name=name)
    return "\2".join(f"{name}\1{value}" for name, value in properties.items()).encode()


def unpack_properties(properties: ReadableBuffer) -> dict[str, str]:
    """Name to value. Segments without a name, a value or 0x01 are skipped; if a name occurs twice, the last one wins.

    Source: RocketMQ 4.9.1 MessageDecoder.
    """
    found = {}
    for segment in bytes(properties).split(b"\2"):
        name, _, value = segment.partition(b"\1")
        if name and value:
            found[name.decode(errors="replace")] = value.decode(errors="replace")
    return found


def pack_host(host: Host) -> bytes:
    """Address and port as a record holds them: 4 (IPv4) or 16 bytes, then 4."""
    family = socket.AF_INET6 if ":" in host[0] else socket.AF_INET
    try:
        return socket.inet_pton(family, host[0]) + struct.pack(">I", host[1])
    except (OSError, struct.error):
        raise UsageError(
            f"could not use {host[0]}:{host[1]} as a host: it must be an IP address and a port", host=host
        ) from None


def stored_host(host: Host) -> dict[str, bytes | int]:
    """struct record_host of native/format/record_host.h. Raises: as pack_host."""
    data = pack_host(host)
    return {"data": data, "size": len(data)}


def _host(stored: memoryview) -> Host:
    family = socket.AF_INET if len(stored) == 8 else socket.AF_INET6
    return socket.inet_ntop(family, stored[:-4]), struct.unpack(">I", stored[-4:])[0]


class MessageId(NamedTuple):
    """Where a message is: the broker's host and port as stored, and the physical offset. str() gives RocketMQ's offset message
    id: hexadecimal in upper case, 32 digits for IPv4 and 56 for IPv6.
    """

    host: str
    port: int
    physical_offset: int

    def __str__(self) -> str:
        return (pack_host((self.host, self.port)) + struct.pack(">Q", self.physical_offset)).hex().upper()

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Reads what str() wrote, in upper or lower case.

        Raises: UsageError: not 32 or 56 hexadecimal digits; carries .id.
        """
        try:
            stored = bytes.fromhex(text) if isinstance(text, str) and len(text) in (32, 56) else b""
        except ValueError:
            stored = b""
        if len(stored) not in (16, 28):  # fromhex skips white space
            raise UsageError(f"could not read message id {text!r}: an id has 32 or 56 hexadecimal digits", id=text)
        return cls(*_host(memoryview(stored)[:-8]), struct.unpack(">Q", stored[-8:])[0])
