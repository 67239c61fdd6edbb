"""Goal: a scan ends exactly where the good records end, whatever follows, and knows where every queue continues.

Method: composed logs over several files, ended or damaged in each way that a crash or a bad disk can leave.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import StoreFailed
from orbitmq.store.commit_log.log_scan import scan_log
from orbitmq.store.commit_log.record import BLANK_MAGIC, Fault, encode
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import FILE_SIZE, LogBuilder


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return LogBuilder(layout)


def test_no_file_is_an_end(log: LogBuilder) -> None:
    found = scan_log(log.layout, FILE_SIZE, 0)
    assert (found.end, found.fault, found.records, found.last_ms) == (0, Fault.END, 0, 0)


def test_it_reads_over_file_ends(log: LogBuilder) -> None:
    log.fill(3 * FILE_SIZE + 5000)
    found = scan_log(log.layout, FILE_SIZE, 0)
    last = log.written[-1]
    assert (found.end, found.fault, found.records) == (log.end, Fault.END, len(log.written))
    assert (found.last_ms, found.last_offset) == (last.store_ms, last.offset)
    assert found.next_offsets == dict(log.next_offsets)


def test_it_starts_at_any_record(log: LogBuilder) -> None:
    log.fill(2 * FILE_SIZE)
    for record in log.written[:: len(log.written) // 20]:
        found = scan_log(log.layout, FILE_SIZE, record.offset)
        assert found.end == log.end and found.records == len(log.written) - log.written.index(record)


def test_many_queues_and_long_names(log: LogBuilder) -> None:
    """More queues than the first table holds, names up to the longest."""
    for number in range(1500):
        log.append(topic=("x" * 120 + str(number // 2))[-127:], queue=number % 2, body=b"")
    log.append(topic="é" * 60)
    assert scan_log(log.layout, FILE_SIZE, 0).next_offsets == dict(log.next_offsets)


@pytest.mark.parametrize(("sys_flag", "next_offset"), [(0, 2), (0x4, 1), (0x8, 2), (0xC, 1)])
def test_prepared_and_rolled_back_messages_have_no_place(log: LogBuilder, sys_flag: int, next_offset: int) -> None:
    log.append()
    log.append(sys_flag=sys_flag)
    assert scan_log(log.layout, FILE_SIZE, 0).next_offsets == {("T", 0): next_offset}


@pytest.mark.parametrize(
    ("at", "content", "fault"),
    [
        (4, b"\0\0\0\0", Fault.BAD_MAGIC),
        (0, b"\x7f\xff\xff\xff", Fault.BAD_SIZE),
        (0, b"\0\0\0\x01", Fault.BAD_SIZE),
        (28, b"\x00\x01", Fault.BAD_PLACE),
        (88, b"B", Fault.BAD_BODY_CRC),
        (20, b"\x01", Fault.BAD_CRC),
        (0, bytes(113), Fault.END),
        (0, (77).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big"), Fault.BAD_SIZE),
    ],
)
def test_it_ends_before_what_is_spoilt(log: LogBuilder, at: int, content: bytes, fault: Fault) -> None:
    log.append()
    spoilt = log.append()
    log.append()
    log.spoil(spoilt.offset + at, content)
    found = scan_log(log.layout, FILE_SIZE, 0)
    assert (found.end, found.fault, found.records) == (spoilt.offset, fault, 1)


@pytest.mark.parametrize(("left", "good"), [(8, True), (7, False), (1, False), (0, False)])
def test_a_record_may_not_take_the_blank_markers_room(log: LogBuilder, left: int, good: bool) -> None:
    """A writer leaves eight bytes free at the end of each file; anything else was not made by a writer."""
    overhead = len(encode("T", b""))
    log.spoil(0, encode("T", bytes(FILE_SIZE - left - overhead)))
    found = scan_log(log.layout, FILE_SIZE, 0)
    assert (found.records, found.end) == ((1, FILE_SIZE - 8) if good else (0, 0))
    assert found.fault is (Fault.END if good else Fault.BAD_SIZE)


def test_a_file_of_another_length_fails(log: LogBuilder) -> None:
    log.append()
    with log.layout.log_file(0).open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(StoreFailed):
        scan_log(log.layout, FILE_SIZE, 0)


def test_it_tells_how_far_it_is(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.commit_log.log_scan.STEP_BYTES", 10_000)
    log.fill(FILE_SIZE // 2)
    seen: list[int] = []
    found = scan_log(log.layout, FILE_SIZE, 0, seen.append)
    assert seen == sorted(seen) and len(seen) >= 3 and seen[-1] <= found.end
