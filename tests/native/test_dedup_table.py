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


@pytest.mark.parametrize("seed", range(4))
def test_it_is_a_list_with_an_index(seed: int) -> None:
    """Goal: what is remembered is found, and nothing else, whatever was forgotten at either end. Method: random deeds on few
    hashes, many of which share a slot or are neighbours at the end of the slots, compared with a list after each deed."""
    rng = random.Random(seed)
    table = ffi.new("struct dedup_table *")
    assert lib.dedup_table_open(table, 1)
    hashes = [rng.choice((0, 2047, 2048, 4095)) + (rng.randrange(4) << 32) + rng.randrange(3) for _ in range(40)]
    held: list[tuple[int, int, int]] = []
    place = now = grown = 0
    for _ in range(6000):
        deed = rng.random()
        if deed < 0.85:
            place, now = place + rng.randrange(1, 100), now + rng.randrange(3)
            one = (rng.choice(hashes), place, now)
            full = len(held) == ROOM << grown
            assert lib.dedup_table_put(table, ffi.new("struct dedup_entry *", one)) is not full
            held += [] if full else [one]
            if full and grown < 2:
                assert lib.dedup_table_grow(table)
                grown += 1
        elif deed < 0.853:
            through = now - rng.randrange(1, 2500)
            lib.dedup_table_expire(table, max(through, 0))
            held = [each for each in held if each[2] > max(through, 0)]
        elif deed < 0.9 and held:
            place = held[-1 - min(rng.randrange(5), len(held) - 1)][1]
            lib.dedup_table_take_back(table, place)
            held = [each for each in held if each[1] < place]
        for hash_ in rng.sample(hashes, 3):
            assert sorted(found(table, hash_)) == [each[1] for each in held if each[0] == hash_]
        assert table.next - table.first == len(held)
    assert grown
    lib.dedup_table_close(table)


def test_a_time_that_goes_back_does_not_hide_what_is_older() -> None:
    """Another broker's log may have such times; the entry then counts as old as the one before it."""
    table = ffi.new("struct dedup_table *")
    assert lib.dedup_table_open(table, 1)
    for place, ms in ((0, 100), (10, 50), (20, 120)):
        assert lib.dedup_table_put(table, ffi.new("struct dedup_entry *", (7, place, ms)))
    lib.dedup_table_expire(table, 99)
    assert found(table, 7) == [0, 10, 20]
    lib.dedup_table_expire(table, 100)
    assert found(table, 7) == [20]
    lib.dedup_table_close(table)
