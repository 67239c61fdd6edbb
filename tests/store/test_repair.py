"""Goal: after a repair the store is whole, a broker runs on it, and every message that was not damaged has its place and its
body; what is lost was announced before.

Method: a store that a real broker wrote, damaged in every way that verify knows, and repaired by every choice there is.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import orbitmq
from orbitmq.errors import CorruptRecord
from orbitmq.store import config
from orbitmq.store.lock import StoreLock
from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.repair import Repair
from orbitmq.store.stand_in import renumber
from tests.store.damage import LOG_DAMAGE, REBUILT, SIZE, Place, records, spoil_log, the_end
from tests.store.repair_rig import account, dead, repair
from tests.store.stored_by_broker import SETTINGS, Stored


@pytest.mark.parametrize("spoil", LOG_DAMAGE)
def test_skip(stored: Stored, spoil: Callable[[Stored], set[Place]]) -> None:
    """Only what was damaged is lost, and its places are kept."""
    lost = spoil(stored)
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole, verdict.faults
    assert verdict.records >= 600
    account(stored, lost)


@pytest.mark.parametrize("spoil", LOG_DAMAGE)
def test_cut(stored: Stored, spoil: Callable[[Stored], set[Place]]) -> None:
    """Everything before the damage is there, nothing after it, and the queues continue from there."""
    spoil(stored)
    lock = StoreLock.acquire(stored.layout, "repair")
    try:
        job = Repair(stored.layout, SETTINGS, Choice.CUT)
        job.survey()
        said = job.loss(Choice.CUT)
        assert said is not None and job.verdict is not None
        before = job.verdict.records
        verdict = job.carry_out()
    finally:
        lock.release()
    assert verdict.whole, verdict.faults
    assert said.records == before - verdict.records
    account(stored, {place for offset, _, place in records(stored) if offset >= verdict.end})
    kept = [path for path in stored.layout.cut.iterdir()]
    assert kept or spoil is the_end


@pytest.mark.parametrize("spoil", LOG_DAMAGE)
def test_nothing_is_given_up_unasked(stored: Stored, spoil: Callable[[Stored], set[Place]]) -> None:
    spoil(stored)
    before = {path: path.read_bytes() for path in stored.layout.root.rglob("*") if path.is_file()}
    job, verdict = repair(stored)
    assert job.undecided and not verdict.whole
    skip, cut = job.loss(Choice.SKIP), job.loss(Choice.CUT)
    assert skip is not None and cut is not None and 0 < skip.size <= cut.size
    after = {path: path.read_bytes() for path in stored.layout.root.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("spoil", REBUILT)
@pytest.mark.parametrize("choice", Choice)
def test_what_can_be_rebuilt_is(stored: Stored, spoil: Callable[[Stored], None], choice: Choice) -> None:
    """Nothing is lost, whatever would be chosen for other damage."""
    spoil(stored)
    assert not stored.verify()[0].whole
    job, verdict = repair(stored, choice)
    assert not job.undecided and job.loss(Choice.CUT) is None
    assert verdict.whole, verdict.faults
    account(stored, set())


def test_who_asks_for_a_lost_message_is_told(stored: Stored) -> None:
    """By its id, which names its place; and what its neighbours' keys lead to is still there."""
    offset, _, (topic, queue, number) = records(stored)[301]
    spoil_log(stored, offset + 90, b"\xff\xff")
    assert repair(stored, Choice.SKIP)[1].whole
    with orbitmq.Broker(stored.layout.root, name="asked") as broker:
        with pytest.raises(CorruptRecord, match="a repair gave it up"):
            broker.message(f"7F00000100002A9F{offset:016X}")
        whose = [(each.queue, each.offset) for each in broker.find(topic, f"group-{301 % 7}", most=64)]
    assert whose and (queue, number) not in whose


def test_topics_that_only_the_bak_knows(stored: Stored) -> None:
    """A file is restored from its .bak, and what the log knows in addition is added."""
    path = stored.layout.config / config.TOPICS
    topics, version = config.load_topics(stored.layout)
    del topics["alarms"]
    topics["quiet"] = config.TopicConfig("quiet", 3, 3)
    config.store_topics(stored.layout, topics, version)
    path.with_name(path.name + ".bak").write_bytes(path.read_bytes())
    path.write_text("{")
    assert repair(stored)[1].whole
    topics, _ = config.load_topics(stored.layout)
    assert topics["quiet"].read_queues == 3 and topics["alarms"].read_queues == 2


@pytest.mark.parametrize("units_left", [True, False])
@pytest.mark.parametrize("said", [3, 10**9])
def test_a_wrong_queue_offset_is_put_right(stored: Stored, units_left: bool, said: int) -> None:
    """The record is whole, so nothing is lost. Method: another number with a matching CRC; with the queue's units and
    without."""
    offset, size, (topic, queue, _) = records(stored)[300]
    path = stored.layout.log_file(offset - offset % SIZE)
    spoil_log(stored, offset, renumber(stored.files[path][offset % SIZE :][:size], said))
    if not units_left:
        for units_file in stored.of(f"consumequeue/{topic}/{queue}"):
            units_file.unlink()
    job, verdict = repair(stored)
    assert verdict.whole and not job.undecided, job.findings
    account(stored, set())


@pytest.mark.parametrize("died", [False, True])
@pytest.mark.parametrize("name", ["positions", "reput"])
def test_spoilt_bytes_that_nobody_uses(stored: Stored, name: str, died: bool) -> None:
    if died:
        last = records(stored)[-1]
        dead(stored, last[0] + last[1])
    stored.spoil(stored.layout.own / name, 3000, b"x")
    assert repair(stored)[1].whole
    account(stored, set())
