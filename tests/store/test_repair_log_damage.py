"""Goal: a repair knows what was where the log is damaged: which messages, how many bytes, and where the log continues.

Method: a store that a real broker wrote, with damage that leaves little information.
"""

from __future__ import annotations

import struct

import pytest

from orbitmq.errors import CorruptRecord
from orbitmq.store import config
from orbitmq.store.commit_log.record import Record, check
from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.log_damage import Filling
from orbitmq.store.stand_in import LostMessage, renumber
from orbitmq.store.verify.findings import Gap
from tests.store.damage import SIZE, records, spoil_log, spoilt
from tests.store.repair_rig import account, dead, repair
from tests.store.stored_by_broker import Stored


def test_messages_without_a_place_are_not_skipped(stored: Stored) -> None:
    """Records of RocketMQ's that are whole and follow each other, but a queue's numbers leave one out: there are no bytes for
    it."""
    places = [(offset, size) for offset, size, (topic, queue, _) in records(stored) if (topic, queue) == ("flows", 0)]
    for number, (offset, size) in enumerate(places[100:], 100):
        path = stored.layout.log_file(offset - offset % SIZE)
        spoil_log(stored, offset, renumber(stored.files[path][offset % SIZE :][:size], number + 1))
    for path in stored.of("consumequeue/flows/0"):
        path.unlink()
    with pytest.raises(CorruptRecord, match="choice='cut'"):
        repair(stored, Choice.SKIP)
    _, verdict = repair(stored, Choice.CUT)
    assert verdict.whole and verdict.end == places[100][0]


def test_cut_before_a_missing_file_with_a_spare_behind(stored: Stored) -> None:
    """The spare would not follow what is left."""
    last = records(stored)[-1][0] // SIZE * SIZE
    stored.layout.log_file(last).unlink()
    spare = stored.layout.log_file(last + SIZE)
    spare.write_bytes(bytes(SIZE))
    _, verdict = repair(stored, Choice.CUT)
    assert verdict.whole and not spare.exists()
    account(stored, {place for offset, _, place in records(stored) if offset >= last})


def test_a_last_record_that_is_all_zero_is_no_marker(stored: Stored) -> None:
    """A message was there, though nothing says whose."""
    offset, _, place = [each for each in records(stored) if each[0] < SIZE][-1]
    spoil_log(stored, offset, bytes(SIZE - offset))
    for path in stored.of(f"consumequeue/{place[0]}/{place[1]}"):
        path.unlink()
    job, verdict = repair(stored)
    assert job.undecided and not verdict.whole


def test_the_last_records_of_the_log(stored: Stored) -> None:
    """Each is a gap of its own that nothing good follows; what is overwritten is copied completely."""
    damaged = []
    for offset, size, _ in records(stored)[-3:]:
        spoil_log(stored, offset + 90, b"\xaa\xbb\xcc")
        path = stored.layout.log_file(offset - offset % SIZE)
        damaged.append(path.read_bytes()[offset % SIZE :][:size])
    lost = spoilt(stored)
    assert len(lost) == 3
    groups = {("flows", "G"): {0: 150, 1: 150}, ("alarms", "G"): {0: 150, 1: 150}}
    config.store_offsets(stored.layout, groups)
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole and verdict.records == 600, verdict.faults
    kept = [path.read_bytes() for path in stored.layout.cut.iterdir()]
    assert all(any(record.rstrip(b"\0") in each for each in kept) for record in damaged)
    assert config.load_offsets(stored.layout) == groups, "what stands in has a place too"
    account(stored, lost)


def test_a_queue_gets_no_hole(stored: Stored) -> None:
    """Of one of the first messages not even the unit is left; a stand-in keeps its place too."""
    spoil_log(stored, 0, bytes(16 << 10))
    lost = spoilt(stored)
    stored.spoil(stored.of("consumequeue/flows/1")[0], 20 * 2, b"\xff" * 8)
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole and verdict.records >= 600, verdict.faults
    account(stored, lost)


def test_what_stands_in_at_the_beginning_is_as_old_as_what_follows(stored: Stored) -> None:
    first = next(offset for offset, _, _ in records(stored) if offset >= SIZE)
    path = stored.layout.log_file(SIZE)
    second = check(stored.files[path][first - SIZE :], physical_offset=first)
    assert isinstance(second, Record)
    spoil_log(stored, 0, bytes(SIZE))
    assert repair(stored, Choice.SKIP)[1].whole
    made = check(stored.layout.log_file(0).read_bytes(), physical_offset=0)
    assert isinstance(made, Record) and made.store_ms == second.store_ms


def test_many_lost_messages_take_no_time_each_for_all(stored: Stored) -> None:
    """Method: counts how often the messages of a gap are added up."""
    filling = Filling(Gap(0, 10**9, False, 0, 1, last=False), 10**9, to_file_end=True)
    before = filling.room
    for number in range(1000):
        filling.add(LostMessage("T", 0, number))
    filling.messages = []  # the sum is kept beside them
    assert before - filling.room == 1000 * LostMessage("T", 0, 0).least


def test_a_torn_tail_gets_no_stand_in(stored: Stored) -> None:
    """Recovery cuts it, as after any death; its units point nowhere, least of all to damage before it."""
    *_, (last, _, torn) = records(stored)
    dead(stored, last)
    for offset, size, _ in records(stored)[98:104]:
        spoil_log(stored, offset + 30, b"\xff" * (size - 30))
    lost = spoilt(stored)
    spoil_log(stored, last + 60, b"\xff\xfe\xfd")
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole, verdict.faults
    assert verdict.end == last and verdict.records == 599
    account(stored, lost | {torn})


def test_queues_are_believed_about_damage_after_a_power_cut(stored: Stored) -> None:
    """They were written for the log that is damaged now, whether they were synced or not."""
    dead(stored, records(stored)[-1][0])
    stored.layout.reput.unlink()
    spoil_log(stored, 0, bytes(16 << 10))
    lost = spoilt(stored)
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole, verdict.faults
    account(stored, lost)


@pytest.mark.parametrize("choice", Choice)
def test_an_empty_log_file_far_ahead(stored: Stored, choice: Choice) -> None:
    """Nothing is made up to it."""
    stored.layout.log_file(1000 * SIZE).write_bytes(bytes(SIZE))
    job, verdict = repair(stored, choice)
    assert verdict.whole and not job.undecided
    assert not any("choice" in job.deed(finding) for finding in job.findings)
    assert len(list(stored.layout.commitlog.iterdir())) == len(stored.of("commitlog"))
    assert len(list(stored.layout.cut.glob(f"{1000 * SIZE:020d}-*"))) == 1
    account(stored, set())


def test_units_far_behind_the_end_of_a_queue(stored: Stored) -> None:
    """A unit that points into damage is no message: there was no room for all that would lie before it."""
    offset, _, (topic, queue, _) = records(stored)[-20]
    spoil_log(stored, offset + 90, b"\xff\xff")
    lost = spoilt(stored)
    last = stored.of(f"consumequeue/{topic}/{queue}")[-1]
    stored.spoil(last, 20 * 38, struct.pack(">QIq", offset, 100, 0))
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole, verdict.faults
    account(stored, lost)
