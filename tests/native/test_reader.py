"""Goal: a reader delivers every published message of its queues once and in order, and nothing else; never a damaged one.
Method: a store composed by hand, and faults put into its bytes."""

from __future__ import annotations

import gc
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import Closed, CorruptRecord, StoreError, StoreUnsupported
from orbitmq.native._types import Message, Reader
from orbitmq.store.commit_log import record
from tests.native.composed_store import ComposedStore

RECORD_FIXED = 91  # bytes of a record beside body, topic and properties


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    return ComposedStore(tmp_path / "store")


def drain(reader: Reader, most: int = 7) -> list[Message]:
    messages: list[Message] = []
    while batch := reader.messages(most):
        messages += batch
    return messages


def test_a_message_shows_all_that_was_stored(store: ComposedStore) -> None:
    slot = store.add_topic("orders", 4)
    sent = {"TAGS": "paid", "KEYS": "o-1  o-2", "colour": "bl\u00fc"}
    physical = store.append(
        "orders", slot + 2, b"hello", properties=sent, flag=0xFFFFFFFF, born_ms=5, store_ms=9, store_host=("127.0.0.1", 10911)
    )
    store.publish()
    reader = store.reader()
    reader.add(slot + 2, 0)
    message = reader.message(10)
    assert message is not None
    assert (message.topic, message.queue, message.offset, message.physical_offset) == ("orders", 2, 0, physical)
    assert (message.tags, message.keys, message.properties) == ("paid", ["o-1", "o-2"], sent)
    assert (message.born_ms, message.stored_ms, message.flag, message.reconsume_times) == (5, 9, -1, 0)
    assert message.body == b"hello" and bytes(message) == b"hello" and message.body.readonly
    assert message.id == str(record.MessageId("127.0.0.1", 10911, physical))
    assert message.size == len(message.record())
    assert "orders" in repr(message)
    assert reader.message(10) is None


def test_a_message_without_properties(store: ComposedStore) -> None:
    slot = store.add_topic("bare", 1)
    store.append("bare", slot, b"")
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    (message,) = reader.messages(1)
    assert (message.tags, message.keys, message.properties, bytes(message)) == (None, [], {}, b"")


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_message_once_and_in_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any interleaving of appends, publications and polls of any size, over files of log and ConsumeQueue."""
    store = ComposedStore(tmp_path_factory.mktemp("store") / "s", log_file_size=1 << 12)
    slot = store.add_topic("t", 3)
    reader = store.reader()
    for queue in range(3):
        reader.add(slot + queue, 0)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    got: dict[int, list[bytes]] = {0: [], 1: [], 2: []}

    def poll(most: int) -> bool:
        kind = data.draw(st.sampled_from(["messages", "message"]))
        batch = reader.messages(most) if kind == "messages" else [m for m in [reader.message(most)] if m is not None]
        for message in batch:
            assert message.offset == len(got[message.queue])
            got[message.queue].append(bytes(message))
        positions = reader.positions()
        assert positions == [len(got[queue]) for queue in range(3)]
        return bool(batch)

    for step in range(data.draw(st.integers(1, 12))):
        for number in range(data.draw(st.integers(0, 60))):
            queue = data.draw(st.integers(0, 2))
            body = b"%d-%d" % (step, number) + b"x" * data.draw(st.sampled_from([0, 1, 300]))
            store.append("t", slot + queue, body)
            sent[queue].append(body)
        if data.draw(st.booleans()) and store.next:
            store.publish()
        for _ in range(data.draw(st.integers(0, 3))):
            poll(data.draw(st.integers(1, 40)))
    if store.next:
        store.publish()
    while poll(1000):
        pass
    assert got == sent


def test_nothing_above_the_published_offset(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    reader = store.reader()
    reader.add(slot, 0)
    store.append("t", slot, b"one")
    store.publish()
    store.append("t", slot, b"two")
    assert [bytes(m) for m in drain(reader)] == [b"one"]
    assert not reader.ready()
    store.publish()
    assert reader.ready()
    assert reader.bodies(5, 1 << 30) == [b"two"]


def test_tags_are_compared_by_code_and_by_text(store: ComposedStore) -> None:
    """"Aa" and "BB" have one Java hash."""
    slot = store.add_topic("t", 1)
    for tag in ["Aa", "BB", "C", "", "Aa"]:
        store.append("t", slot, tag.encode(), properties={"TAGS": tag} if tag else {})
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    reader.filter([b"Aa", b"C"])
    assert [bytes(m) for m in drain(reader, 2)] == [b"Aa", b"C", b"Aa"]
    assert reader.positions() == [5]
    reader.filter([])
    reader.seek(0, 0)
    assert len(drain(reader)) == 5


def test_a_filter_holds_messages_back(store: ComposedStore) -> None:
    """With tags, both must agree. What is held back costs nothing of the bytes of a fetch, and is not checked."""
    slot = store.add_topic("t", 1)
    for number in range(100):
        properties = {"n": str(number), "TAGS": "odd" if number % 2 else "even"}
        physical = store.append("t", slot, b"%04d" % number * 25, properties=properties)
    path = store.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[physical + 88] ^= 1  # the body of the last one, which the filter holds back
    path.write_bytes(data)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    reader.sql(b"n BETWEEN 10 AND 98 AND NOT (n > 12 AND n < 90)")
    expected = [10, 11, 12, *range(90, 99)]
    assert [int(body[:4]) for body in reader.bodies(100, 2500)] == expected
    assert reader.positions() == [100] and not reader.ready()
    reader.filter([b"odd"])
    reader.seek(0, 0)
    assert [int(bytes(m)[:4]) for m in drain(reader, 2)] == [n for n in expected if n % 2]
    reader.filter([])
    reader.sql(b"n < 0")
    reader.seek(0, 0)
    assert reader.messages(1000) == [] and reader.positions() == [100]
    reader.sql(None)
    reader.seek(0, 97)
    assert len(reader.messages(2)) == 2
    with pytest.raises(CorruptRecord):
        reader.messages(2)
    with pytest.raises(ValueError, match="no filter"):
        reader.sql(b"n <")


@pytest.mark.parametrize("where", ["body", "magic", "size", "place", "properties size"])
def test_damage_is_never_delivered(store: ComposedStore, where: str) -> None:
    """One bit is flipped in the second of three messages. The error names it, and the others arrive."""
    slot = store.add_topic("t", 2)
    store.append("t", slot, b"first")
    physical = store.append("t", slot, b"second", properties={"a": "b"})
    store.append("t", slot, b"third")
    store.append("t", slot + 1, b"elsewhere")
    at = {"body": 88, "magic": 4, "size": 3, "place": 35, "properties size": 88 + 6 + 1 + 1 + 1}[where]
    path = store.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[physical + at] ^= 1
    path.write_bytes(data)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    reader.add(slot + 1, 0)
    assert reader.bodies(10, 1 << 30) == [b"first"]
    with pytest.raises(CorruptRecord) as caught:
        reader.bodies(10, 1 << 30)
    error = caught.value
    assert (error.offset, error.topic, error.queue, error.queue_offset) == (physical, "t", 0, 1)
    assert reader.bodies(10, 1 << 30) == [b"elsewhere"]
    with pytest.raises(CorruptRecord):
        reader.bodies(10, 1 << 30)
    reader.seek(0, 2)
    assert reader.bodies(10, 1 << 30) == [b"third"]


@settings(max_examples=60, deadline=None)
@given(flips=st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 14), st.integers(1, 255)), min_size=1, max_size=20))
def test_whatever_is_damaged_nothing_wrong_is_delivered(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[bool, int, int]]
) -> None:
    """Bytes of log and ConsumeQueue are changed at random: each body that arrives is the one that was sent there."""
    store = ComposedStore(tmp_path_factory.mktemp("store") / "s", log_file_size=1 << 14)
    slot = store.add_topic("t", 1)
    sent = [b"%d" % number + b"-" * number for number in range(45)]
    for body in sent:
        store.append("t", slot, body, properties={"TAGS": "a", "KEYS": "k"})
    store.publish()
    log = store.root / "commitlog" / f"{0:020d}"
    queue = store.root / "consumequeue" / "t" / "0" / f"{0:020d}"
    for in_log, at, change in flips:
        path = log if in_log else queue
        data = bytearray(path.read_bytes())
        data[at % (store.end if in_log else 20 * len(sent))] ^= change
        path.write_bytes(data)
    reader = store.reader()
    reader.add(slot, 0)
    while reader.positions()[0] < len(sent):
        try:
            batch = reader.messages(10)
        except StoreError as error:
            reader.seek(0, error.queue_offset + 1)
            continue
        for message in batch:
            assert isinstance(message.properties, dict) and isinstance(message.keys, list) and message.topic is not None
            assert bytes(message) == sent[message.offset]


def test_a_unit_that_points_to_another_topics_record(store: ComposedStore) -> None:
    """Its queue, queue offset and size may be right; its topic is not."""
    own, other = store.add_topic("own", 1), store.add_topic("oth", 1)
    store.append("own", own, b"ours")
    place = store.append("oth", other, b"theirs")
    size = len(record.encode("oth", b"theirs"))
    store.put_unit("own", own, 0, place, size, 0)
    store.publish()
    reader = store.reader()
    reader.add(own, 0)
    with pytest.raises(CorruptRecord) as caught:
        reader.bodies(1, 1 << 30)
    assert caught.value.offset == place


@pytest.mark.parametrize("sys_flag", [0, 1])
def test_the_flag_of_a_compressed_body_is_checked(store: ComposedStore, sys_flag: int) -> None:
    """The body's CRC does not cover the flag, without which the body would be another one; with it, too."""
    slot = store.add_topic("t", 1)
    physical = store.append("t", slot, zlib.compress(b"a" * 500), sys_flag=sys_flag)
    store.write(physical + 39, bytes([1 - sys_flag]))
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    with pytest.raises(CorruptRecord):
        reader.bodies(1, 1 << 30)
    reader.verify = False
    assert len(reader.bodies(1, 1 << 30)) == 1, "who does not want checks gets what there is"


def test_an_unchecked_body_is_an_explicit_choice(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    physical = store.append("t", slot, b"good")
    store.write(physical + 88, b"g00d")
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    assert reader.verify
    reader.verify = False
    assert reader.bodies(1, 1 << 30) == [b"g00d"]


@pytest.mark.parametrize(
    "unit", [(1 << 60, 100, 0), (0, 0x7FFFFFFF, 0), (0, 0, 0), ((1 << 16) - 4, 100, 0), ((1 << 64) - 1, 100, 0)]
)
def test_a_false_unit_is_an_error(store: ComposedStore, unit: tuple[int, int, int]) -> None:
    """ConsumeQueue units that point nowhere, outside their file, or have a wrong size."""
    slot = store.add_topic("t", 1)
    store.append("t", slot, b"x")
    store.put_unit("t", slot, 0, *unit)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    with pytest.raises(StoreError):
        reader.messages(10)


def test_retention_moves_the_reader_and_counts(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    for number in range(10):
        store.append("t", slot, b"%d" % number)
    store.min[slot] = 4
    store.publish()
    reader = store.reader()
    reader.add(slot, 1)
    assert reader.bounds(0) == (4, 10)
    assert reader.bodies(2, 1 << 30) == [b"4", b"5"]
    assert reader.skipped == 3


def test_bytes_bound_what_bodies_are_taken(store: ComposedStore) -> None:
    """The record that passes the bound is the last one, and one is always taken."""
    slot = store.add_topic("t", 2)
    for number in range(20):
        store.append("t", slot + number % 2, b"%3d" % number * 100)
    store.publish()
    reader = store.reader()
    for queue in range(2):
        reader.add(slot + queue, 0)
    record = reader.messages(1)[0].size - RECORD_FIXED
    counts = [len(reader.bodies(100, bound)) for bound in (1, record, record + 1, 3 * record)]
    assert counts == [1, 1, 2, 3]
    rest = reader.bodies(100, 1 << 30)
    assert len(rest) == 20 - 8 and not reader.bodies(100, 1)


def test_bytes_bound_what_was_gathered_for_another_call(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    for number in range(5):
        store.append("t", slot, b"%3d" % number * 100)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    assert reader.message(5)
    assert [len(reader.bodies(100, bound)) for bound in (1, 301)] == [1, 2]
    assert reader.positions() == [4]


def test_messages_outlive_reader_and_file(store: ComposedStore) -> None:
    """A live message keeps its file mapped; the last one releases it."""
    slot = store.add_topic("t", 1)
    for number in range(300):
        store.append("t", slot, b"%d" % number + b"." * 1000)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    messages = drain(reader)
    views = [message.body for message in messages[::50]]
    files = {message.physical_offset // store.log_file_size for message in messages[::50]}
    reader.close()
    for path in (store.root / "commitlog").iterdir():
        path.unlink()
    del messages
    gc.collect()
    assert 1 < mapped(store) == len(files)
    assert [bytes(view[:3]).rstrip(b".") for view in views] == [b"0", b"50", b"100", b"150", b"200", b"250"]
    with pytest.raises(Closed):
        reader.messages(1)
    del reader, views
    gc.collect()
    assert mapped(store) == 0


def mapped(store: ComposedStore) -> int:
    return sum(f"{store.root}/commitlog" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_search_by_store_time(store: ComposedStore) -> None:
    """Exact match first, then the nearer neighbour, the left one in a tie; outside: the first or the last."""
    slot = store.add_topic("t", 1)
    reader = store.reader()
    reader.add(slot, 0)
    assert reader.search_time(0, 5) == 0
    for ms in [100, 200, 200, 200, 300, 310]:
        store.append("t", slot, b"x", store_ms=ms)
    store.publish()
    asked = [0, 100, 149, 150, 151, 200, 250, 251, 305, 310, 9999]
    assert [reader.search_time(0, ms) for ms in asked] == [0, 0, 0, 0, 1, 1, 3, 4, 4, 5, 5]


def test_a_record_by_its_physical_offset(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    places = [store.append("t", slot, b"%d" % number) for number in range(3)]
    store.publish()
    reader = store.reader()
    assert [bytes(reader.record(place)) for place in places] == [b"0", b"1", b"2"]
    for nowhere in [places[1] + 1, store.end, store.log_file_size - 1, 1 << 50]:
        with pytest.raises(StoreError):
            reader.record(nowhere)


def packed(body: bytes, codec: str) -> bytes:
    """As RocketMQ's clients compress it."""
    if codec == "zlib":
        return zlib.compress(body)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return bytes(sink.getvalue())


# Bits of sysFlag.
COMPRESSIONS = {"zlib": 0x1, "zlib of 5.x": 0x301, "lz4": 0x101, "zstd": 0x201}


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda codec: packed(bytes((64 << 20) + 1), codec),
        lambda codec: packed(bytes(5000), codec)[:-1],
        lambda codec: packed(bytes(5000), "zstd" if codec == "zlib" else "zlib"),
        lambda codec: b"plain",
        lambda codec: b"",
    ],
    ids=["bomb", "cut off", "another", "plain", "empty"],
)
def test_a_compressed_body_that_is_too_much_or_none(tmp_path: Path, kind: str, spoil: Callable[[str], bytes]) -> None:
    """Goal: no producer can fill its consumers' memory with a small record, or stop them with a body that is not what it says:
    it comes as it is stored, whichever way it is read."""
    store = ComposedStore(tmp_path / "large", log_file_size=1 << 20)
    slot = store.add_topic("t", 1)
    sent = spoil(kind.split(maxsplit=1)[0])
    store.append("t", slot, sent, sys_flag=COMPRESSIONS[kind])
    store.append("t", slot, b"behind")
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    (bad, _) = messages = reader.messages(10)
    assert [bytes(each) for each in messages] == [sent, b"behind"]
    assert (bad.body, len(bad), bad.sys_flag) == (sent, len(sent), COMPRESSIONS[kind])
    reader.seek(0, 0)
    assert reader.bodies(10, 1 << 30) == [sent, b"behind"]


def test_what_fails_otherwise_says_nothing_of_the_body(store: ComposedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as Ctrl-C while it is decompressed, and no memory."""
    slot = store.add_topic("t", 1)
    store.append("t", slot, zlib.compress(b"a" * 5000), sys_flag=1)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    (message,) = reader.messages(1)
    for error in (KeyboardInterrupt, MemoryError, RuntimeError):

        def fails(error: type[BaseException] = error) -> None:
            raise error

        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(zlib, "decompressobj", fails)
            bytes(message)
    assert bytes(message) == b"a" * 5000


def test_compressed_bodies_arrive_as_they_were_sent(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    store.append("t", slot, zlib.compress(b"a" * 5000), sys_flag=1)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    (first,) = reader.messages(2)
    assert bytes(first) == b"a" * 5000 and first.body == b"a" * 5000


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_whatever_compresses_them(store: ComposedStore, kind: str) -> None:
    slot = store.add_topic("t", 1)
    bodies = [b"a" * 5000, bytes(range(256)) * 300, b"x", b""]
    for body in bodies:
        store.append("t", slot, packed(body, kind.split(maxsplit=1)[0]), sys_flag=COMPRESSIONS[kind])
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    assert [bytes(each) for each in reader.messages(10)] == bodies
    reader.seek(0, 0)
    assert reader.bodies(10, 1 << 30) == bodies


def test_a_compression_that_nobody_knows(store: ComposedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = store.add_topic("t", 1)
    store.append("t", slot, b"x", sys_flag=0x401)
    store.append("t", slot, packed(b"x", "lz4"), sys_flag=0x101)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    unknown, without = reader.messages(2)
    with pytest.raises(StoreUnsupported, match="0x400, and only zlib, lz4 and zstd are known"):
        bytes(unknown)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StoreUnsupported, match="lz4 needs pyarrow") as caught:
        bytes(without)
    assert "orbitmq[arrow]" in str(caught.value)


def test_offline_cursors_read_a_range(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    for number in range(120):
        store.append("t", slot, b"%d" % number)
    reader = Reader(store=str(store.root), log_file_size=store.log_file_size, queue_file_units=50)
    reader.add_offline("t", 0, 40, 110)
    assert [int(bytes(m)) for m in drain(reader)] == list(range(40, 110))
    assert reader.names() == ["t"]


def test_ten_thousand_queues(tmp_path: Path) -> None:
    store = ComposedStore(tmp_path / "s", queues=10_240)
    slot = store.add_topic("wide", 10_000)
    reader = store.reader()
    for queue in range(10_000):
        reader.add(slot + queue, 0)
    for queue in [9_999, 3, 5_000]:
        store.append("wide", slot + queue, b"%d" % queue)
    store.publish()
    assert sorted(int(body) for body in reader.bodies(100, 1 << 30)) == [3, 5_000, 9_999]
    assert reader.bodies(100, 1 << 30) == []


def test_wrong_arguments(store: ComposedStore) -> None:
    reader = store.reader()
    calls: list[tuple[Any, tuple[Any, ...], type[Exception]]] = [
        (reader.add, (999, 0), OSError),
        (reader.add, (-1, 0), OverflowError),
        (reader.seek, (0, 0), IndexError),
        (reader.messages, ("x",), TypeError),
        (reader.filter, (["text"],), TypeError),
        (Message.from_record, (b"short",), CorruptRecord),
        (Reader, (), ValueError),
    ]
    for call, arguments, kind in calls:
        with pytest.raises(kind):
            call(*arguments)
