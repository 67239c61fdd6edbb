"""Goal: properties strings are read as RocketMQ 4.9.1 and later read them, and the hash is Java's String.hashCode.

Method: plain Python models beside the C functions, known values from the JDK, and arbitrary bytes.
"""

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.native._core import ffi, lib

# Bytes that make properties, separators and odd segments likely.
STRINGS = st.lists(st.sampled_from([b"\1", b"\2", b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\xff", b"k v"])).map(b"".join)

# new String(bytes, UTF_8).hashCode() of OpenJDK 17.
JAVA_VALUES = [
    (b"TagA", 2598919),
    (b"TagB", 2598920),
    (b"TagJ", 2598928),
    (b"d", 100),
    (b"\xe8\xae\xa2\xe5\x8d\x95", 1129459),
    (b"\xf0\x9f\x9a\x80x-1", 1280756569),
    (b"\xed\xa0\x80", 65533),
    (b"\xed\xa0\x80A", 2031588),
    (b"\xed\xa0", 65533),
    (b"\xed", 65533),
    (b"\xffA", 2031588),
    (b"\xe2\x82A", 2031588),
    (b"\xf0\x90\x80A", 2031588),
    (b"\xf0\x90\x80", 65533),
    (b"\xc0\xaf", 2097056),
    (b"\xf4\x90\x80\x80", 2017367872),
    (b"\xf5\x80\x80\x80", 2017367872),
    (b"\xe0\x80\x80", 65074269),
    (b"\xed\xbf\xbfa", 2031620),
    (b"cafe\xcc\x81\xff\xc3", 545622948),
]


def pairs(properties: bytes) -> list[tuple[bytes, bytes]]:
    """Model: the pairs of a string, in order."""
    found = []
    for segment in properties.split(b"\2"):
        name, split, value = segment.partition(b"\1")
        if split and name and value:
            found.append((name, value))
    return found


def text(piece: ffi.CData) -> bytes | None:
    """The bytes of a slice; None if it points nowhere."""
    return None if piece.data == ffi.NULL else bytes(ffi.buffer(piece.data, piece.size))


def java_hash(value: bytes, start: int = 0) -> int:
    """Model: h = 31 h + unit over what Java decodes from UTF-8, wrapped to 32 bits, signed."""
    for unit in memoryview(java_decode(value).encode("utf-16-le", "surrogatepass")).cast("H"):
        start = start * 31 + unit & 0xFFFFFFFF
    return start - (1 << 32) if start >> 31 else start


def java_decode(value: bytes) -> str:
    """Model: Python replaces bad parts as Java does, except encoded surrogates: Java takes ED A0 80 for one bad part, Python
    for three."""
    out = ""
    at = 0
    while at < len(value):
        if value[at] == 0xED and at + 1 < len(value) and 0xA0 <= value[at + 1] <= 0xBF:
            whole = at + 2 < len(value) and 0x80 <= value[at + 2] <= 0xBF
            out += "\ufffd"
            at += 3 if whole else 2
            continue
        end = at + 1
        while end < len(value) and 0x80 <= value[end] <= 0xBF and value[at] >= 0x80:
            end += 1
        out += value[at:end].decode("utf-8", "replace")
        at = end
    return out


@given(STRINGS | st.binary(max_size=80))
def test_next_and_get(properties: bytes) -> None:
    """Stepping gives the model's pairs; looking a name up gives its last value."""
    data = ffi.from_buffer("uint8_t[]", properties)
    position, name, value = ffi.new("uint32_t *"), ffi.new("struct slice *"), ffi.new("struct slice *")
    found = []
    while lib.properties_next(data, len(properties), position, name, value):
        found.append((text(name), text(value)))
    assert found == pairs(properties)
    last = dict(pairs(properties))
    for wanted in (*last, b"TAGS", b"absent"):
        assert text(lib.properties_get(data, len(properties), wanted, len(wanted))) == last.get(wanted)


@given(STRINGS)
def test_known(properties: bytes) -> None:
    """The one-pass reader finds the same values."""
    known = ffi.new("struct known_properties *")
    data = ffi.from_buffer("uint8_t[]", properties)
    lib.properties_known(data, len(properties), known)
    last = dict(pairs(properties))
    assert text(known.tags) == last.get(b"TAGS")
    assert text(known.keys) == last.get(b"KEYS")
    assert text(known.unique_key) == last.get(b"UNIQ_KEY")


def test_hash_of_known_values() -> None:
    """Values of the JDK (17): ASCII, a CJK text, a supplementary character, bad and surrogate bytes."""
    for value, expected in JAVA_VALUES:
        assert lib.java_hash(0, value, len(value)) == expected, value


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda value: value.encode("utf-8", "surrogatepass")))
def test_hash_of_any_bytes(value: bytes) -> None:
    """Arbitrary bytes, then arbitrary text with lone surrogates and characters beyond the basic plane."""
    assert lib.java_hash(0, value, len(value)) == java_hash(value)


@given(st.lists(st.sampled_from([0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xE4, 0xED, 0xF0, 0xF4, 0xF5, 0x90])))
def test_hash_of_broken_sequences(codes: list[int]) -> None:
    """Sequences cut short and mixed, at every boundary of UTF-8's table."""
    value = bytes(codes)
    assert lib.java_hash(0, value, len(value)) == java_hash(value)


@given(st.text(max_size=20), st.text(max_size=20))
def test_hash_continues(prefix: str, rest: str) -> None:
    """A prefix's hash can be continued: topic#key needs the topic's part once."""
    first, second = prefix.encode("utf-8", "replace"), rest.encode("utf-8", "replace")
    start = lib.java_hash(0, first, len(first))
    assert lib.java_hash(start, second, len(second)) == java_hash(first + second)


def test_index_keys_of_a_real_store() -> None:
    """Hashes found in an IndexFile that RocketMQ 4.9.3 wrote (absolute values)."""
    for key, expected in [
        (b"T_one#7F0000016B085FFD2B27679AE2430000", 0x179F75C5),
        (b"T_one#key1", 0x5E78EAC6),
        (b"T_one#key2", 0x5E78EAC5),
    ]:
        assert abs(lib.java_hash(0, key, len(key))) == expected
