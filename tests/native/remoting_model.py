"""A readable model of RocketMQ's remoting frames, for tests of what native/remoting reads and writes."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field

LANGUAGES = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP",
    "GO", "PHP", "OMS", "RUST", "NODE_JS",
]  # fmt: skip
OTHER = 7
FRAME_MAX = 16 << 20
HEADER_MAX = 1 << 20
FIELDS_MAX = 64
JSON, BINARY = 0, 1


class Malformed(ValueError):
    """These bytes are no frame, or no header."""


@dataclass
class Header:
    """fields: None if a JSON header has no extFields. All texts are bytes, of whatever encoding."""

    code: int = 0
    language: int = 0
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: bytes | None = None
    fields: dict[bytes, bytes] | None = field(default=None)


def frame(kind: int, header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def border(data: bytes) -> int | None:
    """Size of the frame at the begin of data; None if that cannot be known yet. Raises: Malformed."""
    if len(data) < 4:
        return None
    (length,) = struct.unpack(">I", data[:4])
    if not 4 <= length <= FRAME_MAX:
        raise Malformed("length")
    if len(data) >= 8:
        kind, size = data[4], int.from_bytes(data[5:8], "big")
        if kind > BINARY or size > min(HEADER_MAX, length - 4):
            raise Malformed("header length")
    return 4 + length


def split(data: bytes) -> tuple[int, bytes, bytes]:
    """Type, header and body of a whole frame."""
    size = int.from_bytes(data[5:8], "big")
    return data[4], data[8 : 8 + size], data[8 + size :]


def write_json(header: Header) -> bytes:
    """Keys in alphabetical order without space, as Java's library writes them."""
    told = {
        "code": header.code,
        "flag": header.flag,
        "language": LANGUAGES[header.language],
        "opaque": header.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": header.version,
    }
    if header.remark is not None:
        told["remark"] = _text(header.remark)
    if header.fields is not None:
        told["extFields"] = {_text(name): _text(value) for name, value in header.fields.items()}
    line = json.dumps({key: told[key] for key in sorted(told)}, ensure_ascii=False, separators=(",", ":"))
    for letter, code in (("\\n", 10), ("\\r", 13), ("\\t", 9), ("\\b", 8), ("\\f", 12)):
        if letter in line:
            line = re.sub(rf"(?<!\\)((?:\\\\)*){re.escape(letter)}", rf"\g<1>\\u{code:04x}", line)
    return line.encode(errors="surrogateescape")


def read_json(data: bytes) -> Header:
    """What well-formed JSON says. Raises: Malformed: it is no header, or not JSON."""
    try:
        text = data.decode(errors="surrogateescape")
        told = json.loads(text, strict=False, parse_constant=_refused, parse_float=_Plain, parse_int=_Plain)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if not isinstance(told, dict):
        raise Malformed("no object")
    numbers = {key: _int(told.get(key, _Plain("0"))) for key in ("code", "version", "opaque", "flag")}
    language = told.get("language", "JAVA")
    remark, fields = told.get("remark"), told.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise Malformed("extFields")
    return Header(
        language=LANGUAGES.index(language) if language in LANGUAGES else OTHER,
        remark=None if remark is None else _plain(remark),
        fields=None if fields is None else {_bytes(key): _plain(value) for key, value in fields.items() if value is not None},
        **numbers,
    )


def write_binary(header: Header) -> bytes:
    fields = b""
    for name, value in (header.fields or {}).items():
        fields += struct.pack(">H", len(name)) + name + struct.pack(">I", len(value)) + value
    remark = header.remark or b""
    start = struct.pack(">hBhii", header.code, header.language, header.version, header.opaque, header.flag)
    return start + struct.pack(">I", len(remark)) + remark + struct.pack(">I", len(fields)) + fields


def read_binary(data: bytes) -> Header:
    """Raises: Malformed."""
    at = 13

    def take(width: int) -> bytes:
        nonlocal at
        size = int.from_bytes(data[at : at + width], "big")
        if at + width > len(data) or size >> (8 * width - 1) or at + width + size > len(data):
            raise Malformed("a size passes the end")
        at += width + size
        return data[at - size : at]

    if len(data) < 21:
        raise Malformed("too short")
    code, language, version, opaque, flag = struct.unpack(">hBhii", data[:13])
    remark, fields = take(4), take(4)
    if at != len(data):
        raise Malformed("bytes behind the fields")
    data, at, found = fields, 0, []
    while at < len(data):
        found.append((take(2), take(4)))
    pairs = [(name, value) for name, value in found if value]
    if len(pairs) > FIELDS_MAX or (len(pairs) == FIELDS_MAX and not found[-1][1]):
        raise Malformed("too many fields")
    return Header(code, min(language, OTHER) if language >= len(LANGUAGES) else language, version, opaque, flag, remark or None,
                  dict(pairs) if fields else None)  # fmt: skip


class _Plain(str):
    """A number's text as it stands."""


def _refused(word: str) -> None:
    raise Malformed(f"{word} is not of JSON")


def _int(value: object) -> int:
    if not isinstance(value, _Plain) or not re.fullmatch("-?[0-9]+", value) or not -(1 << 31) <= int(value) < 1 << 31:
        raise Malformed(f"{value!r} is no int")
    return int(value)


def _plain(value: object) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if not isinstance(value, str):
        raise Malformed(f"{value!r} is no text")
    return str(value).encode() if isinstance(value, _Plain) else _bytes(value)


def _bytes(text: str) -> bytes:
    """Bytes that are not UTF-8 pass; half a pair that \\u named becomes '?'."""
    if text.isascii():
        return text.encode()
    return "".join("?" if "\ud800" <= c <= "\udfff" and not "\udc80" <= c <= "\udcff" else c for c in text).encode(
        errors="surrogateescape"
    )


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
