"""The plain list of what was sent, and its comparison with a store."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orbitmq.store.commit_log.mapped_file import list_starts
from orbitmq.store.commit_log.record import Fault, Record, check
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.index_file import key_hash
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.settings.tree_settings import TreeSettings
from orbitmq.store.verify.verify import verify
from tests.power.life import GROUP, QUEUES, Life, finder, open_store

FILES = StoreSettings(log_file_size=64 << 10, queue_file_units=40, index_slots=31, index_entries=40, dedup_window_s=5)
TOPICS = ("alarms", "flows")
RETENTION_BYTES = 3 * FILES.log_file_size  # the least that a broker accepts; two of these are ahead, or begun


@dataclass(frozen=True, slots=True)
class Later:
    """Where a message that waits is to be. due_ms: when, by the clock, or of a level by Clock.passed_ms; None: a half, when its
    transaction is committed."""

    topic: str
    queue: int
    due_ms: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, with the queue offset that its receipt must name."""

    topic: str
    queue: int
    queue_offset: int
    body: bytes
    keys: tuple[str, ...]
    id: str = ""  # the one by which it is known
    ms: int = 0  # when it was stored
    commits: tuple[tuple[str, int], int] | None = None  # a queue, and where the group goes on in it
    later: Later | None = None  # it waits, as a half or until its time
    ends: int | None = None  # which half this operation message settles, by its place in the list
    delivers: int | None = None  # of which delayed message it was made, by its place in the list
    cancels: int | None = None  # likewise


@dataclass(slots=True)
class Model:
    """The plain list. gone: retention may have removed so many from its beginning."""

    sent: list[Sent] = field(default_factory=list)
    gone: int = 0
    places: list[int] = field(default_factory=list)  # physical offset of each message sent
    next_offsets: Counter[tuple[str, int]] = field(default_factory=Counter)
    wholes: list[tuple[int, int]] = field(default_factory=list)  # atomic batches: the first message, and the one after the last
    noted: int = 0  # so many records of where the group is are in a note on disk, but for those
    forgotten: set[int] = field(default_factory=set)  # that retention had removed before
    own: tuple[str, ...] = (COMMITS_TOPIC,)  # topics that are the broker's
    promised: set[int] = field(default_factory=set)  # delayed messages of which somebody was told that they never come

    def append(
        self, topic: str, queue: int, body: bytes, keys: tuple[str, ...] = (), id_: str = "", ms: int = 0, **more: Any
    ) -> None:
        self.sent.append(Sent(topic, queue, self.next_offsets[topic, queue], body, keys, id_, ms, **more))
        self.next_offsets[topic, queue] += 1

    def append_commits(self, queue: tuple[str, int], to: int, body: bytes, ms: int) -> None:
        self.append(COMMITS_TOPIC, 0, body, ms=ms, commits=(queue, to))

    def first_of(self, topic: str, id_: str, now_ms: int, begin: int) -> int | None:
        """The message, by its place in the list, of which one with this id is a duplicate now; the log begins at `begin`."""
        for place in reversed(range(len(self.sent))):
            one = self.sent[place]
            if now_ms - one.ms >= FILES.dedup_window_s * 1000 or (place < len(self.places) and self.places[place] < begin):
                return None
            if (one.topic, one.id) == (topic, id_):
                return place
        return None

    def expire(self, begin: int) -> None:
        """What lies before the physical offset may be removed from now on."""
        self.gone = max(self.gone, bisect_left(self.places, begin))

    def has_some_of_each_queue(self) -> bool:
        """False if retention has removed all of a queue: then the log alone does not say where its numbers continue."""
        return {(one.topic, one.queue) for one in self.sent[self.gone :]} == self.next_offsets.keys()

    def prefix(self, count: int) -> Model:
        """A copy, of the first `count` messages."""
        copied = replace(self, sent=self.sent[:], places=self.places[:], promised=set(self.promised))
        copied.keep(count)
        return copied

    def keep(self, count: int) -> None:
        """Marks the rest as gone."""
        del self.sent[count:], self.places[count:]
        self.next_offsets = Counter((one.topic, one.queue) for one in self.sent)
        self.wholes = [whole for whole in self.wholes if whole[1] <= count]
        self.promised &= {one.cancels for one in self.sent}


def settings_of(root: Path) -> TreeSettings:
    return TreeSettings(
        StoreLayout.at(root),
        FILES,
        handlers=1,
        lane_capacity=128 << 10,
        topic_capacity=16,
        queue_capacity=128,
        retention_hours=0,
        retention_bytes=RETENTION_BYTES,
    )


def look_at(root: Path, model: Model, floor: int, *, deep: bool, expect: Callable[[Life, Model], None]) -> None:
    """Opens the store at `root` and compares it with the list. deep: also where the group is, and what `expect` looks at, which
    takes four times as long, because a writer must take over. expect: gets a list of what is there, as its own."""
    settings = settings_of(root)
    report = open_store(settings)
    records, first = expect_log(settings.layout, report, model, floor)
    life = Life(settings, report, TOPICS, model.own)
    try:
        life.index()
        expect_indexed(life, records, model.sent, first)
        if deep:
            life.take_writes()
            expect_commits(life, model, first + len(records))
            expect(life, model.prefix(first + len(records)))
    finally:
        life.close()
    findings: list[object] = []
    verdict = verify(settings.layout, FILES, findings.append)
    assert not verdict.faults and not findings, findings


def records_between(layout: StoreLayout, begin: int, end: int) -> list[Record]:
    """Those of the log."""
    return _records(layout, begin, end) if begin < end else []


def _records(layout: StoreLayout, begin: int, end: int) -> list[Record]:
    """Every record of the log from a place on; after it only zeros."""
    found: list[Record] = []
    for start in list_starts(layout, FILES.log_file_size):
        if start + FILES.log_file_size <= begin:
            continue
        content = layout.log_file(start).read_bytes()
        at = max(begin - start, 0)
        while start + at < end and at < len(content):
            record = check(content, at, physical_offset=start + at)
            if record is Fault.IS_BLANK:
                at = len(content)
                break
            assert isinstance(record, Record), f"at {start + at}: {record!r}"
            found.append(record)
            at += record.size
        assert not content[at:].strip(b"\0"), f"something lies behind {start + at}"
    return found


def expect_log(layout: StoreLayout, report: RecoveryReport, model: Model, floor: int) -> tuple[list[Record], int]:
    """The recovered log is the list, or a part of it: at its end it lacks only what was not on disk, and at its beginning only
    what retention has removed. Returns its records, and the place of the first in the list."""
    assert not report.read_only and report.damage is None, report.lines()
    assert report.end >= floor, f"the log ends at {report.end}, {floor} was on disk: {report.lines()}"
    records = _records(layout, 0, report.end)
    first = _place(records[0], model) if records else 0
    assert first <= model.gone, f"the log begins with message {first}, {model.gone} were removed"
    assert first + len(records) <= len(model.sent), f"{first} and {len(records)} records, {len(model.sent)} were sent"
    for record, one in zip(records, model.sent[first:], strict=False):
        found = record.topic, record.queue_id, record.queue_offset, bytes(record.body)
        assert found == (one.topic, one.queue, one.queue_offset, one.body), found
    end = first + len(records)
    assert not any(begin < end < after for begin, after in model.wholes), f"an atomic batch is cut at message {end}"
    return records, first


def _place(record: Record, model: Model) -> int:
    """The place of a record in the list."""
    for place, one in enumerate(model.sent):
        if (one.topic, one.queue, one.queue_offset) == (record.topic, record.queue_id, record.queue_offset):
            return place
    raise AssertionError(f"nobody sent {record}")


def expect_indexed(life: Life, records: list[Record], sent: list[Sent], first: int) -> None:
    """Queues and index hold exactly what the log holds, and are published so; index entries before the log's beginning do not
    count. first: the place of the first record in the list."""
    layout = life.settings.layout
    assert int(life.tree.positions().reput) == int(life.tree.positions().wrote)
    by_queue: dict[tuple[str, int], list[tuple[int, int]]] = {
        (name, queue): [] for name, topic in life.topics.items() for queue in range(topic.queues)
    }
    by_hash: dict[int, list[int]] = {}
    before = Counter((one.topic, one.queue) for one in sent[:first])
    begin = int(life.tree.positions().min_offset)
    for record, one in zip(records, sent[first:], strict=False):
        by_queue[record.topic, record.queue_id].append((record.physical_offset, record.size))
        for key in one.keys:
            by_hash.setdefault(key_hash(one.topic, key), []).append(record.physical_offset)
    for (topic, number), places in by_queue.items():
        bounds = life.registry.bounds(life.topics[topic].first_slot + number)
        least = before[topic, number]
        most = least + len(places)
        assert (bounds.minimum, bounds.maximum) == (least, most), f"{topic}/{number}: {bounds}, not {least} to {most}"
        units = ConsumeQueue(layout.root, topic, number, FILES.queue_file_units).units(least, most)
        assert [(unit.physical_offset, unit.size) for unit in units] == places
    with finder(layout.index, FILES) as find:
        for hash_, places in by_hash.items():
            found = [place for place in find(hash_) if place >= begin]
            assert found == places[::-1], f"hash {hash_}: {found}, not {places[::-1]}"


def expect_commits(life: Life, model: Model, count: int) -> None:
    """Where the group is, is what the first `count` messages say: it has gone on for each batch that is there, and for no
    other. What retention has removed before it was noted may be forgotten."""
    chains: dict[tuple[str, int], list[tuple[int, bool]]] = {}

    def covered(offset: int) -> bool:
        return offset < model.noted and offset not in model.forgotten

    for place, one in enumerate(model.sent[:count]):
        if one.commits is not None:
            queue, to = one.commits
            chains.setdefault(queue, []).append((to, place >= model.gone or covered(one.queue_offset)))
    for queue in ((topic, number) for topic in TOPICS for number in range(QUEUES)):
        found, chain = life.commits.get(GROUP, queue), chains.get(queue, [])
        if not chain:
            assert found is None, f"{queue}: {found}, and nothing was committed"
        elif chain[-1][1]:
            assert found == chain[-1][0], f"{queue}: {found}, not {chain[-1][0]}"
        else:
            assert found in (None, *(to for to, _ in chain)), f"{queue}: {found}, of {chain}"
