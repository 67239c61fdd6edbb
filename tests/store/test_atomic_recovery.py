"""Goal: what is left of an atomic batch of which the end is missing is cut, wherever the log begins to be read; a batch
that is whole stays, and so does everything that was flushed.

Method: composed logs whose last batch ends after each of its records, scanned from each record boundary, and opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.commit_log.log_scan import scan_log
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from tests.store.log_builder import FILE_SIZE, LogBuilder
from tests.store.recovery_rig import run


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return LogBuilder(layout)


def batch(log: LogBuilder, count: int, have: int | None = None, sealed: bool = True) -> list[int]:
    """Appends a batch, or its first records, each to a queue of its own; returns where they begin."""
    numbers = range(count if have is None else have)
    return [log.append(queue=n, properties={"ATOMIC": f"{n}:{count}"}, sealed=sealed).offset for n in numbers]


@pytest.mark.parametrize("have", range(6))
def test_a_batch_counts_when_it_is_whole(log: LogBuilder, have: int) -> None:
    batch(log, 3)
    log.append(body=b"between")
    before, queues = log.end, dict(log.next_offsets)
    batch(log, 5, have)
    found = scan_log(log.layout, FILE_SIZE, 0)
    whole = have == 5
    assert (found.end, found.fault_at, found.headless) == (log.end if whole else before, log.end, False)
    assert found.next_offsets == (dict(log.next_offsets) if whole else queues)
    assert found.records == len(log.written) - (0 if whole else have)
    assert found.last_offset == log.written[found.records - 1].offset
    assert scan_log(log.layout, FILE_SIZE, 0, parts=True).end == log.end


def test_a_scan_that_begins_in_a_batch_says_so(log: LogBuilder) -> None:
    log.append()
    places = batch(log, 4, 3)
    for place in places[1:]:
        found = scan_log(log.layout, FILE_SIZE, place)
        assert (found.end, found.headless) == (log.end, True)
    whole = batch(log, 4)
    for place in whole[1:]:
        found = scan_log(log.layout, FILE_SIZE, place)
        assert (found.end, found.headless) == (log.end, False)


def test_only_the_end_of_the_log_is_cut(log: LogBuilder) -> None:
    """A batch that breaks off before other records was seen by readers, so it stays; and RocketMQ's records are no batches."""
    batch(log, 4, 2)
    log.append()
    assert scan_log(log.layout, FILE_SIZE, 0).end == log.end
    batch(log, 4, 2)
    log.append(properties={"ATOMIC": "1:3"})
    assert scan_log(log.layout, FILE_SIZE, 0).headless
    batch(log, 3, 2, sealed=False)
    assert scan_log(log.layout, FILE_SIZE, 0).end == log.end


@pytest.mark.parametrize("text", ["0:1", "3:3", "a:3", ":3", "0:", "0:99999999999", "5:3"])
def test_what_only_looks_like_a_mark_is_none(log: LogBuilder, text: str) -> None:
    log.append(properties={"ATOMIC": text})
    assert scan_log(log.layout, FILE_SIZE, 0).end == log.end


@pytest.mark.parametrize("torn", [False, True])
def test_recovery_cuts_the_rest(log: LogBuilder, torn: bool) -> None:
    """Also where the record after it is torn; what is cut is kept, and the report says why. A second start changes nothing."""
    log.append()
    end = log.end
    batch(log, 4, 3)
    if torn:
        log.spoil(log.end, bytes.fromhex("00000100daa320a7") + b"torn" * 10)
    report = run(log.layout)
    assert (report.end, report.damage) == (end, None)
    assert [cut.offset for cut in report.cuts] == [end] and "atomic batch" in report.cuts[0].why
    again = run(log.layout)
    assert (again.end, again.cuts) == (end, ())


def test_what_was_flushed_stays(log: LogBuilder) -> None:
    """A repair can cut a log in the middle of a batch. Its first messages were flushed, and perhaps read."""
    log.append()
    batch(log, 4, 2)
    flushed = log.end
    record = Positions(log.layout)
    record.record(flushed, 1)
    record.sync()
    record.close()
    report = run(log.layout)
    assert (report.end, report.damage) == (flushed, None)
    assert run(log.layout).end == flushed
