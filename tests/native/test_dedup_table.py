"""The writer's table of ids against a plain list."""

from __future__ import annotations

import random
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib

ROOM = 1024  # the least that a table has


def found(table: Any, hash_: int) -> list[int]:
    """The places of a hash."""
    probe, places = ffi.new("struct dedup_probe *"), []
    while (entry := lib.dedup_table_next(table, hash_, probe)) != ffi.NULL:
        places.append(int(entry.physical_offset))
    return places


def ring(table: Any, family: int) -> list[int]:
    """The places of a family, along its ring, from the oldest on."""
    own, at = [], table.oldest
    while at:
        own += [at] * (table.entries[at].family == family)
        at = table.entries[at].newer
    for before, after in zip(own, [*own[1:], *own[:1]], strict=True):
        assert (table.entries[before].after, table.entries[after].before) == (after, before)
    return [int(table.entries[at].physical_offset) for at in own]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_a_list_with_an_index(seed: int) -> None:
    """Goal: what is remembered is found, and nothing else, whatever was forgotten at either end, or of a family. Method: random
    deeds on few hashes and families, many of which share a slot or are neighbours at the end of the slots, compared with a list
    after each deed. The slots grow meanwhile, and some deeds find them in the middle of it."""
    rng = random.Random(seed)
    table = ffi.new("struct dedup_table *")
    assert lib.dedup_table_open(table, 1)
    hashes = [rng.choice((0, 2047, 2048, 4095)) + (rng.randrange(4) << 32) + rng.randrange(3) for _ in range(40)]
    families = [rng.choice((0, 2047, 4095)) + (number << 32) for number in range(5)]  # the first is none
    held: list[tuple[int, int, int, int]] = []
    places: dict[int, list[int]] = {}  # of each hash in the list
    place = now = grown = trimmed = moving = whole = 0
    for _ in range(6000):
        deed = rng.random()
        if deed < 0.85:
            place, now = place + rng.randrange(1, 100), now + rng.randrange(3)
            one = (rng.choice(hashes), place, now, rng.choice(families))
            full = len(held) == ROOM << grown
            assert lib.dedup_table_room(table)
            grown += full
            assert table.room == ROOM << grown
            if full:
                assert all(table.former[index].slots != ffi.NULL for index in range(lib.DEDUP_INDEXES)), "it all moved at once"
            lib.dedup_table_put(table, ffi.new("struct dedup_entry *", one))
            held.append(one)
            places.setdefault(one[0], []).append(place)
        elif deed < 0.853:
            family, keep = rng.choice(families[1:]), rng.randrange(1, 300)
            lib.dedup_table_trim(table, family, keep)
            own = [each for each in held if each[3] == family]
            gone = own[: max(len(own) - keep + 1, 0)]
            trimmed += bool(gone)
            held = [each for each in held if each not in gone]
        elif deed < 0.856:
            through = now - rng.randrange(1, 2500)
            lib.dedup_table_expire(table, max(through, 0))
            held = [each for each in held if each[2] > max(through, 0)]
        elif deed < 0.9 and held:
            place = held[-1 - min(rng.randrange(5), len(held) - 1)][1]
            lib.dedup_table_take_back(table, place)
            held = [each for each in held if each[1] < place]
            for family in families[1:]:
                assert ring(table, family) == [each[1] for each in held if each[3] == family]
        if 0.85 <= deed < 0.9:
            places = {}
            for hash_, at, _, _ in held:
                places.setdefault(hash_, []).append(at)
        for hash_ in rng.sample(hashes, 3):
            assert sorted(found(table, hash_)) == places.get(hash_, [])
        assert table.count == len(held)
        moving += table.former[0].slots != ffi.NULL
        whole += bool(grown) and table.former[0].slots == ffi.NULL
    assert grown and trimmed and moving and whole
    lib.dedup_table_close(table)


def test_a_time_that_goes_back_does_not_hide_what_is_older() -> None:
    """Another broker's log may have such times; the entry then counts as old as the one before it."""
    table = ffi.new("struct dedup_table *")
    assert lib.dedup_table_open(table, 1)
    for place, ms in ((0, 100), (10, 50), (20, 120)):
        lib.dedup_table_put(table, ffi.new("struct dedup_entry *", (7, place, ms)))
    lib.dedup_table_expire(table, 99)
    assert found(table, 7) == [0, 10, 20]
    lib.dedup_table_expire(table, 100)
    assert found(table, 7) == [20]
    lib.dedup_table_close(table)


def test_each_entry_moves_some() -> None:
    """Goal: slots that grow are moved before they are full again, a few with each entry. Method: entries of families of their
    own, so that both indexes are as full as they can be, up to three times more than there was room for."""
    table = ffi.new("struct dedup_table *")
    assert lib.dedup_table_open(table, 1)
    for number in range(8 * ROOM):
        left = [table.former[index].count - table.former[index].moved for index in range(lib.DEDUP_INDEXES)]
        if number.bit_count() == 1 and number >= ROOM:
            assert left == [0, 0], "they are to grow, and the last time is not over"
        assert lib.dedup_table_room(table)
        entry = (number * 0x9E3779B97F4A7C15 % (1 << 64), number, number, number * 0xC2B2AE3D27D4EB4F % (1 << 64) | 1)
        lib.dedup_table_put(table, ffi.new("struct dedup_entry *", entry))
        assert len(found(table, entry[0])) == 1
        gone = [before - (each.count - each.moved) for before, each in zip(left, table.former, strict=True)]
        assert all(each <= 4 for each in gone), "more than a few at once"
    for number in range(8 * ROOM):
        assert found(table, number * 0x9E3779B97F4A7C15 % (1 << 64)) == [number]
    lib.dedup_table_expire(table, 8 * ROOM)
    assert table.count == 0
    lib.dedup_table_close(table)
