"""Goal: verify says "whole" about a whole store, and names what is wrong with any other, with its place and size.

Method: composed logs, damaged in one place at a time; then many places at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import StoreLocked, StoreUnsupported
from orbitmq.store import abort, config
from orbitmq.store.commit_log.record import BLANK_MAGIC, encode
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock
from orbitmq.store.positions import Positions
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.findings import Finding, Kind, Verdict
from orbitmq.store.verify.verify import verify
from tests.store.log_builder import FILE_SIZE, LogBuilder, Written
from tests.store.queue_builder import index_queues
from tests.store.recovery_rig import set_reput

SETTINGS = StoreSettings(log_file_size=FILE_SIZE, queue_file_units=16, index_slots=10, index_entries=20)


def complete(log: LogBuilder) -> None:
    """Queues and topics for the log."""
    index_queues(log)
    topics = {topic: TopicConfig(topic) for topic, _ in log.next_offsets}
    config.store_topics(log.layout, topics, DataVersion())


def run(log: LogBuilder) -> tuple[Verdict, list[Finding]]:
    """What is found in the log; of the messages that are lost with it only their number is checked."""
    complete(log)
    found: list[Finding] = []
    verdict = verify(log.layout, SETTINGS, found.append)
    lost = sum(finding.count or 0 for finding in found if finding.kind is Kind.MESSAGE_LOST)
    if not verdict.running and Kind.LOG_SHORT not in verdict.faults:
        assert lost == len(log.written) - verdict.records
    return verdict, [finding for finding in found if finding.kind is not Kind.MESSAGE_LOST]


def places(found: list[Finding], kind: Kind = Kind.LOG_RECORD) -> list[tuple[int | None, int | None]]:
    assert all(finding.kind is kind for finding in found), found
    return [(finding.offset, finding.size) for finding in found]


def test_a_whole_log(log: LogBuilder) -> None:
    log.fill(4 * FILE_SIZE + 1234)
    complete(log)
    seen: list[tuple[int, int]] = []
    verdict = verify(log.layout, SETTINGS, lambda finding: pytest.fail(str(finding)), lambda *step: seen.append(step))
    assert verdict.whole and (verdict.begin, verdict.end, verdict.records) == (0, log.end, len(log.written))
    assert seen == sorted(seen) and log.end <= seen[-1][0] <= seen[-1][1] == 5 * FILE_SIZE and not verdict.running


def test_an_empty_store(log: LogBuilder) -> None:
    verdict, found = run(log)
    assert verdict.whole and not found and verdict.records == 0


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnsupported):
        verify(StoreLayout.at(tmp_path / "nothing"), SETTINGS, lambda finding: None)


@pytest.mark.parametrize(
    ("at", "content", "why"),
    [
        (4, b"\xdb", "magic"),
        (0, b"\x7f", "size"),
        (0, b"\0\0\0\0", "size"),
        (28, b"\x00\x01", "place"),
        (88, b"B", "body"),
        (20, b"\x01", "CRC property"),
        (8, b"\x01", "body"),
        (-1, b"\x03", "CRC property"),
    ],
)
def test_one_spoilt_record(log: LogBuilder, at: int, content: bytes, why: str) -> None:
    """Its place and its size are named, and everything after it is read."""
    log.fill(2 * FILE_SIZE)
    bad = log.written[37]
    log.spoil(bad.offset + (at if at >= 0 else bad.size + at), content)
    verdict, found = run(log)
    assert places(found) == [(bad.offset, bad.size)]
    assert why in found[0].text and found[0].path == str(log.layout.log_file(0)) and found[0].damage
    assert verdict.end == log.end and verdict.records == len(log.written) - 1
    assert verdict.faults == {Kind.LOG_RECORD: 1, Kind.MESSAGE_LOST: 1}


def spoil_body(log: LogBuilder, record: Written) -> None:
    log.spoil(record.offset + 8, b"\xff\xff")


def test_neighbours_are_named_each(log: LogBuilder) -> None:
    log.fill(FILE_SIZE)
    bad = log.written[10:14]
    for record in bad:
        spoil_body(log, record)
    _, found = run(log)
    assert places(found) == [(record.offset, record.size) for record in bad]


def test_the_last_record_before_the_end_of_a_file(log: LogBuilder) -> None:
    log.fill(2 * FILE_SIZE)
    bad = max((record for record in log.written if record.offset < FILE_SIZE), key=lambda record: record.offset)
    spoil_body(log, bad)
    verdict, found = run(log)
    assert places(found) == [(bad.offset, bad.size)] and verdict.records == len(log.written) - 1


def blank_of(log: LogBuilder) -> int:
    """Where the first file's blank marker lies."""
    return max(record.offset + record.size for record in log.written if record.offset < FILE_SIZE)


@pytest.mark.parametrize("content", [bytes(8), b"\0\x7f", b"\0\0\0\0\xcb\xd4\x31\x95"])
def test_a_blank_marker_that_is_missing_or_spoilt(log: LogBuilder, content: bytes) -> None:
    log.fill(2 * FILE_SIZE)
    at = blank_of(log)
    log.spoil(at, content)
    verdict, found = run(log)
    assert places(found) == [(at, FILE_SIZE - at)]
    assert verdict.records == len(log.written)


def test_a_lost_sector(log: LogBuilder) -> None:
    """Zeros over the middle of one record, two whole ones, and the begin of another."""
    log.fill(FILE_SIZE)
    first, last = log.written[20], log.written[23]
    log.spoil(first.offset + 50, bytes(last.offset + 60 - first.offset - 50))
    verdict, found = run(log)
    assert places(found) == [(first.offset, last.offset + last.size - first.offset)]
    assert verdict.end == log.end


def test_a_hole_that_begins_at_a_record(log: LogBuilder) -> None:
    log.fill(3 * FILE_SIZE)
    first = log.written[20]
    after = next(record for record in log.written if record.offset > FILE_SIZE + 1000)
    log.spoil(first.offset, bytes(FILE_SIZE - first.offset))
    log.spoil(FILE_SIZE, bytes(after.offset - FILE_SIZE))
    verdict, found = run(log)
    assert places(found) == [(first.offset, FILE_SIZE - first.offset), (FILE_SIZE, after.offset - FILE_SIZE)]
    assert "never written" in found[0].text and verdict.end == log.end


def test_garbage_that_looks_like_records(log: LogBuilder) -> None:
    """A body that holds records of another place, and lost its own header, is one gap."""
    log.append()
    bad = log.append(body=encode("T", b"inner", physical_offset=5) * 3 + BLANK_MAGIC.to_bytes(4, "big") * 2)
    log.append()
    log.spoil(bad.offset, bytes(20))
    _, found = run(log)
    assert places(found) == [(bad.offset, bad.size)]


def test_files_that_are_missing_short_or_strange(log: LogBuilder) -> None:
    log.fill(5 * FILE_SIZE)
    log.layout.log_file(FILE_SIZE).unlink()
    with log.layout.log_file(2 * FILE_SIZE).open("r+b") as file:
        file.truncate(FILE_SIZE - 8192)
    (log.layout.commitlog / "letter").write_text("dear")
    verdict, found = run(log)
    files = [finding for finding in found if finding.kind is Kind.LOG_FILE]
    assert [(Path(finding.path).name.lstrip("0"), finding.offset) for finding in files] == [
        (str(2 * FILE_SIZE), 2 * FILE_SIZE),
        ("letter", None),
        (str(FILE_SIZE), FILE_SIZE),
    ]
    gone, cut = [finding for finding in found if finding.kind is Kind.LOG_UNREADABLE]
    assert (gone.offset, gone.size) == (FILE_SIZE, FILE_SIZE)
    assert cut.offset is not None and cut.size is not None and cut.offset + cut.size == 3 * FILE_SIZE
    assert verdict.end == log.end


def torn(log: LogBuilder) -> None:
    log.spoil(log.end, encode("T", b"x" * 500, physical_offset=log.end, store_ms=5)[:300])


@pytest.mark.parametrize("clean", [True, False])
def test_a_torn_tail(log: LogBuilder, clean: bool) -> None:
    """After a kill it is only a note; after a clean stop, or below the flushed position, it is a fault."""
    log.fill(FILE_SIZE // 2)
    record = Positions(log.layout)
    if clean:
        record.record_stop(log.end, 1)
    else:
        record.record(log.end, 1)
        abort.create(log.layout)
    torn(log)
    verdict, found = run(log)
    assert places(found, Kind.LOG_RECORD if clean else Kind.LOG_TAIL) == [(log.end, FILE_SIZE - log.end)]
    assert verdict.whole is not clean and verdict.notes == (not clean) and verdict.end == log.end


@pytest.mark.parametrize("files_left", [0, 1])
def test_a_log_that_is_shorter_than_was_recorded(log: LogBuilder, files_left: int) -> None:
    log.fill(FILE_SIZE + 5000)
    Positions(log.layout).record(log.end, 1)
    log.layout.log_file(FILE_SIZE).unlink()
    if not files_left:
        log.layout.log_file(0).unlink()
    verdict, found = run(log)
    assert places(found, Kind.LOG_SHORT) == [(files_left * FILE_SIZE, log.end - files_left * FILE_SIZE)]
    assert not verdict.whole


def test_a_running_brokers_store_is_read_as_far_as_it_is_settled(log: LogBuilder) -> None:
    log.fill(2 * FILE_SIZE)
    settled = log.written[-40]
    torn(log)
    lock = StoreLock.acquire(log.layout, "test")
    try:
        with pytest.raises(StoreLocked):
            run(log)
        Positions(log.layout).record(log.end, 1)
        set_reput(log, settled.offset)
        verdict, found = run(log)
        assert verdict.whole and not found and verdict.running and verdict.end == settled.offset
        spoil_body(log, log.written[-41])
        spoil_body(log, log.written[-39])
        verdict, found = run(log)
        assert places(found) == [(log.written[-41].offset, log.written[-41].size)]
    finally:
        lock.release()
    assert not run(log)[0].running
