"""Goal: a search by time finds what a look at every message would find, both where times rise and where they do not. Method:
queues whose times are drawn at random before some place of the log, and rise after it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orbitmq.errors import CorruptRecord
from orbitmq.native._core import lib
from orbitmq.native._types import Reader
from tests.native.composed_store import FILE_UNITS, ComposedStore

MANY = 20_000  # more than one step of a search looks at


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    return ComposedStore(tmp_path / "store")


def since(times: list[int], ms: int) -> int:
    return next((offset for offset, at in enumerate(times) if at >= ms), len(times))


def nearest(times: list[int], ms: int) -> int:
    """As in RocketMQ where times rise: the first one at or after it, or its left neighbour if that is not farther."""
    found = since(times, ms)
    if found == len(times):
        return max(0, found - 1)
    return found - 1 if found and times[found] - ms >= ms - times[found - 1] else found


@pytest.mark.parametrize("seed", range(12))
def test_wherever_times_begin_to_rise(store: ComposedStore, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    slots = store.add_topic("t", 2)
    foreign, own = rng.choice([0, 1, 70, 150]), rng.choice([0, 1, 90, 200])
    times: list[list[int]] = [[], []]
    places = []

    def append(ms: int) -> None:
        queue = rng.randrange(2)
        times[queue].append(ms)
        places.append(store.append("t", slots + queue, b"%d" % ms, store_ms=ms))

    for _ in range(foreign):
        append(rng.randrange(1000, 2000))
    rising = store.end
    for ms in sorted(rng.randrange(1500, 2500) for _ in range(own)):
        append(ms)
    behind = store.end
    for _ in range(rng.choice([0, 60])):  # only a reader without a broker may meet such
        append(rng.randrange(1000, 3000))
    held = sum(place < behind for place in places)
    lib.control_set_rising(store.control, rising)
    store.publish()
    offline = Reader(
        store=str(store.root), log_file_size=store.log_file_size, queue_file_units=FILE_UNITS, rising=(rising, behind)
    )
    readers = [offline]
    for queue in (0, 1):
        offline.add_offline("t", queue, 0, len(times[queue]))
    if held == len(places):
        online = store.reader()
        for queue in (0, 1):
            online.add(slots + queue, 0)
        readers.append(online)
    for reader in readers:
        for queue in (0, 1):
            for ms in [0, 999, 1500, 1999, 2500, 4000, *(rng.randrange(900, 3100) for _ in range(60)), *times[queue]]:
                assert reader.since(queue, ms) == since(times[queue], ms)
                assert reader.search_time(queue, ms) == nearest(times[queue], ms)


def test_where_times_rise(store: ComposedStore) -> None:
    slot = store.add_topic("t", 1)
    places = [store.append("t", slot, b"", store_ms=ms) for ms in (5, 3, 4, 6, 1)]
    store.publish()
    for begin, end, first, behind in [
        (places[1], places[4], 1, 4),
        (places[1] + 1, places[3] + 1, 2, 4),
        (0, 1 << 62, 0, 5),
        (0, 0, 5, 5),
        (store.end, 1 << 62, 5, 5),
    ]:
        reader = Reader(
            store=str(store.root), log_file_size=store.log_file_size, queue_file_units=FILE_UNITS, rising=(begin, end)
        )
        reader.add_offline("t", 0, 0, 5)
        assert reader.rising(0) == (first, behind)
    bare = Reader(store=str(store.root), log_file_size=store.log_file_size, queue_file_units=FILE_UNITS)
    bare.add_offline("t", 0, 0, 5)
    assert bare.rising(0) == (5, 5), "nothing is trusted that nobody vouches for"
    assert [bare.since(0, ms) for ms in (1, 5, 6, 7)] == [0, 0, 3, 5]


def test_a_search_in_many_steps(tmp_path: Path) -> None:
    """Over more log files, too, than may be pinned at once."""
    store = ComposedStore(tmp_path / "store", log_file_size=1 << 14)
    slot = store.add_topic("t", 1)
    for number in range(MANY):
        store.append("t", slot, b"", store_ms=2_000_000 - number)
    store.append("t", slot, b"", store_ms=3_000_000)
    lib.control_set_rising(store.control, store.end)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    assert reader.since(0, 2_500_000) == reader.search_time(0, 2_900_000) == MANY
    assert reader.since(0, 3_000_001) == MANY + 1
    assert reader.since(0, 2_000_000) == 0


def test_damage_has_no_time(store: ComposedStore) -> None:
    """Where every message is looked at, an unreadable one is skipped. Where times rise, the error names it."""
    slot = store.add_topic("t", 1)
    places = [store.append("t", slot, b"", store_ms=ms) for ms in (1, 2, 3)]
    store.write(places[1] + 4, b"\0\0\0\1")
    lib.control_set_rising(store.control, store.end)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    assert reader.since(0, 2) == 2
    lib.control_set_rising(store.control, 0)
    trusting = store.reader()
    trusting.add(slot, 0)
    with pytest.raises(CorruptRecord):
        trusting.since(0, 2)
