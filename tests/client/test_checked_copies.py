"""Goal: a large body is checked while it is copied, and still no flipped bit of it is delivered, whichever call follows which.

Method: a store composed by hand, one bit of a record flipped; bodies on both sides of the size from which that is so
(READER_LARGE), read as bytes, as columns and as messages by turns."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.client.consumer.arrow import record_batch
from orbitmq.errors import CorruptRecord
from orbitmq.native._types import Reader
from tests.native.composed_store import ComposedStore

LARGE = 512
BODY_AT = 88  # in a record
SYS_FLAG_AT = 36
COMPRESSED = 1
BAD = 5  # the damaged message

Read = Callable[[Reader], list[bytes]]
WAYS: dict[str, Read] = {
    "bodies": lambda reader: reader.bodies(100, 1 << 30),
    "columns": lambda reader: record_batch(reader, 100)["body"].to_pylist(),
    "views": lambda reader: record_batch(reader, 100, views=True)["body"].to_pylist(),
    "messages": lambda reader: [bytes(message) for message in reader.messages(100)],
    "message": lambda reader: [bytes(message) for message in [reader.message(100)] if message],
}


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    return ComposedStore(tmp_path / "store", log_file_size=1 << 18)


def bodies_of(size: int, count: int = 10) -> list[bytes]:
    source = random.Random(size)
    return [b"\0" + source.randbytes(size - 1) for _ in range(count)]


def fill(store: ComposedStore, bodies: list[bytes], **fields: int) -> tuple[Reader, list[int]]:
    slot = store.add_topic("t", 1)
    places = [store.append("t", slot, body, **fields) for body in bodies]
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    return reader, places


def flip(store: ComposedStore, physical: int, bit: int) -> None:
    path = store.root / "commitlog" / f"{physical - physical % store.log_file_size:020d}"
    with path.open("r+b") as file:
        file.seek(physical % store.log_file_size + bit // 8)
        (byte,) = file.read(1)
    store.write(physical + bit // 8, bytes([byte ^ 1 << bit % 8]))


def read_until_refused(reader: Reader, read: Read) -> list[bytes]:
    """What came before the damage; which is told twice."""
    found: list[bytes] = []
    while len(found) < BAD:
        found += read(reader)
    for _ in range(2):
        with pytest.raises(CorruptRecord) as caught:
            read(reader)
        assert caught.value.queue_offset == BAD and caught.value.topic == "t"
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 3000])
def test_a_flipped_bit_of_a_body(store: ComposedStore, way: str, size: int) -> None:
    """Any bit of the body: what was before comes, then the error, each time again; after a seek, what is behind."""
    bodies = bodies_of(size)
    reader, places = fill(store, bodies)
    for bit in (0, 8 * size - 1, random.Random(size).randrange(8 * size)):
        flip(store, places[BAD], 8 * BODY_AT + bit)
        reader.seek(0, 0)
        assert read_until_refused(reader, WAYS[way]) == bodies[:BAD]
        assert reader.positions() == [BAD]
        reader.seek(0, BAD + 1)
        rest: list[bytes] = []
        while len(rest) < len(bodies) - BAD - 1:
            rest += WAYS[way](reader)
        assert rest == bodies[BAD + 1 :]
        flip(store, places[BAD], 8 * BODY_AT + bit)
    reader.seek(0, 0)
    found: list[bytes] = []
    while len(found) < len(bodies):
        found += WAYS[way](reader)
    assert found == bodies


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", ["bodies", "columns"])
def test_another_call_takes_the_rest(store: ComposedStore, first: str, way: str) -> None:
    """Goal: what one call fetched to copy it, and left, is checked before another call gives it away. Method: a first call that
    leaves most of its fetch, then each other way to read."""
    bodies = bodies_of(2000)
    reader, places = fill(store, bodies)
    flip(store, places[BAD], 8 * BODY_AT + 77)
    found = reader.bodies(2, 1 << 30) if first == "bodies" else record_batch(reader, 100, body_limit=4000)["body"].to_pylist()
    assert found == bodies[:2] and reader.positions() == [2]
    gathered = reader.gathered()
    found += [bytes(gathered)] if gathered else []
    while len(found) < BAD:
        found += WAYS[way](reader)
    assert found == bodies[:BAD]
    with pytest.raises(CorruptRecord):
        WAYS[way](reader)
    assert reader.gathered() is None and reader.positions() == [BAD]


@pytest.mark.parametrize("way", WAYS)
def test_other_queues_go_on(store: ComposedStore, way: str) -> None:
    """Two queues, one of them damaged: the other is read to its end."""
    bodies = bodies_of(2000)
    slot = store.add_topic("t", 2)
    places = [store.append("t", slot + number % 2, body) for number, body in enumerate(bodies)]
    store.publish()
    reader = store.reader()
    for each in (slot, slot + 1):
        reader.add(each, 0)
    flip(store, places[0], 8 * BODY_AT + 77)
    found, refused = [], 0
    while len(found) < 5:
        try:
            found += WAYS[way](reader)
        except CorruptRecord as error:
            assert error.queue == 0 and error.queue_offset == 0
            refused += 1
    assert found == bodies[1::2] and refused and reader.positions() == [0, 5]


@pytest.mark.parametrize("way", WAYS)
def test_a_flag_that_was_flipped(store: ComposedStore, way: str) -> None:
    """A large compressed body whose flag says that it is plain, and the other way round: refused, not delivered."""
    packed = zlib.compress(random.Random(9).randbytes(3000))
    for flags, body in ((COMPRESSED, packed), (0, packed), (0, bodies_of(3000, 1)[0])):
        other = ComposedStore(store.root.parent / f"{flags}{len(body)}", log_file_size=1 << 18)
        reader, places = fill(other, [body], sys_flag=flags)
        flip(other, places[0], 8 * (SYS_FLAG_AT + 3))
        with pytest.raises(CorruptRecord):
            WAYS[way](reader)


def test_without_checks_all_is_delivered(store: ComposedStore) -> None:
    """A reader that was told not to verify gives the damaged body."""
    bodies = bodies_of(2000)
    reader, places = fill(store, bodies)
    reader.verify = False
    flip(store, places[BAD], 8 * BODY_AT)
    damaged = bytes([bodies[BAD][0] ^ 1]) + bodies[BAD][1:]
    assert reader.bodies(100, 1 << 30) == [*bodies[:BAD], damaged, *bodies[BAD + 1 :]]
