"""Goal: bodies as views of the log are those of the messages, and stay so whatever happens to consumer, files and broker.

Method: a store composed by hand, whose columns of views are compared with copies; and a broker that ends, with its files
removed. Flipped bits are in test_checked_copies.py."""

from __future__ import annotations

import os
import random
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from orbitmq.client.consumer.arrow import _plan, record_batch
from orbitmq.errors import Full, SettingError
from orbitmq.native._types import Reader
from tests.native.composed_store import ComposedStore
from tests.trees import small_broker

COMPRESSED = 1
STRETCHES_ENOUGH = 1024
BLOCK = 512  # COLUMNS_BLOCK
GAP = 64 << 10


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    return ComposedStore(tmp_path / "store", log_file_size=1 << 20)


def read(reader: Reader, **more: int) -> pa.RecordBatch:
    batch = record_batch(reader, 1 << 16, views=True, **more)
    batch.validate(full=True)
    return batch


def mapped(store: ComposedStore) -> bool:
    return f"{store.root}/commitlog" in Path("/proc/self/maps").read_text()


def test_the_same_rows_as_copies(store: ComposedStore) -> None:
    """Sizes around what a view holds itself, compressed ones among them, in two queues and several files; every column."""
    slot = store.add_topic("t", 2)
    source = random.Random(5)
    print("seed 5")
    for number in range(2 * BLOCK):
        body = source.randbytes(source.choice([0, 1, 3, 4, 5, 11, 12, 13, 16, 100, 5000]))
        packed = number % 7 == 0
        store.append("t", slot + number % 2, zlib.compress(body) if packed else body, sys_flag=COMPRESSED * packed)
    copies = record_batch(store.reader(slot, slot + 1), 1 << 16)
    views = read(store.reader(slot, slot + 1))
    assert views.schema.field("body").type == pa.binary_view() and views.num_rows == 2 * BLOCK
    plain = views.set_column(views.schema.get_field_index("body"), "body", views["body"].cast(pa.binary()))
    assert plain.equals(copies)
    limited = read(store.reader(slot, slot + 1), body_limit=20_000)
    assert limited.num_rows < 2 * BLOCK and sum(map(len, limited["body"].to_pylist())) <= 20_000


def test_a_pyarrow_without_views(store: ComposedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow 18 takes no buffers beyond the usual two for such a column. Then the call is refused before it takes messages."""

    def from_buffers(kind: pa.DataType, rows: int, buffers: list[pa.Buffer | None], *more: object, **named: object) -> pa.Array:
        if kind == pa.binary_view() and len(buffers) != 2:
            raise ValueError(f"Type's expected number of buffers (2) did not match the passed number ({len(buffers)}).")
        return pa.Array.from_buffers(kind, rows, buffers, *more, **named)

    slot = store.add_topic("t", 1)
    store.append("t", slot, b"body of more than 12 bytes")
    reader = store.reader(slot)
    _plan.cache_clear()
    older = {**vars(pa), "Array": SimpleNamespace(from_buffers=from_buffers)}
    monkeypatch.setattr("orbitmq.client.consumer.arrow.pa", SimpleNamespace(**older))
    for _ in range(2):
        with pytest.raises(SettingError) as caught:
            read(reader)
        assert caught.value.setting == "views" and "pyarrow>=19" in str(caught.value.hint)
    monkeypatch.undo()
    assert read(reader)["body"].to_pylist() == [b"body of more than 12 bytes"], "it was not taken"


def test_nothing_is_copied(store: ComposedStore) -> None:
    """The buffers lie in the mapping of the log, and hold little more than the bodies."""
    slot = store.add_topic("t", 1)
    bodies = [bytes([number]) * 1000 for number in range(200)]
    for body in bodies:
        store.append("t", slot, body)
    batch = read(store.reader(slot))
    _, _, plain, *stretches = batch["body"].buffers()
    assert plain.size == 0 and len(stretches) == 1
    assert sum(map(len, bodies)) <= stretches[0].size <= sum(len(body) + 200 for body in bodies)
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if str(store.root) in line]
    assert any(int(begin, 16) <= stretches[0].address < int(end, 16) for begin, end in ranges)


def fill_sparsely(store: ComposedStore, count: int) -> int:
    """Bodies with more than a stretch's gap between them; returns their queue slot."""
    slot = store.add_topic("t", 1)
    for number in range(count):
        store.append("t", slot, b"body number %d" % number)
        store.end += GAP  # of zeros, which nothing refers to
        left = store.log_file_size - store.end % store.log_file_size
        store.end += left if left < 2 * GAP else 0
    return slot


def test_bodies_that_lie_far_apart(tmp_path: Path) -> None:
    """Each is a stretch of its own then, and a batch ends when it has enough of them; the next one goes on."""
    store = ComposedStore(tmp_path / "store", log_file_size=1 << 23)
    count = STRETCHES_ENOUGH + BLOCK + 10
    slot = fill_sparsely(store, count)
    reader = store.reader(slot)
    found: list[bytes] = []
    batches = []
    while (batch := read(reader)).num_rows:
        batches.append(batch.num_rows)
        assert len(batch["body"].buffers()) - 3 == batch.num_rows  # a stretch each
        found += batch["body"].to_pylist()
        if len(found) < count:
            assert STRETCHES_ENOUGH <= batch.num_rows <= STRETCHES_ENOUGH + BLOCK
        del batch
    assert found == [b"body number %d" % number for number in range(count)]


def test_too_many_files_are_held(store: ComposedStore) -> None:
    """A batch ends with its 64th file, and the next poll says what is full. It goes on when the batch is dropped."""
    count = 66 * (store.log_file_size // GAP)
    slot = fill_sparsely(store, count)
    reader = store.reader(slot)
    batch = read(reader)
    found = batch["body"].to_pylist()
    assert 0 < len(found) < count
    with pytest.raises(Full) as caught:
        read(reader)
    assert caught.value.limit == "log files"
    del batch
    while len(found) < count:
        found += read(reader)["body"].to_pylist()
    assert found == [b"body number %d" % number for number in range(count)]


def test_views_outlive_reader_and_files(store: ComposedStore) -> None:
    """The mapping goes when the last slice goes, and not before."""
    slot = store.add_topic("t", 1)
    bodies = [bytes([number]) * 1000 for number in range(50)]
    for body in bodies:
        store.append("t", slot, body)
    reader = store.reader(slot)
    batch = read(reader)
    reader.close()
    shutil.rmtree(store.root / "commitlog")
    part = batch["body"].slice(10, 5)
    assert batch["body"].to_pylist() == bodies
    del batch
    assert part.to_pylist() == bodies[10:15] and mapped(store)
    del part
    assert not mapped(store)


def test_a_broker_that_ended(tmp_path: Path) -> None:
    """Views live through the end of consumer and broker and the removal of the store, here and in a forked child."""
    bodies = [b"%d" % number * 100 for number in range(500)]
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=1)
        with broker.producer() as producer:
            producer.send_batch("t", bodies)
        with broker.consumer(None, topics=["t"], start="earliest") as consumer:
            batch = consumer.poll_arrow(1000, timeout=60, views=True)
            while batch.num_rows < len(bodies):
                consumer.seek("t", 0, 0)
                batch = consumer.poll_arrow(1000, timeout=60, views=True)
    shutil.rmtree(tmp_path / "store")
    assert batch["body"].to_pylist() == bodies
    child = os.fork()
    if child == 0:
        os._exit(0 if batch["body"].to_pylist() == bodies else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert batch["body"].to_pylist() == bodies
