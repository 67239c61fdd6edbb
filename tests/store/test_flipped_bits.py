"""Goal: no bit of a store can change without verify naming its file, except bits without a meaning; and no consumer ever gets a
body that was not sent.

Method: a store that a real broker wrote; one bit of it flipped at a time. The bits without a meaning are listed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orbitmq.client.consumer.arrow import record_batch
from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.native._types import Reader
from orbitmq.store.commit_log import record
from orbitmq.store.commit_log.log_scan import scan_log
from orbitmq.store.commit_log.record import BLANK_MAGIC, Fault
from orbitmq.store.verify.findings import Kind
from tests.store.stored_by_broker import SETTINGS, Stored

BLANK = BLANK_MAGIC.to_bytes(4, "big")


@pytest.fixture(scope="module")
def stored(written: Stored) -> Iterator[Stored]:
    yield written
    written.restore()


def is_free(stored: Stored, path: Path, at: int, bit: int) -> bool:
    """Bits without a meaning, in the files that are checked bit by bit."""
    content = stored.files[path]
    if path.parent.name == "commitlog":
        # What follows a blank marker means nothing.
        marker = content.rfind(BLANK)
        return marker > 0 and at >= marker + 4
    # A checkpoint that is older than necessary makes recovery read more, and is right. Its times are those of the last record
    # that the disk has of the log, of the queues and of the index; the last of them is not always the same.
    if path.name != "checkpoint" or at >= 24:
        return False
    flipped = bytearray(content[:24])
    flipped[at] ^= 1 << bit
    return max(struct.unpack(">3Q", flipped)) <= max(struct.unpack_from(">3Q", content))


def checked_files(stored: Stored) -> list[Path]:
    own = [path for path in stored.of("orbitmq") if path.name in ("positions", "reput")]
    return [*stored.of("commitlog"), *stored.of("consumequeue"), *stored.of("index"), *stored.of("checkpoint"), *own]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(data=st.data())
def test_every_flipped_bit_is_named(stored: Stored, data: st.DataObject) -> None:
    """Goal: verify finds it. Method: any file, any bit of it; bits without a meaning are flipped too, and must not be named."""
    path = data.draw(st.sampled_from(checked_files(stored)))
    bit = data.draw(st.integers(0, 8 * len(stored.files[path]) - 1))
    stored.flip(path, bit)
    verdict, found = stored.verify()
    stored.spoil(path, bit // 8, stored.files[path][bit // 8 : bit // 8 + 1])
    where = f"bit {bit % 8} of byte {bit // 8} of {path}"
    if is_free(stored, path, bit // 8, bit % 8):
        assert verdict.whole, (where, found)
    else:
        assert not verdict.whole, where


def read_all(stored: Stored, columns: bool) -> dict[tuple[str, int], dict[int, bytes]]:
    """What a consumer gets of the whole store, by queue and queue offset; it seeks past what it is refused."""
    reader = Reader(
        store=str(stored.layout.root), log_file_size=SETTINGS.log_file_size, queue_file_units=SETTINGS.queue_file_units
    )
    keys = list(stored.bodies)
    for key in keys:
        reader.add_offline(*key, 0, len(stored.bodies[key]))
    given_out: dict[tuple[str, int], dict[int, bytes]] = {key: {} for key in keys}
    while any(position < len(stored.bodies[key]) for key, position in zip(keys, reader.positions(), strict=True)):
        try:
            if columns:
                batch = record_batch(reader, 64, ("topic", "queue", "offset", "body")).to_pydict()
                rows = list(zip(batch["topic"], batch["queue"], batch["offset"], batch["body"], strict=True))
            else:
                rows = [(each.topic, each.queue, each.offset, bytes(each)) for each in reader.messages(64)]
        except StoreError as error:
            reader.seek(keys.index((error.topic, error.queue)), error.queue_offset + 1)
            continue
        for topic, queue, offset, content in rows:
            given_out[topic, queue][offset] = content
    return given_out


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(data=st.data())
def test_no_flipped_bit_gives_a_consumer_another_body(stored: Stored, data: st.DataObject) -> None:
    """Goal: it gets the body that was sent, or an error that says which message it does not get. Method: any bit of log and
    queues; everything is read, as messages or as Arrow columns. At most the one message of the bit is missing."""
    used = [path for path in [*stored.of("commitlog"), *stored.of("consumequeue")] if any(stored.files[path])]
    path = data.draw(st.sampled_from(used))
    bit = data.draw(st.integers(0, 8 * len(stored.files[path].rstrip(b"\0")) - 1))
    stored.flip(path, bit)
    given_out = read_all(stored, data.draw(st.booleans()))
    stored.spoil(path, bit // 8, stored.files[path][bit // 8 : bit // 8 + 1])
    missing = 0
    for key, bodies in stored.bodies.items():
        for offset, content in given_out[key].items():
            assert content == bodies[offset], f"bit {bit % 8} of byte {bit // 8} of {path}"
        missing += len(bodies) - len(given_out[key])
    assert missing <= 1


def a_record(stored: Stored) -> tuple[Path, int, int, tuple[str, int, int]]:
    """File, place in it and size of one record with a tag and keys, and its message."""
    topic, queue, number = "flows", 1, 41
    path = stored.of(f"consumequeue/{topic}/{queue}")[number // SETTINGS.queue_file_units]
    place, size, code = struct.unpack_from(">QIq", stored.files[path], 20 * (number % SETTINGS.queue_file_units))
    log, at = stored.layout.log_file(place - place % SETTINGS.log_file_size), place % SETTINGS.log_file_size
    assert code and b"KEYS" in stored.files[log][at : at + size]
    return log, at, size, (topic, queue, number)


def flips(stored: Stored, path: Path, at: int, size: int) -> Iterator[int]:
    """Each bit of these bytes, flipped while the caller looks."""
    for bit in range(8 * at, 8 * (at + size)):
        stored.flip(path, bit)
        yield bit
        stored.spoil(path, bit // 8, stored.files[path][bit // 8 : bit // 8 + 1])


def test_recovery_finds_every_bit_of_a_record(stored: Stored) -> None:
    """Goal: no byte of a record is left out. Method: all bits of one record, scanned as recovery scans."""
    path, at, size, _ = a_record(stored)
    start = int(path.name)
    for bit in flips(stored, path, at, size):
        found = scan_log(stored.layout, SETTINGS.log_file_size, start)
        assert (found.end, found.fault.damage or found.fault is Fault.END) == (start + at, True), f"bit {bit - 8 * at}"


def test_verify_finds_every_byte_of_a_record(stored: Stored) -> None:
    """Method: one bit of each byte, another one each time; the finding names the record's place."""
    path, at, size, whose = a_record(stored)
    for byte in range(at, at + size):
        stored.flip(path, 8 * byte + byte % 8)
        verdict, found = stored.verify()
        stored.spoil(path, byte, stored.files[path][byte : byte + 1])
        damage = [finding for finding in found if finding.kind is Kind.LOG_RECORD]
        lost = [(each.topic, each.queue, each.first) for each in found if each.kind is Kind.MESSAGE_LOST]
        assert not verdict.whole and [each.offset for each in damage] == [int(path.name) + at], f"byte {byte - at}: {found}"
        assert lost == [whose], f"byte {byte - at}"


def test_every_bit_of_a_blank_marker_is_named(stored: Stored) -> None:
    """Method: all of its bits, by verify and as recovery scans; what follows it means nothing."""
    path = stored.of("commitlog")[0]
    at = stored.files[path].rfind(BLANK) - 4
    for bit in flips(stored, path, at, 8):
        verdict, found = stored.verify()
        assert not verdict.whole and [(each.kind, each.offset) for each in found] == [(Kind.LOG_RECORD, at)], (
            f"bit {bit - 8 * at}"
        )
        assert scan_log(stored.layout, SETTINGS.log_file_size, 0).end == at, f"bit {bit - 8 * at}"


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 8], ids=["empty", "short", "long"])
@pytest.mark.parametrize("properties", [{}, {"TAGS": "t", "KEYS": "a b"}], ids=["bare", "with properties"])
def test_every_bit_of_records_of_every_shape(body: bytes, properties: dict[str, str]) -> None:
    """Also if no neighbour's magic follows it: the size is compared with the parts."""
    whole = record.encode("T", body, properties=properties, physical_offset=4096, queue_offset=7, store_ms=5, born_ms=4)
    for bit in range(8 * len(whole)):
        content = bytearray(whole + bytes(4096))
        content[bit // 8] ^= 1 << bit % 8
        found = record.check(content, physical_offset=4096)
        assert isinstance(found, Fault), f"bit {bit % 8} of byte {bit // 8}"


def test_no_bit_of_a_record_gives_out_another_body(stored: Stored) -> None:
    """Method: all bits of one record; a consumer that reads just this message gets its body, or is told that it cannot."""
    path, at, size, (topic, queue, number) = a_record(stored)
    refused = 0
    for bit in flips(stored, path, at, size):
        reader = Reader(
            store=str(stored.layout.root), log_file_size=SETTINGS.log_file_size, queue_file_units=SETTINGS.queue_file_units
        )
        reader.add_offline(topic, queue, number, number + 1)
        try:
            [message] = reader.messages(1)
        except CorruptRecord:
            refused += 1
            continue
        assert bytes(message) == stored.bodies[topic, queue][number], f"bit {bit - 8 * at}"
    assert refused > 8 * len(stored.bodies[topic, queue][number])
