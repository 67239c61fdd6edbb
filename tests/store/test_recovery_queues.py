"""Goal: after any end of the last life, queues hold what the log holds, or are made again from it; nothing leads past its end.

Method: composed logs with queues that lack units, files or everything, or have too many.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import abort, config
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.table import Ending
from tests.store.log_builder import FILE_SIZE, LogBuilder
from tests.store.queue_builder import UNITS, index_queues, write_index, write_units
from tests.store.recovery_rig import run, set_reput


def test_queues_without_a_log_are_set_aside(log: LogBuilder) -> None:
    log.fill(2000)
    index_queues(log)
    write_index(log.layout, "20240101000000000", log.written[0], log.written[-1])
    log.layout.log_file(0).unlink()
    config.store_offsets(log.layout, {("T", "g"): {0: 5}})
    report = run(log.layout)
    assert len(report.cuts) == 2 and all(cut.path and any(Path(cut.path).iterdir()) for cut in report.cuts)
    assert not list(log.layout.consumequeue.iterdir()) and not list(log.layout.index.iterdir())
    assert config.load_offsets(log.layout) == {("T", "g"): {0: 0}}


@pytest.mark.parametrize("clean", [True, False])
def test_queues_that_were_removed_are_made_anew(log: LogBuilder, clean: bool) -> None:
    """As with RocketMQ, removing consumequeue/ has it made anew; offsets that were used are not used again."""
    log.fill(3 * FILE_SIZE)
    record = Positions(log.layout)
    if clean:
        record.record_stop(log.end, 1)
    else:
        record.record(log.end, 1)
        abort.create(log.layout)
    set_reput(log, log.end)
    report = run(log.layout)
    assert report.ending is (Ending.STOPPED if clean else Ending.KILLED)
    assert (report.reput, report.scanned_from, report.end) == (0, 0, log.end)
    assert {(state.topic, state.queue): state.next_offset for state in report.queues} == dict(log.next_offsets)


def test_queues_and_groups_follow_the_cut(log: LogBuilder) -> None:
    """Units, whole files of units, and group offsets beyond the end go; offsets of unknown queues stay."""
    log.fill(FILE_SIZE // 2, queues=2)
    index_queues(log)
    bad = log.written[-2 * UNITS - 5]
    log.spoil(bad.offset + 90, b"\x01")
    config.store_offsets(log.layout, {("T", "g"): {0: 10**6, 1: 1, 7: 99}, ("other", "g"): {0: 5}})
    config.store_topics(log.layout, {"U": TopicConfig("U")}, DataVersion())
    report = run(log.layout)
    kept = [record for record in log.written if record.offset < bad.offset]
    for state in report.queues:
        newest = [record for record in kept if record.queue == state.queue][-1]
        assert (state.max_offset, state.next_offset) == (newest.queue_offset + 1,) * 2
        assert state.physical_end == newest.offset + newest.size
        assert (state.min_offset, state.topic) == (0, "T")
        files = sorted(log.layout.queue_folder("T", state.queue).iterdir())
        units = b"".join(path.read_bytes() for path in files)
        assert not units[state.max_offset * 20 :].strip(b"\0") and len(files) == -(-state.max_offset // UNITS)
    zero_end = report.queues[0].next_offset
    assert config.load_offsets(log.layout) == {("T", "g"): {0: zero_end, 1: 1, 7: 99}, ("other", "g"): {0: 5}}
    assert [(one.queue, one.before, one.after) for one in report.lowered] == [(0, 10**6, zero_end)]
    assert report.missing_topics == (("T", 2),)


def test_units_behind_a_hole_go_after_a_power_cut(log: LogBuilder) -> None:
    """Unit 5 did not reach the disk, unit 6 did and points past the end: once unit 5 is written again it must not
    count.
    """
    log.fill(6 * 1000)
    abort.create(log.layout)
    folder = log.layout.queue_folder("T", 0)
    write_units(folder, {number: (number * 10, 10, 0) for number in range(5)} | {6: (10**9, 10, 0)})
    run(log.layout)
    assert not (folder / f"{0:020d}").read_bytes()[5 * 20 :].strip(b"\0")


def test_old_messages_that_were_removed(log: LogBuilder) -> None:
    """The log begins later than its queues: their min is the first unit that the log still holds."""
    log.fill(3 * FILE_SIZE, queues=1)
    index_queues(log)
    log.layout.log_file(0).unlink()
    report = run(log.layout)
    first = next(record for record in log.written if record.offset >= FILE_SIZE)
    assert report.begin == FILE_SIZE
    assert report.queues[0].min_offset == first.queue_offset


def test_a_queue_that_lost_its_first_file_begins_where_it_did(log: LogBuilder) -> None:
    """After a power cut the name of the second file may be on disk and that of the first may not."""
    log.fill(FILE_SIZE, queues=1)
    index_queues(log)
    abort.create(log.layout)
    (log.layout.queue_folder("T", 0) / f"{0:020d}").unlink()
    report = run(log.layout)
    assert [(state.min_offset, state.max_offset, state.next_offset) for state in report.queues] == [(0, 0, len(log.written))]
    assert report.reput == 0 and not any(log.layout.queue_folder("T", 0).iterdir())


def test_a_queue_that_lost_its_first_file_and_its_messages_begins_at_zero(log: LogBuilder) -> None:
    """The same, if the power cut took all of its messages too. It began at its second file before, for good."""
    log.fill(FILE_SIZE // 2, queues=1)
    index_queues(log)
    folder = log.layout.queue_folder("U", 0)
    write_units(folder, {number: (log.end + number, 10, 0) for number in range(UNITS, UNITS + 3)})
    abort.create(log.layout)
    report = run(log.layout)
    states = {state.topic: (state.min_offset, state.max_offset, state.next_offset) for state in report.queues}
    assert states["U"] == (0, 0, 0) and not any(folder.iterdir())


@pytest.mark.parametrize("gone", [True, False])
def test_a_queue_whose_first_file_was_removed_goes_on(log: LogBuilder, gone: bool) -> None:
    """Its last file says which number comes next, though nothing of it is read in the log. gone: retention has removed the
    log's beginning; otherwise that is only not read after this power cut."""
    log.step_ms = 1000
    for _ in range(UNITS + 1):
        log.append("U")
    log.fill(4 * FILE_SIZE, queues=1)
    index_queues(log)
    folder = log.layout.queue_folder("U", 0)
    (folder / f"{0:020d}").unlink()
    last_ms = log.written[-1].store_ms
    abort.create(log.layout)
    Positions(log.layout).record(log.end, last_ms)
    Checkpoint(last_ms, last_ms, last_ms).store(log.layout)
    if gone:
        log.layout.log_file(0).unlink()
    report = run(log.layout)
    (state,) = (state for state in report.queues if state.topic == "U")
    assert report.ending is Ending.POWER_CUT and report.scanned_from >= FILE_SIZE
    assert state.next_offset == UNITS + 1 and any(folder.iterdir())


def test_the_checkpoint_vouches_for_no_queues_that_are_gone(log: LogBuilder) -> None:
    """When they are made anew, they are not on disk until they are synced again."""
    log.step_ms = 1000
    log.fill(3 * FILE_SIZE)
    last_ms = log.written[-1].store_ms
    Positions(log.layout).record_stop(log.end, last_ms)
    set_reput(log, log.end)
    Checkpoint(last_ms, last_ms, 0).store(log.layout)
    assert run(log.layout).reput == 0
    assert Checkpoint.load(log.layout) == Checkpoint(last_ms, 0, 0)


@pytest.mark.parametrize("ahead_ms", [1, 10**15])
def test_a_checkpoint_that_the_log_refutes_is_not_believed(log: LogBuilder, ahead_ms: int) -> None:
    """It is damaged, or another store's; and its time does not become that of the next message."""
    log.step_ms = 1000
    log.fill(3 * FILE_SIZE)
    index_queues(log)
    abort.create(log.layout)
    last_ms = log.written[-1].store_ms
    Checkpoint(last_ms + ahead_ms, last_ms + ahead_ms, last_ms).store(log.layout)
    report = run(log.layout)
    assert (report.scanned_from, report.reput, report.last_store_ms) == (0, 0, last_ms)
    assert Checkpoint.load(log.layout) == Checkpoint()
