"""Goal: a batch holds the next messages, each once, whatever block, queue, limit, damage or filter lies between two of them.
Method: a store composed by hand, larger than a block, and its messages compared with its columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.client.consumer.arrow import record_batch
from orbitmq.errors import CorruptRecord
from orbitmq.native._types import Message, Reader
from orbitmq.store.commit_log import record
from tests.native.composed_store import ComposedStore

BLOCK = 512  # COLUMNS_BLOCK
COMPRESSED = 1


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    return ComposedStore(tmp_path / "store", log_file_size=1 << 18)


def batches(reader: Reader, most: int = 1 << 16, **more: Any) -> Iterator[pa.RecordBatch]:
    while (batch := record_batch(reader, most, **more)).num_rows:
        batch.validate(full=True)
        yield batch


def row_of(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "physical_offset": message.physical_offset,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "body": bytes(message),
        "born": message.born_ms,
        "stored": message.stored_ms,
        "flag": message.flag,
    }


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    plain = {"born": pa.int64(), "stored": pa.int64()}
    arrays = [array.cast(plain.get(name, array.type)) for name, array in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names).to_pylist()  # type: ignore[no-any-return]


TEXTS = st.none() | st.text(st.characters(codec="utf-8", min_codepoint=3), min_size=1, max_size=40)
SENT = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=300), TEXTS, TEXTS, st.booleans()), min_size=1, max_size=60)


@settings(max_examples=50, deadline=None)
@given(sent=SENT, most=st.integers(1, 70), limit=st.integers(1, 4000))
def test_columns_are_what_the_messages_say(
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[int, bytes, str | None, str | None, bool]],
    most: int,
    limit: int,
) -> None:
    """Any bodies, tags and keys in four queues of two topics, some compressed, in batches of any size."""
    store = ComposedStore(tmp_path_factory.mktemp("s"))
    first, other = store.add_topic("t", 3), store.add_topic("u", 1)
    slots = [first, first + 1, first + 2, other]
    for number, (queue, body, tags, keys, packed) in enumerate(sent):
        pairs = {"KEYS": keys, "a": "b" * (number % 20), "TAGS": tags}
        store.append(
            "u" if queue == 3 else "t",
            slots[queue],
            zlib.compress(body) if packed else body,
            sys_flag=COMPRESSED * packed,
            properties={name: value for name, value in pairs.items() if value},
            born_ms=number,
            flag=number,
        )
    wanted = [row_of(message) for message in store.reader(*slots).messages(1000)]
    found = []
    for batch in batches(store.reader(*slots), most, body_limit=limit):
        assert batch.num_rows <= most
        assert batch.num_rows == 1 or sum(len(body) for body in batch["body"].to_pylist()) <= limit
        found += rows_of(batch)
    place = ["topic", "queue", "offset"]
    assert sorted(found, key=lambda row: [row[name] for name in place]) == sorted(
        wanted, key=lambda row: [row[name] for name in place]
    )


def test_a_batch_takes_all_there_is(store: ComposedStore) -> None:
    """A bit more than four blocks, of two queues and several files, in one batch; each queue in its order."""
    slot = store.add_topic("t", 2)
    for number in range(4 * BLOCK + 100):
        store.append("t", slot + number % 2, b"%d" % number)
    (batch,) = batches(store.reader(slot, slot + 1))
    assert sorted(map(int, batch["body"].to_pylist())) == list(range(4 * BLOCK + 100))
    for queue in range(2):
        offsets = [row["offset"] for row in rows_of(batch) if row["queue"] == queue]
        assert offsets == list(range(2 * BLOCK + 50))


def test_a_small_batch_leaves_the_rest(store: ComposedStore) -> None:
    """What a batch has no room for goes into the next one, and counts as not delivered."""
    slot = store.add_topic("t", 1)
    for number in range(BLOCK + 100):
        store.append("t", slot, b"%d" % number)
    reader = store.reader(slot)
    assert record_batch(reader, 100).num_rows == 100
    assert record_batch(reader, BLOCK, body_limit=150).num_rows == 50 and reader.positions() == [150]
    assert [int(body) for body in reader.bodies(3, 1 << 30)] == [150, 151, 152]
    assert record_batch(reader, 1 << 16)["body"].to_pylist() == [b"%d" % number for number in range(153, BLOCK + 100)]
    assert record_batch(reader, 1 << 16).num_rows == 0 and record_batch(reader, 0).num_rows == 0


@pytest.mark.parametrize("before", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_damage_comes_after_what_was_before_it(store: ComposedStore, before: int) -> None:
    """A damaged record at the edges of a block: the rows before it make a batch, then the error names it, each time again, and
    the queue continues after it."""
    slot = store.add_topic("t", 1)
    for number in range(before):
        store.append("t", slot, b"%d" % number)
    physical = store.append("t", slot, b"bad")
    store.write(physical + 4, b"\0\0\0\1")
    store.append("t", slot, b"behind")
    reader = store.reader(slot)
    if before:
        assert record_batch(reader, 1 << 16)["body"].to_pylist() == [b"%d" % number for number in range(before)]
    for _ in range(2):
        with pytest.raises(CorruptRecord) as caught:
            record_batch(reader, 1 << 16)
        assert caught.value.offset == physical
    assert reader.positions() == [before]
    reader.seek(0, before + 1)
    assert record_batch(reader, 1 << 16)["body"].to_pylist() == [b"behind"]


def test_damage_in_one_queue_is_told_while_others_go_on(store: ComposedStore) -> None:
    """Two queues of several blocks, the first of them damaged in its second block: the second batch begins with the damage."""
    slot = store.add_topic("t", 2)
    for number in range(4 * BLOCK):
        physical = store.append("t", slot, b"%d" % number)
        store.append("t", slot + 1, b"%d" % number)
        if number == BLOCK + 10:
            damaged = physical
    store.write(damaged + 4, b"\0\0\0\1")
    reader = store.reader(slot, slot + 1)
    assert record_batch(reader, 1 << 16).num_rows >= BLOCK
    with pytest.raises(CorruptRecord) as caught:
        record_batch(reader, 1 << 16)
    assert caught.value.offset == damaged
    while reader.positions()[1] < 4 * BLOCK:
        with suppress(CorruptRecord):
            assert set(record_batch(reader, 1 << 16)["queue"].to_pylist()) == {1}
    assert reader.positions() == [BLOCK + 10, 4 * BLOCK]


def test_only_messages_with_a_tag(store: ComposedStore) -> None:
    """A filter leaves a few of several blocks, and buffers no larger than needed."""
    slot = store.add_topic("t", 1)
    for number in range(3 * BLOCK):
        store.append("t", slot, b"%d" % number, properties={"TAGS": "wanted" if number % 300 == 7 else "other"})
    reader = store.reader(slot)
    reader.filter([b"wanted"])
    (batch,) = batches(reader)
    assert [int(body) for body in batch["body"].to_pylist()] == [7, 307, 607, 907, 1207, 1507]
    assert batch["tags"].to_pylist() == ["wanted"] * 6


def test_a_filter_that_hardly_ever_matches_returns_in_between(store: ComposedStore) -> None:
    """One call looks at 65,536 units and no more: what matches after them is in another batch."""
    slot = store.add_topic("t", 1)
    for number in range(140_000):
        if number in (100, 70_000):
            store.append("t", slot, b"%d" % number, properties={"TAGS": "wanted"})
        else:
            store.put_unit("t", slot, number, 0, 100, 1)
            store.next[slot] = number + 1
    reader = store.reader(slot)
    reader.filter([b"wanted"])
    found = [record_batch(reader, 1 << 16)["body"].to_pylist() for _ in range(3)]
    assert found == [[b"100"], [b"70000"], []] and reader.positions() == [140_000]


def test_texts_that_are_no_utf8_stay_in_their_rows(store: ComposedStore) -> None:
    """Any bytes may be in a properties string; they cannot affect its neighbours."""
    slot = store.add_topic("t", 1)
    for body in [b"one", b"two"]:
        physical = store.append("t", slot, body, properties={"TAGS": "abcde"})
        path = store.root / "commitlog" / f"{0:020d}"
        at = path.read_bytes().index(b"abcde", physical)
        store.write(at, b"\xff\xfe\x00\xc3\x28")
    (batch,) = (record_batch(store.reader(slot), 10),)
    assert batch["body"].to_pylist() == [b"one", b"two"]
    assert batch["tags"].cast(pa.binary()).to_pylist() == [b"\xff\xfe\x00\xc3\x28"] * 2


NAMES = st.sampled_from(["a", "b", "color", "TAGS", "KEYS", "WAIT", "UNIQ_KEY", "a rather long name of a property", "\u00e4"])
SEGMENTS = st.lists(st.tuples(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\1\2"), min_size=1, max_size=40)))


@settings(max_examples=60, deadline=None)
@given(messages=st.lists(SEGMENTS, min_size=1, max_size=40), most=st.integers(1, 50))
def test_properties_are_those_of_the_messages(
    tmp_path_factory: pytest.TempPathFactory, messages: list[list[tuple[str, str]]], most: int
) -> None:
    """Also for names that occur twice, as another client may write them: the last value counts."""
    store = ComposedStore(tmp_path_factory.mktemp("properties") / "store", log_file_size=1 << 18)
    slot = store.add_topic("t", 1)
    for segments in messages:
        store.append("t", slot, b"body", properties=_Doubled(segments))
    found = [
        row for batch in batches(store.reader(slot), most, columns=["headers", "properties"]) for row in batch.to_pylist()
    ]
    wanted = [message.properties for message in store.reader(slot).messages(100)]
    assert [dict(row["properties"]) for row in found] == wanted
    assert all(len(row["properties"]) == len(dict(row["properties"])) for row in found)
    reserved = ("TAGS", "KEYS", "WAIT", "UNIQ_KEY")
    own = [{name: value for name, value in each.items() if name not in reserved} for each in wanted]
    assert [
        None if row["headers"] is None else {pair["key"]: pair["value"].decode() for pair in row["headers"]} for row in found
    ] == [each or None for each in own]


class _Doubled(dict[str, str]):
    """Properties, one of which may occur twice."""

    def __init__(self, segments: list[tuple[str, str]]) -> None:
        super().__init__(segments)
        self._segments = segments

    def items(self) -> Any:
        return self._segments


def test_ids_hosts_and_how_often_sent_back(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    for number in range(20):
        born = (f"10.0.0.{number // 7}", 9000 + number // 7)
        store.append("t", slot, b"", born_host=born, store_host=("10.1.2.3", 10911), reconsume_times=number)
    store.append("t", slot, b"", born_host=("fd00::5", 1), store_host=("10.1.2.3", 10911), reconsume_times=20)
    store.append("t", slot, b"", born_host=("10.0.0.9", 9), store_host=("fd00::6", 10911), reconsume_times=21)
    _append_with_ipv6(store, slot)
    names = ["message_id", "born_host", "store_host", "reconsume_times", "stored"]
    rows = [row for batch in batches(store.reader(slot), 6, columns=names) for row in batch.to_pylist()]
    messages = store.reader(slot).messages(100)
    assert [row["message_id"] for row in rows] == [message.id for message in messages]
    hosts = [f"10.0.0.{number // 7}:{9000 + number // 7}" for number in range(20)]
    assert [row["born_host"] for row in rows] == [*hosts, "[fd00::5]:1", "10.0.0.9:9", "[fe80::a]:65535"]
    assert [row["store_host"] for row in rows] == ["10.1.2.3:10911"] * 21 + ["[fd00::6]:10911", "[fe80::b]:1"]
    assert [row["reconsume_times"] for row in rows] == [*range(22), 77]
    assert [round(row["stored"].timestamp() * 1000) for row in rows] == [message.stored_ms for message in messages]


def _append_with_ipv6(store: ComposedStore, slot: int) -> None:
    """As RocketMQ writes it: both hosts of a plain record are exchanged, and its CRC property, which covers them, is cut."""
    place = {"queue_offset": store.next[slot], "physical_offset": store.end, "store_ms": store.store_ms, "reconsume_times": 77}
    plain = record.encode("t", b"six", **place)
    hosts = [bytes.fromhex(f"fe80{'0' * 27}{last}") + port.to_bytes(4, "big") for last, port in (("a", 65535), ("b", 1))]
    six = plain[:48] + hosts[0] + plain[56:64] + hosts[1] + plain[72:-22] + bytes(2)
    flags = (0x30).to_bytes(4, "big")
    six = len(six).to_bytes(4, "big") + six[4:36] + flags + six[40:]
    store.write(store.end, six)
    store.put_unit("t", slot, store.next[slot], store.end, len(six), 0)
    store.next[slot] += 1
    store.end += len(six)


def test_bytes_of_properties_are_bounded(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    for _ in range(100):
        store.append("t", slot, b"", properties={"p": "x" * 1000})
    found = list(batches(store.reader(slot), 1000, columns=["properties"], body_limit=10_000))
    assert sum(batch.num_rows for batch in found) == 100 and 1 < max(batch.num_rows for batch in found) < 10


def test_the_memory_of_a_dropped_batch_serves_the_next(store: ComposedStore) -> None:
    """And that of a batch, or of a part of it, which is still in use serves none."""
    slot = store.add_topic("t", 1)
    bodies = [b"%4d" % number * 256 for number in range(100)]
    for body in bodies:
        store.append("t", slot, body)

    def read() -> pa.RecordBatch:
        return record_batch(store.reader(slot), 100, ("body",))

    def address(batch: pa.RecordBatch) -> int:
        return int(batch["body"].buffers()[2].address)

    first, second = read(), read()
    place = address(first)
    assert address(second) != place
    part = first["body"][50:]
    del first
    assert address(read()) != place, "a slice holds it"
    assert part.to_pylist() == bodies[50:] and second["body"].to_pylist() == bodies
    del part
    assert address(read()) == place and read()["body"].to_pylist() == bodies
