"""Goal: after any end of the last life, keys are found once each, and none leads past the end of the log.

Method: composed logs with index files of which only the header counts; which of them stay, and where indexing continues.
"""

from __future__ import annotations

import struct
import zlib

import pytest

from orbitmq.store import abort
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.table import Ending
from orbitmq.store.reput_commit import ReputCommit
from tests.store.log_builder import FILE_SIZE, LogBuilder
from tests.store.queue_builder import index_queues, write_index
from tests.store.recovery_rig import run, set_reput


@pytest.mark.parametrize("index_ms", ["first", "second"])
def test_index_files_that_the_checkpoint_vouches_for_stay(log: LogBuilder, index_ms: str) -> None:
    """After a power cut the others are removed, and indexing starts after the last record of those that stay. The newest is
    removed even if the checkpoint covers what its header says."""
    log.step_ms = 1000
    log.fill(5 * FILE_SIZE)
    index_queues(log)
    abort.create(log.layout)
    third = len(log.written) // 3
    first, second = log.written[:third], log.written[third : 2 * third]
    write_index(log.layout, "20240101000000000", first[0], first[-1])
    write_index(log.layout, "20240101000000001", second[0], second[-1])
    if index_ms == "first":
        (log.layout.index / "20240101000000002").write_bytes(bytes(1000))
    last_ms = log.written[-1].store_ms
    covered = first if index_ms == "first" else second
    Checkpoint(last_ms, last_ms, covered[-1].store_ms).store(log.layout)
    log.layout.reput.write_bytes(b"stale")
    report = run(log.layout)
    gone = ("20240101000000001", "20240101000000002")
    assert report.removed_index_files == (gone if index_ms == "first" else gone[:1])
    assert report.reput == second[0].offset
    assert report.scanned_from >= 4 * FILE_SIZE
    assert not log.layout.reput.exists()


def test_an_index_that_reaches_past_the_end_goes(log: LogBuilder) -> None:
    log.fill(FILE_SIZE)
    write_index(log.layout, "20240101000000000", log.written[0], log.written[9])
    write_index(log.layout, "20240101000000001", log.written[10], log.written[-1])
    index_queues(log)
    bad = log.written[-3]
    log.spoil(bad.offset + 90, b"\x01")
    report = run(log.layout)
    assert report.end == bad.offset
    assert report.removed_index_files == ("20240101000000001",)
    assert report.reput == log.written[10].offset


@pytest.mark.parametrize("newer", ["whole", "torn", "void"])
def test_the_newest_whole_commit_of_reput_counts(log: LogBuilder, newer: str) -> None:
    log.append()
    first, second = (struct.pack(">QQQQ40x", version, version * 100, 0, 0) for version in (4, 5))
    crc = zlib.crc32(second) ^ (newer == "torn")
    second = (bytes(8) + second[8:]) if newer == "void" else second
    slots = first + struct.pack(">I", zlib.crc32(first)), second + struct.pack(">I", crc)
    content = b"OMQREPUT".ljust(64, b"\0") + slots[0].ljust(128, b"\0") + slots[1]
    log.layout.reput.write_bytes(content.ljust(4096, b"\0"))
    expected = 500 if newer == "whole" else 400
    assert ReputCommit.load(log.layout) == ReputCommit(expected, expected)
    for broken in (b"", content, bytes(4096)):
        log.layout.reput.write_bytes(broken)
        assert ReputCommit.load(log.layout) is None


def test_an_index_ahead_of_a_cut_is_built_anew(log: LogBuilder) -> None:
    """reput had committed what is now cut: nothing says which entries to remove, so all of them are."""
    log.fill(FILE_SIZE)
    index_queues(log)
    abort.create(log.layout)
    Positions(log.layout).record(log.written[0].offset, 1)
    write_index(log.layout, "20240101000000000", log.written[0], log.written[3])
    set_reput(log, log.end)
    log.spoil(log.written[20].offset + 90, b"\x01")
    report = run(log.layout)
    assert (report.end, report.reput, report.ending) == (log.written[20].offset, 0, Ending.KILLED)
    assert report.removed_index_files and not log.layout.reput.exists()


@pytest.mark.parametrize("foreign", [True, False])
def test_an_index_file_that_was_removed_is_made_anew(log: LogBuilder, foreign: bool) -> None:
    """The file of reput's commit is gone: a RocketMQ broker recovered the store and made another, or somebody removed it. Older
    files stay; later ones may have gaps and are removed."""
    log.fill(3 * FILE_SIZE)
    index_queues(log)
    Positions(log.layout).record_stop(log.end, 1)
    set_reput(log, log.end, "20240101000000001")
    write_index(log.layout, "20240101000000000", log.written[0], log.written[9])
    if foreign:
        write_index(log.layout, "20240101000000002", log.written[30], log.written[-1])
    report = run(log.layout)
    assert (report.ending, report.end, report.reput) == (Ending.STOPPED, log.end, log.written[10].offset)
    assert report.removed_index_files == (("20240101000000002",) if foreign else ())
    assert not log.layout.reput.exists()
    assert report.scanned_from == log.end, "keys are found again by reput, not by reading the log twice"


@pytest.mark.parametrize("expired", [False, True])
def test_of_index_files_that_end_together_the_checkpoint_means_the_first(log: LogBuilder, expired: bool) -> None:
    """It names the time at which the last synced file ends. A later file that begins in the same millisecond may say the same,
    if that is how far its header had reached the disk. expired: retention has removed the first."""
    log.fill(3 * FILE_SIZE)
    index_queues(log)
    abort.create(log.layout)
    same = log.written[9]
    if not expired:
        write_index(log.layout, "20240101000000000", log.written[0], same)
    write_index(log.layout, "20240101000000001", same, same)
    write_index(log.layout, "20240101000000002", log.written[11], log.written[-1])
    last_ms = log.written[-1].store_ms
    Checkpoint(last_ms, last_ms, same.store_ms).store(log.layout)
    report = run(log.layout)
    assert report.removed_index_files == ("20240101000000001", "20240101000000002")
    assert report.reput <= log.written[10].offset


def test_the_checkpoint_vouches_for_no_index_that_is_gone(log: LogBuilder) -> None:
    """Files that are made anew end before the time that it names, and are not on disk yet."""
    log.fill(3 * FILE_SIZE)
    index_queues(log)
    Positions(log.layout).record_stop(log.end, log.written[-1].store_ms)
    set_reput(log, log.end, "20240101000000001")
    write_index(log.layout, "20240101000000000", log.written[0], log.written[9])
    last_ms = log.written[-1].store_ms
    Checkpoint(last_ms, last_ms, last_ms).store(log.layout)
    run(log.layout)
    assert Checkpoint.load(log.layout) == Checkpoint(last_ms, last_ms, log.written[9].store_ms)
