"""Goal: records are RocketMQ's, byte for byte; whatever is in a buffer, reading it is safe; no damage goes unnoticed.

Method: a record that RocketMQ 4.9.3 wrote, a plain Python model, round trips, arbitrary bytes and flipped bits. Buffers end
where the readable memory ends (a page without access follows), so that reading on is a crash, not luck.
"""

import ctypes
import ipaddress
import mmap
import random
import socket
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import PropertyError, UsageError
from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log import record
from orbitmq.store.commit_log.record import Fault, MessageId, Record

# Written by RocketMQ 4.9.3: topic T_one, queue 1, tag TagA, keys "key1 key2", color=blue, body "hello", at offset 0.
FOREIGN = bytes.fromhex(
    "000000c9 daa320a7 3610a686 00000001 00000000 0000000000000000 0000000000000000"
    "00000000 000001a1fc02ca44 7f000001 000083f6 000001a1fc02ca78 7f000001 00002a9f"
    "00000000 0000000000000000 00000005 68656c6c6f 05 545f6f6e65 0064"
    "636f6c6f7201626c756502 4b455953016b657931206b65793202"
    "554e49515f4b45590137463030303030313642303835464644324232373637394145323433303030 3002"
    "434c55535445520144656661756c74436c757374657202 544147530154616741"
)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
OUR_FLAGS = st.integers(0, 2**32 - 1).map(lambda flags: flags & ~0x30)  # those two say what the hosts are
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\1\2"), min_size=1, max_size=10)
PROPERTIES = st.dictionaries(NAMES.filter(lambda name: name != record.CRC_PROPERTY), NAMES, max_size=5)
TOPICS = st.text("abcXYZ019_-%|", max_size=127)
BODIES = st.binary(max_size=700)
PORTS = st.integers(0, 65535)
HOSTS = st.tuples(st.ip_addresses().map(lambda address: written(address.packed)), PORTS)


def written(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def packed_host(address: str, port: int) -> bytes:
    return ipaddress.ip_address(address).packed + struct.pack(">I", port)


def model(
    topic: str,
    body: bytes,
    *,
    properties: bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    born_ms: int = 0,
    store_ms: int = 0,
    born_host: tuple[str, int] = ("127.0.0.1", 0),
    store_host: tuple[str, int] = ("127.0.0.1", 0),
) -> bytes:
    """A record of OrbitMQ's in plain Python."""
    own = properties + b"\2" if properties else b""
    hosts = [packed_host(*host) for host in (born_host, store_host)]
    wider = [len(host) - 8 for host in hosts]
    sys_flag |= 0x10 * (wider[0] > 0) | 0x20 * (wider[1] > 0)
    name = topic.encode()
    record_bytes = (
        struct.pack(">II", 91 + sum(wider) + len(body) + len(name) + len(own) + 20, 0xDAA320A7)
        + struct.pack(">III", zlib.crc32(body) & 0x7FFFFFFF, queue_id, flag)
        + struct.pack(">QQI", queue_offset, physical_offset, sys_flag)
        + struct.pack(">Q", born_ms)
        + hosts[0]
        + struct.pack(">Q", store_ms)
        + hosts[1]
        + struct.pack(">IQ", reconsume_times, prepared_offset)
        + struct.pack(">I", len(body))
        + body
        + struct.pack(">B", len(name))
        + name
        + struct.pack(">H", len(own) + 20)
        + own
    )
    digits = f"{zlib.crc32(record_bytes) & 0x7FFFFFFF:010d}"[::-1]
    return record_bytes + b"__CRC32#\1" + digits.encode() + b"\2"


class Cliff:
    """Memory that ends at a page that cannot be read."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 5 * mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(address + 4 * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0

    def put(self, data: bytes) -> memoryview:
        """Data placed so that its end is the last byte that can be read."""
        start = 4 * mmap.PAGESIZE - len(data)
        view = memoryview(self._memory)[start : 4 * mmap.PAGESIZE]
        view[:] = data
        return view


CLIFF = Cliff()


@pytest.fixture(params=[3, 2, 1, 0], ids=["fold_wide", "fold_pairs", "fold", "tables"], scope="module", autouse=True)
def way(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Every implementation of CRCs."""
    lib.crc32_use(request.param)
    yield
    lib.crc32_use(3)


def good(result: Record | Fault) -> Record:
    """The record, where there must be one."""
    assert isinstance(result, Record), result
    return result


def test_foreign_record() -> None:
    """Every field of the record that RocketMQ wrote, and its message id."""
    assert len(FOREIGN) == 201
    found = good(record.check(CLIFF.put(FOREIGN), physical_offset=0))
    assert (found.size, found.topic, found.queue_id, found.body) == (201, "T_one", 1, b"hello")
    assert (found.body_crc, found.queue_offset, found.physical_offset) == (0x3610A686, 0, 0)
    assert (found.born_ms, found.store_ms) == (0x1A1FC02CA44, 0x1A1FC02CA78)
    assert (found.born_host, found.store_host) == (("127.0.0.1", 0x83F6), ("127.0.0.1", 10911))
    assert found.properties == {
        "color": "blue",
        "KEYS": "key1 key2",
        "UNIQ_KEY": "7F0000016B085FFD2B27679AE2430000",
        "CLUSTER": "DefaultCluster",
        "TAGS": "TagA",
    }
    assert str(found.message_id) == "7F00000100002A9F0000000000000000"
    known = ffi.new("struct known_properties *")
    lib.properties_known(ffi.from_buffer(found.raw_properties), len(found.raw_properties), known)
    assert lib.java_hash(0, known.tags.data, known.tags.size) == 0x27A807


@given(
    TOPICS,
    BODIES,
    PROPERTIES,
    st.fixed_dictionaries(
        {
            "queue_id": U32,
            "queue_offset": U64,
            "physical_offset": U64,
            "flag": U32,
            "sys_flag": OUR_FLAGS,
            "reconsume_times": U32,
            "prepared_offset": U64,
            "born_ms": U64,
            "store_ms": U64,
            "born_host": HOSTS,
            "store_host": HOSTS,
        }
    ),
)
def test_ours_is_the_models(topic: str, body: bytes, properties: dict[str, str], rest: dict[str, int]) -> None:
    """Encoding and finishing gives the model's bytes, and reading them gives back what went in."""
    packed = record.pack_properties(properties)
    made = record.encode(topic, body, properties=packed, **rest)  # type: ignore[arg-type]
    assert made == model(topic, body, properties=packed, **rest)  # type: ignore[arg-type]
    found = good(record.check(CLIFF.put(made), physical_offset=rest["physical_offset"]))
    assert (found.topic, bytes(found.body), found.properties) == (topic, body, properties)
    assert {name: getattr(found, name) for name in rest} == {**rest, "sys_flag": found.sys_flag}
    six = [":" in host[0] for host in (found.born_host, found.store_host)]
    assert found.sys_flag == rest["sys_flag"] | 0x10 * six[0] | 0x20 * six[1]
    assert MessageId.parse(str(found.message_id)) == found.message_id


@pytest.mark.parametrize("size", [0, 1, 15, 16, 511, 512, 513, 4096, 65537, 1 << 20])
@pytest.mark.parametrize("born", ["127.0.0.1", "fd00::5"])
@pytest.mark.parametrize("stored", ["10.1.2.3", "fd00::6"])
def test_body_sizes(size: int, born: str, stored: str) -> None:
    """Both ways of computing the record's CRC, around the size where they change; and each place of the last hole."""
    body = random.Random(size).randbytes(size)
    rest = {"queue_offset": 2**40 + 1, "physical_offset": 2**41 + 3, "store_ms": 1_700_000_000_123}
    where = {"born_host": (born, 40_000), "store_host": (stored, 10_911)}
    made = record.encode("orders", body, properties=b"TAGS\1paid", **rest, **where)
    assert made == model("orders", body, properties=b"TAGS\1paid", **rest, **where)
    good(record.check(made, physical_offset=2**41 + 3))


def test_largest_properties() -> None:
    """The limit of a sender's properties leaves room for the separator and the CRC property, and no more."""
    packed = b"n\1" + b"v" * (32767 - 21 - 2)
    made = record.encode("orders", b"x", properties=packed)
    assert len(good(record.check(made, physical_offset=0)).raw_properties) == 32767


def test_trailing_separator_is_dropped() -> None:
    """Clients that send one get the record of clients that do not."""
    assert record.encode("t", b"x", properties=b"a\1b\2") == record.encode("t", b"x", properties=b"a\1b")


@pytest.mark.parametrize("body_size", [3, 600])
@pytest.mark.parametrize("properties", [b"", b"TAGS\1paid\2KEYS\1o-1"])
@pytest.mark.parametrize("born", ["127.0.0.1", "fd00::5"])
def test_any_flipped_bit_is_found(body_size: int, properties: bytes, born: str) -> None:
    """Every bit of a record of OrbitMQ's, those of the CRC property included."""
    rest = {"properties": properties, "physical_offset": 4096, "store_ms": 77, "born_host": (born, 40_000)}
    whole = record.encode("orders", bytes(range(200)) * 3, **rest)
    whole = record.encode("orders", whole[:body_size], **rest)
    view = CLIFF.put(whole)
    for at in range(len(whole)):
        for bit in range(8):
            view[at] ^= 1 << bit
            assert isinstance(record.check(view, physical_offset=4096), Fault), (at, bit)
            view[at] ^= 1 << bit
    good(record.check(view, physical_offset=4096))


def test_faults_by_name() -> None:
    """Which fault each kind of damage gives, with foreign records (without the CRC property)."""

    def fault(data: bytes, at: int = 0) -> Record | Fault:
        return record.check(CLIFF.put(data), physical_offset=at)

    ours = record.encode("orders", b"hello")
    assert fault(bytes(200)) is Fault.END
    assert fault(struct.pack(">II", 3752, 0xCBD43194)) is Fault.IS_BLANK
    assert fault(b"") is fault(ours[:7]) is Fault.BAD_SIZE
    assert fault(ours[:4] + b"\xda\xa3\x20\xab" + ours[8:]) is Fault.BAD_MAGIC
    assert fault(ours[:-1]) is Fault.BAD_SIZE
    assert fault(ours, at=8) is Fault.BAD_PLACE
    assert fault(FOREIGN.replace(b"hello", b"jello")) is Fault.BAD_BODY_CRC
    assert fault(ours.replace(b"orders", b"odrers")) is Fault.BAD_CRC
    assert fault(ours[:-1] + b"\3") is Fault.BAD_CRC
    assert isinstance(fault(FOREIGN.replace(b"blue", b"glue")), Record)
    assert [kind for kind in Fault if not kind.damage] == [Fault.IS_BLANK, Fault.END]


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Nothing but a record or a fault, and nothing read behind the end."""
    assert isinstance(record.check(CLIFF.put(data), physical_offset=0), Record | Fault)


@given(st.data(), st.sampled_from([FOREIGN, record.encode("orders", b"x" * 40, properties=b"TAGS\1paid")]))
def test_any_header(data: st.DataObject, base: bytes) -> None:
    """A record with bytes overwritten, cut anywhere: false sizes are the dangerous ones."""
    bent = bytearray(base)
    for _ in range(data.draw(st.integers(1, 6))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    cut = CLIFF.put(bytes(bent[: data.draw(st.integers(0, len(bent)))]))
    assert isinstance(record.parse(cut), Record | Fault)
    assert isinstance(record.check(cut, physical_offset=0), Record | Fault)


@given(BODIES, st.booleans(), st.booleans())
def test_ipv6_hosts(body: bytes, born6: bool, store6: bool) -> None:
    """RocketMQ's records with IPv6 hosts are read, each host by its own bit."""
    born, store = [("2001:db8::1", 5) if six else ("10.0.0.1", 5) for six in (born6, store6)]
    hosts = [record.pack_host(host) for host in (born, store)]
    packed = (
        struct.pack(">III", zlib.crc32(body) & 0x7FFFFFFF, 1, 2)
        + struct.pack(">QQI", 3, 4, 0x10 * born6 + 0x20 * store6)
        + struct.pack(">Q", 6)
        + hosts[0]
        + struct.pack(">Q", 7)
        + hosts[1]
        + struct.pack(">IQI", 8, 9, len(body))
        + body
        + b"\1t\0\0"
    )
    whole = struct.pack(">II", len(packed) + 8, 0xDAA320A7) + packed
    found = good(record.check(CLIFF.put(whole), physical_offset=4))
    assert (found.born_host, found.store_host, found.body) == (born, store, body)
    assert len(str(found.message_id)) == (56 if store6 else 32)
    assert MessageId.parse(str(found.message_id)) == found.message_id


def test_records_are_values() -> None:
    """Frozen, and views that nobody can write through."""
    found = good(record.parse(bytearray(FOREIGN)))
    with pytest.raises(AttributeError):
        found.queue_id = 7  # type: ignore[misc]
    assert found.body.readonly
    assert found._replace(queue_id=7).queue_id == 7


@given(HOSTS, U64)
def test_message_ids(host: tuple[str, int], physical_offset: int) -> None:
    """Ids go to text and back, in either case."""
    made = MessageId(*host, physical_offset)
    assert MessageId.parse(str(made)) == MessageId.parse(str(made).lower()) == made


@pytest.mark.parametrize("text", ["", "12", "g" * 32, "1" * 31, "1" * 33, " " * 32, "1 " * 16])
def test_bad_message_ids(text: str) -> None:
    """Anything else is the caller's mistake, by name."""
    with pytest.raises(UsageError) as caught:
        MessageId.parse(text)
    assert caught.value.id == text


@pytest.mark.parametrize("pair", [("", "v"), ("n", ""), ("a\1", "v"), ("a", "v\2"), ("__CRC32#", "0")])
def test_bad_properties(pair: tuple[str, str]) -> None:
    """Pairs that the format cannot hold are refused, not dropped."""
    with pytest.raises(PropertyError) as caught:
        record.pack_properties(dict([pair]))
    assert caught.value.name == pair[0]


def test_bad_hosts_and_places() -> None:
    """Errors carry the values that they name."""
    for host in (("localhost", 1), ("127.0.0.1", -1)):
        with pytest.raises(UsageError) as caught:
            record.pack_host(host)
        assert caught.value.host == host
    with pytest.raises(IndexError):
        record.parse(b"abc", 4)
