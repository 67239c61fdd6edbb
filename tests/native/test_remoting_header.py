"""Goal: frames and headers of RocketMQ's remoting protocol are read and written as RocketMQ does, and no bytes lead astray.

Method: known headers; a readable model beside the C functions, for headers of any content, each beginning of a frame, and
damaged headers. Stray accesses are looked for by native/sanitize/drive_remoting.c.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.native._core import ffi, lib
from tests.native import remoting_model as model
from tests.native.remoting_model import BINARY, JSON, Header, Malformed

WHOLE, PART, BAD = range(3)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.integers(-(1 << 15), (1 << 15) - 1)
TEXT = st.text(max_size=12).map(str.encode) | st.sampled_from([b"a\1b\2", b'"\\/', b"\x00\x1f\x7f\n\t", b"\xff\xc3", b"n\\n"])
FULL = TEXT.filter(bool)


def headers(*, binary: bool) -> st.SearchStrategy[Header]:
    """Headers that the form can say. Binary has no empty remark and no empty value."""
    fields = st.dictionaries(TEXT, FULL if binary else TEXT, min_size=1 if binary else 0, max_size=8)
    return st.builds(
        Header,
        code=SHORT if binary else INT,
        language=st.integers(0, len(model.LANGUAGES) - 1),
        version=SHORT if binary else INT,
        opaque=INT,
        flag=INT,
        remark=st.none() | (FULL if binary else TEXT),
        fields=st.none() | fields,
    )


def text(piece: ffi.CData) -> bytes | None:
    return None if piece.data == ffi.NULL else bytes(ffi.buffer(piece.data, piece.size))


def read(data: bytes, kind: int) -> Header:
    """By C. The memory has exactly the header's size. Raises: Malformed."""
    memory = ffi.new("uint8_t[]", data or b"\0")
    header = ffi.new("struct remoting_header *")
    if not lib.remoting_header_read(memory, len(data), kind, header):
        raise Malformed("refused")
    fields = {text(each.name): text(each.value) for each in header.fields[0 : header.field_count]}
    found = Header(header.code, header.language, header.version, header.opaque, header.flag, text(header.remark))
    found.fields = fields if header.has_fields else None
    return found


def write(header: Header, kind: int, body_size: int = 0, room: int | None = None) -> bytes:
    """By C; empty if it did not fit."""
    told = ffi.new("struct remoting_header *")
    kept = []

    def piece(value: bytes) -> dict[str, object]:
        kept.append(ffi.from_buffer("uint8_t[]", value))
        return {"data": kept[-1], "size": len(value)}

    told.code, told.language, told.version, told.opaque, told.flag = (
        header.code, header.language, header.version, header.opaque, header.flag)  # fmt: skip
    if header.remark is not None:
        told.remark = piece(header.remark)
    told.has_fields = header.fields is not None
    for name, value in (header.fields or {}).items():
        told.fields[told.field_count].name, told.fields[told.field_count].value = piece(name), piece(value)
        told.field_count += 1
    space = lib.remoting_header_room(told) if room is None else room
    memory = ffi.new("uint8_t[]", space + 1)
    memory[space] = 0xA5
    size = lib.remoting_header_write(memory, space, kind, told, body_size)
    assert memory[space] == 0xA5 and size <= space
    return bytes(ffi.buffer(memory, size))


def model_read(data: bytes, kind: int) -> Header:
    return model.read_json(data) if kind == JSON else model.read_binary(data)


def answer(reader: object, data: bytes, kind: int) -> Header | None:
    try:
        return reader(data, kind)  # type: ignore[operator]
    except Malformed:
        return None


@given(headers(binary=False))
def test_json_there_and_back(header: Header) -> None:
    """The bytes are the model's, and reading them gives the header again."""
    written = write(header, JSON)
    assert written == model.frame(JSON, model.write_json(header))
    assert read(model.split(written)[1], JSON) == header == model.read_json(model.split(written)[1])


@given(headers(binary=True))
def test_binary_there_and_back(header: Header) -> None:
    written = write(header, BINARY)
    assert written == model.frame(BINARY, model.write_binary(header))
    assert read(model.split(written)[1], BINARY) == header == model.read_binary(model.split(written)[1])


@given(headers(binary=True), st.sampled_from([JSON, BINARY]), st.data())
def test_no_room(header: Header, kind: int, data: st.DataObject) -> None:
    """With less room than the frame needs, nothing is said to be written, and nothing behind the room is touched."""
    whole = write(header, kind)
    assert write(header, kind, room=len(whole)) == whole
    assert write(header, kind, room=data.draw(st.integers(0, len(whole) - 1))) == b""


def test_too_large_an_answer() -> None:
    """The frame's limit is that of the protocol, and holds for header and body together."""
    header = Header(remark=b"r" * 100)
    size = len(model.write_json(header))
    assert write(header, JSON, model.FRAME_MAX - 4 - size)
    assert write(header, JSON, model.FRAME_MAX - 3 - size) == b""
    assert write(Header(remark=b"r" * (model.HEADER_MAX - 50)), JSON) == b""


# How clients of four languages write headers, and what RocketMQ's broker answers (docs/rocketmq.md).
KNOWN = [
    (
        b'{"code":105,"extFields":{"topic":"TBW102"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}',
        Header(105, 0, 407, 7, 0, None, {b"topic": b"TBW102"}),
    ),
    (
        b'{"code":310,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":'
        b'{"i":"KEYS\\u0001k\\u0002UNIQ_KEY\\u0001A\\u0002"}}',
        Header(310, 9, 317, 3, 0, b"", {b"i": b"KEYS\1k\2UNIQ_KEY\1A\2"}),
    ),
    (
        b'{"code":11,"language":"JAVA","version":121,"opaque":4,"flag":0,"extFields":'
        b'{"queueId":0,"commitOffset":-1,"unitMode":false,"subscription":null}}',
        Header(11, 0, 121, 4, 0, None, {b"queueId": b"0", b"commitOffset": b"-1", b"unitMode": b"false"}),
    ),
    (b'{"code":0,"flag":1,"opaque":2,"x":[{"a":[1,{}]},"}"],"extFields":{}}', Header(0, 0, 0, 2, 1, None, {})),
    (b' { "extFields" : null , "remark" : null } ', Header()),
    (b"{}", Header()),
    (b'{"remark":"\\ud83d\\ude80 \\ud83d \\udc00 \\u00e9"}', Header(remark="🚀 ? ? é".encode())),
    (b'{"language":"COBOL"}', Header(language=model.OTHER)),
    (b'{"code":1,"code":2}', Header(2)),
]


@pytest.mark.parametrize(("data", "header"), KNOWN, ids=range(len(KNOWN)))
def test_known_json(data: bytes, header: Header) -> None:
    assert read(data, JSON) == header == model.read_json(data)


BAD_JSON = [
    b"", b"null", b"[]", b"{", b'{"code"}', b'{"code":}', b'{"code":1', b'{"code":"1"}', b'{"code":1.5}', b'{"code":01}',
    b'{"x":1.}', b'{"x":-}', b'{"x":1e}', b'{"code":2147483648}', b'{"code":1,}', b"{code:1}", b'{"remark":"}',
    b'{"remark":"\\x"}', b'{"remark":"\\u12"}', b'{"remark":"\\u12g4"}', b'{"remark":{}}', b'{"extFields":[]}',
    b'{"extFields":{"a":{}}}', b'{"extFields":{"a":"b"}', b'{"extFields":{"a"}}', b"{} {}", b'{"x":[}', b'{"x":[nul]}',
    b'{"extFields":{' + b",".join(b'"%d":"v"' % i for i in range(65)) + b"}}", b'{"x":' + b"[" * 20 + b"]" * 20 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("data", BAD_JSON)
def test_bad_json(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data, JSON)


@pytest.mark.parametrize("escape", [b"\\u0001", b"\\u0009", b"\\u000a", b"\\n", b"\\u00e9", b"\x01"])
def test_escapes_before_runs_of_any_length(escape: bytes) -> None:
    """Goal: what follows an escape is moved, and nothing else. Method: as many escapes as make moves over short and long
    distances, before runs of up to three of the processor's widest words; the text may be the header's last."""
    for count in range(1, 8):
        for length in range(50):
            run = bytes(range(0x61, 0x61 + 26))[: length % 26] + b"-" * (length - length % 26)
            for behind in (b'"}}', b'","b":"%s"},"code":7}' % run, b'\\"","b":"c"}}'):
                data = b'{"extFields":{"a":"' + run.join([escape] * count) + run + behind
                assert read(data, JSON) == model_read(data, JSON)


@pytest.mark.parametrize("name", [b"a", b"\\", b"\x01", b'"', b"ab", b""])
def test_names_of_a_letter(name: bytes) -> None:
    data = b'{"extFields":{"' + name + b'":"value","z" : "1"}}'
    assert answer(read, data, JSON) == answer(model_read, data, JSON)


def test_most_fields() -> None:
    """The limit itself is allowed, in both forms."""
    header = Header(fields={b"%d" % i: b"v" for i in range(model.FIELDS_MAX)})
    assert read(model.write_json(header), JSON) == header
    assert read(model.write_binary(header), BINARY) == header
    header.fields = {b"%d" % i: b"v" for i in range(model.FIELDS_MAX + 1)}
    assert answer(read, model.write_binary(header), BINARY) is None


@given(headers(binary=True), st.sampled_from([JSON, BINARY]), st.binary(max_size=3))
def test_every_beginning(header: Header, kind: int, body: bytes) -> None:
    """A frame cut anywhere is a part of a frame; its header cut anywhere is none."""
    head = model.write_json(header) if kind == JSON else model.write_binary(header)
    data = model.frame(kind, head, body)
    found = ffi.new("struct remoting_frame *")
    for size in range(len(data)):
        assert lib.remoting_frame(data[:size], size, found) == PART
        assert found.size == (model.border(data[:size]) or 0)
    assert lib.remoting_frame(data, len(data), found) == WHOLE
    assert (found.type, found.body_at, found.body_size) == (kind, 8 + len(head), len(body))
    for size in range(len(head)):
        assert answer(read, head[:size], kind) is None
        assert answer(model_read, head[:size], kind) is None


@given(st.binary(max_size=12) | st.integers(0, 20).map(lambda n: b"\0\0\0" + bytes([n]) + b"\0\0\0\4"))
def test_borders_of_any_bytes(data: bytes) -> None:
    found = ffi.new("struct remoting_frame *")
    try:
        size = model.border(data)
    except Malformed:
        assert lib.remoting_frame(data, len(data), found) == BAD
    else:
        expected = WHOLE if size is not None and len(data) >= max(size, 8) else PART
        assert lib.remoting_frame(data, len(data), found) == expected


@pytest.mark.parametrize("kind", [JSON, BINARY])
@pytest.mark.parametrize("seed", range(4))
def test_damaged_headers(kind: int, seed: int) -> None:
    """Bytes changed, lost, doubled or swapped: both read the same, or both refuse."""
    rng = random.Random(seed)
    fields = {b"topic": b"T", b"properties": b"KEYS\1k\2TAGS\1t", b"queueId": b"3"}
    header = Header(10, 9, 407, 99, 0, b"why", fields)
    whole = model.write_json(header) if kind == JSON else model.write_binary(header)
    agreed = 0
    for _ in range(5000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            change = rng.randrange(4)
            if change == 0:
                data[at] = rng.choice([rng.randrange(256), *b'{}[]",:\\un0-'])
            elif change == 1 and len(data) > 1:
                del data[at]
            elif change == 2:
                data[at:at] = data[at : at + rng.randrange(1, 9)]
            else:
                other = rng.randrange(len(data))
                data[at], data[other] = data[other], data[at]
        by_c, by_model = answer(read, bytes(data), kind), answer(model_read, bytes(data), kind)
        assert by_c == by_model, bytes(data)
        agreed += by_c is not None
    assert agreed > 100


@given(st.integers(-(1 << 65), 1 << 65), st.sampled_from(["", "+", "0", " ", "x", "."]), st.booleans())
def test_numbers(number: int, odd: str, before: bool) -> None:
    """Fields hold whole numbers of 64 bits, as Java's Long.parseLong takes them."""
    written = (odd + str(number) if before else str(number) + odd).encode()
    result = ffi.new("int64_t *")
    good = lib.remoting_number({"data": ffi.from_buffer("uint8_t[]", written), "size": len(written)}, result)
    try:
        expected = int(written) if b" " not in written else None
    except ValueError:
        expected = None
    if expected is not None and not -(1 << 63) <= expected < 1 << 63:
        expected = None
    assert (result[0] if good else None) == expected
