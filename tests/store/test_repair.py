"""Goal: after a repair the store is whole, a broker runs on it, and every message that was not damaged has its place and its
body; what was lost was said before.

Method: a store that a real broker wrote, spoilt in every way that verify knows, and repaired by every choice there is.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import pytest

import orbitmq
from orbitmq.errors import CorruptRecord
from orbitmq.store import abort, config, remake
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.lock import StoreLock
from orbitmq.store.positions import Positions
from orbitmq.store.record import BLANK_MAGIC, Record, check
from orbitmq.store.recovery import log_cut
from orbitmq.store.recovery.recover import recover
from orbitmq.store.repair import log as repair_log
from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.log_damage import Filling
from orbitmq.store.repair.repair import Repair
from orbitmq.store.stand_in import LEAST_FILLER, LostMessage, fill, renumber, room_for
from orbitmq.store.verify.findings import Gap, Verdict
from tests.store.stored_by_broker import SETTINGS, TOPICS, Stored, store_by_broker

SIZE = SETTINGS.log_file_size
Place = tuple[str, int, int]  # topic, queue, queue offset


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("repaired")
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        yield store_by_broker(folder / "store", "repaired")


@pytest.fixture
def stored(written: Stored) -> Iterator[Stored]:
    yield written
    written.restore()


def records(stored: Stored) -> list[tuple[int, int, Place]]:
    """(physical offset, size, whose) of every message, in the log's order."""
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


def repair(stored: Stored, choice: Choice = Choice.NONE) -> tuple[Repair, Verdict]:
    lock = StoreLock.acquire(stored.layout, "repair")
    try:
        job = Repair(stored.layout, SETTINGS, choice)
        job.survey()
        for finding in job.findings:
            assert job.deed(finding), finding
        return job, job.carry_out()
    finally:
        lock.release()


def read_all(stored: Stored, name: str) -> dict[Place, bytes]:
    """What a broker serves of the store, which takes one more message for each queue, too, at the place that is due."""
    found: dict[Place, bytes] = {}
    sizes = {key: getattr(SETTINGS, key) for key in ("log_file_size", "queue_file_units", "index_slots", "index_entries")}
    with orbitmq.Broker(stored.layout.root, name=name, handlers=1, **sizes) as broker:
        known = {topic.name: topic for topic in broker.status().topics}
        ends = {(name, queue.queue): queue.max_offset for name in TOPICS for queue in known[name].queues}
        with broker.consumer(None, topics=list(TOPICS), start="earliest") as consumer:
            while any(position < ends[key] for key, position in consumer.position().items()):
                for each in consumer.poll_batch(500, timeout=0):
                    found[each.topic, each.queue, each.offset] = bytes(each)
        with broker.producer() as producer:
            for (topic, queue), end in ends.items():
                receipt = producer.send(topic, b"one more", queue=queue)
                assert receipt.offset == end
    return found


def account(stored: Stored, lost: set[Place]) -> None:
    """Everything that was sent is served, where it was; of `lost` nothing."""
    assert stored.verify()[0].whole, stored.verify()[1]
    found = read_all(stored, "repaired")
    sent = {(*key, offset): body for key, bodies in stored.bodies.items() for offset, body in enumerate(bodies)}
    assert found == {place: body for place, body in sent.items() if place not in lost}
    assert stored.verify()[0].whole, "after the broker's life"


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
    """Here and there, and neighbours."""
    for number in (3, 4, 5, 99, 250, 251, 400, 598):
        offset, size, _ = records(stored)[number]
        # Not the CRC property's name: a record without it is one of RocketMQ's.
        spoil_log(stored, offset + number % (size - 40), b"\xaa\xbb\xcc\xdd\xee\xaa")
    return spoilt(stored)


def spoilt(stored: Stored) -> set[Place]:
    """Messages whose bytes are not those that were written."""
    changed = set()
    for offset, size, place in records(stored):
        path = stored.layout.log_file(offset - offset % SIZE)
        at = offset % SIZE
        if path.read_bytes()[at : at + size] != stored.files[path][at : at + size]:
            changed.add(place)
    return changed


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
    """Everything before the damage is there, nothing behind it, and what the queues count goes on from there."""
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


@pytest.mark.parametrize(
    "spoil",
    [
        a_blank_marker,
        units,
        queue_files,
        index_entries,
        index_files,
        small_files,
        one_small_file,
        configs,
        strange_log_files,
    ],
)
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
    """A file is put back from its .bak, and what the log knows beside is added."""
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
    """The record is whole, so nothing is lost. Method: another number with the CRC that belongs to it; with the queue's units
    and without."""
    offset, size, (topic, queue, _) = records(stored)[300]
    path = stored.layout.log_file(offset - offset % SIZE)
    spoil_log(stored, offset, renumber(stored.files[path][offset % SIZE :][:size], said))
    if not units_left:
        for units_file in stored.of(f"consumequeue/{topic}/{queue}"):
            units_file.unlink()
    job, verdict = repair(stored)
    assert verdict.whole and not job.undecided, job.findings
    account(stored, set())


def test_messages_without_a_place_are_not_skipped(stored: Stored) -> None:
    """Records of RocketMQ's that are whole and follow each other, but a queue's numbers leave one out: there are no bytes for
    it."""
    places = [(offset, size) for offset, size, (topic, queue, _) in records(stored) if (topic, queue) == ("flows", 0)]
    for number, (offset, size) in enumerate(places[100:], 100):
        path = stored.layout.log_file(offset - offset % SIZE)
        spoil_log(stored, offset, renumber(stored.files[path][offset % SIZE :][:size], number + 1))
    for path in stored.of("consumequeue/flows/0"):
        path.unlink()
    with pytest.raises(CorruptRecord, match="--cut"):
        repair(stored, Choice.SKIP)
    _, verdict = repair(stored, Choice.CUT)
    assert verdict.whole and verdict.end == places[100][0]


def test_stand_ins_fill_to_the_byte() -> None:
    """Any number of messages in any room is whole records, or refused; nothing is left over."""
    rng = random.Random(7)
    for _ in range(500):
        messages = [LostMessage("T" * rng.randint(1, 60), rng.randrange(5), number) for number in range(rng.randrange(5))]
        to_file_end = rng.random() < 0.5
        least = room_for(messages, to_file_end=to_file_end)
        size = least + rng.choice((0, 1, 19, 20, 21, 91, 92, 93, 200, 5000, 3 << 20))
        if not messages and not to_file_end and size < LEAST_FILLER:
            with pytest.raises(ValueError, match="too few"):
                list(fill(messages, size, 4096, 5, to_file_end=to_file_end))
            continue
        content = b"".join(fill(messages, size, 4096, 5, to_file_end=to_file_end))
        assert to_file_end or len(content) == size
        at, found = 0, []
        while at < len(content):
            if to_file_end and at + 8 == len(content):
                assert content[at:] == struct.pack(">II", size - at, BLANK_MAGIC)
                break
            record = check(content, at, physical_offset=4096 + at)
            assert isinstance(record, Record), record
            if record.sys_flag == 0:
                found.append(LostMessage(record.topic, record.queue_id, record.queue_offset))
            at += record.size
        assert found == messages


@pytest.fixture(scope="module")
def with_an_emptied_queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """Retention has removed all 31 messages of early/0, and no one else's queue is empty."""
    folder = tmp_path_factory.mktemp("emptied")
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        yield store_by_broker(folder / "store", "emptied", early=31)


@pytest.fixture
def emptied(with_an_emptied_queue: Stored) -> Iterator[Stored]:
    yield with_an_emptied_queue
    with_an_emptied_queue.restore()


def next_of(stored: Stored, topic: str, queue: int) -> int:
    return ConsumeQueue(stored.layout.root, topic, queue, SETTINGS.queue_file_units).extent().max_offset


def test_a_group_at_the_end_of_an_emptied_queue(emptied: Stored) -> None:
    """It ends behind its last message that was removed."""
    config.store_offsets(emptied.layout, {("early", "G"): {0: 31}})
    verdict, found = emptied.verify()
    assert verdict.whole and verdict.queues["early", 0].next == 31, found
    config.store_offsets(emptied.layout, {("early", "G"): {0: 32}})
    assert emptied.verify()[0].faults == {"config": 1}
    assert repair(emptied)[1].whole
    assert config.load_offsets(emptied.layout)["early", "G"] == {0: 31}


@pytest.mark.parametrize("what", ["a unit", "short", "short, with a group", "all", "all, with a group"])
def test_an_emptied_queue_does_not_use_offsets_again(emptied: Stored, what: str) -> None:
    [path] = emptied.of("consumequeue/early/0")
    if what.endswith("group"):
        config.store_offsets(emptied.layout, {("early", "G"): {0: 31}})
    if what == "a unit":
        emptied.spoil(path, 62, b"\x40")
    elif what.startswith("short"):
        path.write_bytes(emptied.files[path][: 790 if what == "short" else 490])
    else:
        path.write_bytes(b"\xff" * 790)
    assert repair(emptied)[1].whole
    assert next_of(emptied, "early", 0) == (0 if what == "all" else 31)
    with orbitmq.Broker(emptied.layout.root, name="emptied") as broker, broker.producer() as producer:
        assert producer.send("early", b"late", queue=0).offset == (0 if what == "all" else 31)
    assert emptied.verify()[0].whole


def test_cut_before_a_missing_file_with_a_spare_behind(stored: Stored) -> None:
    """The spare would not follow what is left."""
    last = records(stored)[-1][0] // SIZE * SIZE
    stored.layout.log_file(last).unlink()
    spare = stored.layout.log_file(last + SIZE)
    spare.write_bytes(bytes(SIZE))
    _, verdict = repair(stored, Choice.CUT)
    assert verdict.whole and not spare.exists()
    account(stored, {place for offset, _, place in records(stored) if offset >= last})


def test_a_broker_that_carries_out_a_cut_keeps_all_of_it(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is. Method: a limit for what a crash leaves that is smaller than this."""
    monkeypatch.setattr(log_cut, "KEEP_MAX", 1000)
    place = records(stored)[20][0]
    spoil_log(stored, place, b"\x7f" * 60)
    remake.give(stored.layout, remake.Order(cut=place))
    report = recover(stored.layout, SETTINGS, lambda line: None)
    assert report.end == place and len(report.cuts) > 1 and all(cut.path for cut in report.cuts)


def test_a_last_record_that_is_all_zero_is_no_marker(stored: Stored) -> None:
    """Somebody's message was there, though nothing tells whose."""
    offset, _, place = [each for each in records(stored) if each[0] < SIZE][-1]
    spoil_log(stored, offset, bytes(SIZE - offset))
    for path in stored.of(f"consumequeue/{place[0]}/{place[1]}"):
        path.unlink()
    job, verdict = repair(stored)
    assert job.undecided and not verdict.whole


def test_the_last_records_of_the_log(stored: Stored) -> None:
    """Each is a gap of its own behind which nothing good follows; what is overwritten is kept whole."""
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


def dead(stored: Stored, flushed: int) -> None:
    """As a killed broker leaves it: nothing was on disk for certain from `flushed` on."""
    abort.create(stored.layout)
    record = Positions(stored.layout)
    record.record(flushed, 1)
    record.close()


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


@pytest.mark.parametrize("died", [False, True])
@pytest.mark.parametrize("name", ["positions", "reput"])
def test_spoilt_bytes_that_nobody_uses(stored: Stored, name: str, died: bool) -> None:
    if died:
        last = records(stored)[-1]
        dead(stored, last[0] + last[1])
    stored.spoil(stored.layout.own / name, 3000, b"x")
    assert repair(stored)[1].whole
    account(stored, set())


def test_an_order_that_makes_no_sense(stored: Stored) -> None:
    stored.layout.remake.write_text('{"queues": [], "cut": "x"}')
    assert repair(stored)[1].whole
    account(stored, set())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("pieces", [1, 8, 25, 40])
@pytest.mark.parametrize("then", Choice)
def test_killed_in_the_midst_of_a_gap(stored: Stored, pieces: int, then: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before is carried out, whatever is chosen then: units that point into the bytes
    that are good again say nothing of what was there."""
    offset, _, _ = records(stored)[550]
    last, size, _ = records(stored)[-1]
    spoil_log(stored, offset, b"\xa5" * min(last + size - offset, SIZE - offset % SIZE))
    lost = spoilt(stored)
    left = pieces

    def point(name: str) -> None:
        nonlocal left
        left -= name == "repair_log_written"
        if left == 0:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(repair_log, "crash_point", point)
        repair(stored, Choice.SKIP)
    assert not stored.verify()[0].whole
    _, verdict = repair(stored, then)
    assert verdict.whole and verdict.records >= 600, verdict.faults
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
    """One that points into damage is no message: there was no room for all that would lie before it."""
    offset, _, (topic, queue, _) = records(stored)[-20]
    spoil_log(stored, offset + 90, b"\xff\xff")
    lost = spoilt(stored)
    last = stored.of(f"consumequeue/{topic}/{queue}")[-1]
    stored.spoil(last, 20 * 38, struct.pack(">QIq", offset, 100, 0))
    _, verdict = repair(stored, Choice.SKIP)
    assert verdict.whole, verdict.faults
    account(stored, lost)
