"""Damage to a store that a broker wrote (stored_by_broker.py): to its log, which loses messages, and to what can be made again
from the log."""

from __future__ import annotations

import struct

from orbitmq.store import config
from orbitmq.store.commit_log.record import BLANK_MAGIC
from tests.store.stored_by_broker import SETTINGS, Stored

Place = tuple[str, int, int]  # topic, queue, queue offset


SIZE = SETTINGS.log_file_size


def records(stored: Stored) -> list[tuple[int, int, Place]]:
    """(physical offset, size, message) of every message, in the log's order."""
    found = []
    for topic, queue in stored.bodies:
        for path in stored.of(f"consumequeue/{topic}/{queue}"):
            for number in range(SETTINGS.queue_file_units):
                place, size, _ = struct.unpack_from(">QIq", stored.files[path], 20 * number)
                if size:
                    found.append((place, size, (topic, queue, int(path.name) // 20 + number)))
    return sorted(found)


def spoil_log(stored: Stored, offset: int, content: bytes) -> None:
    stored.spoil(stored.layout.log_file(offset - offset % SIZE), offset % SIZE, content)


def spoilt(stored: Stored) -> set[Place]:
    """Messages whose bytes are not those that were written."""
    changed = set()
    for offset, size, place in records(stored):
        path = stored.layout.log_file(offset - offset % SIZE)
        at = offset % SIZE
        if path.read_bytes()[at : at + size] != stored.files[path][at : at + size]:
            changed.add(place)
    return changed


def a_body(stored: Stored) -> set[Place]:
    offset, size, place = records(stored)[200]
    spoil_log(stored, offset + size - 30, b"\xff\xfe\xfd")
    return {place}


def a_header(stored: Stored) -> set[Place]:
    offset, _, place = records(stored)[17]
    spoil_log(stored, offset, b"\x7f" * 60)
    return {place}


def the_first_record(stored: Stored) -> set[Place]:
    offset, size, place = records(stored)[0]
    spoil_log(stored, offset, bytes(size))
    return {place}


def the_last_record(stored: Stored) -> set[Place]:
    offset, size, place = records(stored)[-1]
    spoil_log(stored, offset + 90, b"\xff" * (size - 90))
    return {place}


def many(stored: Stored) -> set[Place]:
    """Damage in several places, some of them neighbours."""
    for number in (3, 4, 5, 99, 250, 251, 400, 598):
        offset, size, _ = records(stored)[number]
        # Not the CRC property's name: a record without it would be one of RocketMQ's.
        spoil_log(stored, offset + number % (size - 40), b"\xaa\xbb\xcc\xdd\xee\xaa")
    return spoilt(stored)


def a_sector(stored: Stored) -> set[Place]:
    spoil_log(stored, 8192, bytes(4096))
    return spoilt(stored)


def a_file_of_zeros(stored: Stored) -> set[Place]:
    spoil_log(stored, SIZE, bytes(SIZE))
    return spoilt(stored)


def a_missing_file(stored: Stored) -> set[Place]:
    lost = {place for offset, _, place in records(stored) if SIZE <= offset < 2 * SIZE}
    stored.layout.log_file(SIZE).unlink()
    return lost


def a_short_file(stored: Stored) -> set[Place]:
    with stored.layout.log_file(SIZE).open("r+b") as file:
        file.truncate(SIZE // 2)
    return {place for offset, size, place in records(stored) if SIZE <= offset < 2 * SIZE and offset + size > SIZE + SIZE // 2}


def the_end(stored: Stored) -> set[Place]:
    """The last files are gone."""
    last = records(stored)[-1][0]
    lost = {place for offset, _, place in records(stored) if offset >= last - last % SIZE}
    for path in stored.of("commitlog"):
        if int(path.name) >= last - last % SIZE:
            path.unlink()
    return lost


LOG_DAMAGE = [
    a_body,
    a_header,
    the_first_record,
    the_last_record,
    many,
    a_sector,
    a_file_of_zeros,
    a_missing_file,
    a_short_file,
    the_end,
]


def a_blank_marker(stored: Stored) -> None:
    end = max(offset + size for offset, size, _ in records(stored) if offset < SIZE)
    assert stored.files[stored.layout.log_file(0)][end + 4 : end + 8] == BLANK_MAGIC.to_bytes(4, "big")
    spoil_log(stored, end, b"\x01\x02\x03\x04")


def units(stored: Stored) -> None:
    """Wrong, zeroed, and too many."""
    one, other = stored.of("consumequeue/flows/1"), stored.of("consumequeue/alarms/0")
    stored.spoil(one[0], 100, b"\xff" * 70)
    stored.spoil(one[1], 0, bytes(400))
    stored.spoil(other[-1], 20 * (150 % SETTINGS.queue_file_units), stored.files[other[0]][:60])


def queue_files(stored: Stored) -> None:
    """Missing, short, long, strange; a stray queue; a whole topic gone."""
    first, second, *_, last = stored.of("consumequeue/flows/1")
    second.unlink()
    first.write_bytes(stored.files[first][:-20])
    last.write_bytes(stored.files[last] + bytes(20))
    (last.parent / "letter").write_text("dear")
    (stored.layout.consumequeue / "letter").write_text("dear")
    for path in stored.of("consumequeue/alarms"):
        path.unlink()


def index_entries(stored: Stored) -> None:
    for path in stored.of("index"):
        for at in (0, 9, 41, 60, 300, 1000):
            stored.spoil(path, at, b"\x11\x22\x33")


def index_files(stored: Stored) -> None:
    first, second, *_, last = stored.of("index")
    first.unlink()
    second.write_bytes(stored.files[second][:-4])
    last.write_bytes(stored.files[last] + b"\0")
    (stored.layout.index / "letter").write_text("dear")


def small_files(stored: Stored) -> None:
    for path in (stored.layout.checkpoint, stored.layout.positions, stored.layout.reput):
        path.write_bytes(b"\x55" * len(stored.files[path]))


def one_small_file(stored: Stored) -> None:
    stored.layout.checkpoint.write_bytes(b"\x55" * 4096)


def configs(stored: Stored) -> None:
    for name in (config.TOPICS, config.OFFSETS, config.GROUPS):
        (stored.layout.config / name).write_text("{")
        (stored.layout.config / f"{name}.bak").unlink(missing_ok=True)


def strange_log_files(stored: Stored) -> None:
    (stored.layout.commitlog / "letter").write_text("dear")
    last = stored.of("commitlog")[0]
    last.write_bytes(stored.files[last] + b"more")


REBUILT = [
    a_blank_marker,
    units,
    queue_files,
    index_entries,
    index_files,
    small_files,
    one_small_file,
    configs,
    strange_log_files,
]
