"""Goal: for everything that can be found, recovery does what docs/recovery.md says, and the store is as whole as possible.

Method: one small store, made once, closed cleanly. Every combination of what can be found is applied to a copy of it. The copy
is opened, indexed to its end, and compared with the plain list of what was sent. The expected result is computed here from the
page's tables, in a few lines that read no file.
"""

from __future__ import annotations

import enum
import itertools
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from orbitmq.store import abort, config, positions
from orbitmq.store.commit_log.record import Fault, encode
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue
from orbitmq.store.index_file import key_hash
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.recovery.table import ENDINGS, Ending, Mark, Signs, ending
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.settings.tree_settings import TreeSettings
from orbitmq.store.unsynced import Unsynced, load
from tests.power.life import Life, finder, open_store
from tests.store.log_builder import FILE_SIZE, LogBuilder, Written

FILES = StoreSettings(log_file_size=FILE_SIZE, queue_file_units=16, index_slots=13, index_entries=30)
TOPIC, QUEUES = "T", 2
HOUR_MS = 3_600_000
Bytes = dict[str, bytes]  # a store: content by path


class Point(enum.Enum):
    """What the checkpoint says."""

    OLDER = "log and queues were on disk up to the second file"
    NOW = "all of it was"
    NEWER = "more was than there is"
    CORRUPT = "bytes that mean nothing"
    MISSING = "there is none"


class Index(enum.Enum):
    WHOLE = "as it was written"
    TORN = "half of the newest file is zeros"
    MISSING = "no file is there"


class Queues(enum.Enum):
    WHOLE = "as they were written"
    SHORT = "units are missing at the end of each"
    LONG = "units lead past the end of the log"
    MISSING = "none is there"


class Tail(enum.Enum):
    WHOLE = "the log as it was written"
    EMPTY = "a last file with nothing in it"
    GARBAGE = "bytes behind the end"
    NO_BLANK = "the first file's blank marker is zeros"
    BAD_CRC = "a record in the second file has a spoilt byte"


@dataclass(frozen=True, slots=True)
class Found:
    """One combination."""

    abort: bool
    mark: Mark
    commit: bool
    point: Point
    index: Index
    queues: Queues
    tail: Tail
    unsynced: bool = False  # a sync of queues and index was begun


@dataclass(frozen=True, slots=True)
class Base:
    """The store before any change, and the list of what it holds."""

    files: Bytes
    marks: dict[Mark, bytes | None]
    sent: list[Written]
    hashes: list[int]  # of the key of each
    end: int
    flushed: int  # with the mark of a running broker
    blank: int  # the place of the first file's marker
    bad: Written  # the record that is damaged
    short: int  # where short queues end: after a record
    unsynced: bytes  # the file with the raised word of the queues

    def written_before(self, offset: int) -> list[Written]:
        return [one for one in self.sent if one.offset < offset]


def of_folder(files: Bytes, folder: str) -> list[str]:
    return sorted(path for path in files if path.startswith(folder + "/"))


def read(root: Path) -> Bytes:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def write(files: Bytes, root: Path) -> None:
    """Into an empty place."""
    for folder in sorted({"consumequeue", "index", *(path.rpartition("/")[0] for path in files)}):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (root / path).write_bytes(content)


def settings_of(root: Path) -> TreeSettings:
    sizes = {"handlers": 1, "lane_capacity": 128 << 10, "topic_capacity": 16, "queue_capacity": 64}
    return TreeSettings(StoreLayout.at(root), FILES, **sizes, retention_hours=0)


def key(number: int) -> str:
    return f"k{number}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """Three log files, a second of store time between two messages; then a broker indexed them and stopped."""
    settings = settings_of(tmp_path_factory.mktemp("table") / "base")
    layout = settings.layout
    layout.open(FILES)
    log = LogBuilder(layout, step_ms=1000)
    while log.end < 2 * FILE_SIZE + FILE_SIZE // 3:
        number = len(log.written)
        log.append(TOPIC, number % QUEUES, bytes([number]) * (1500 + number * 37 % 900), properties={"KEYS": key(number)})
    life = Life(settings, open_store(settings), (TOPIC,))
    life.take_writes()
    assert life.stop()
    life.close()
    config.store_offsets(layout, {(TOPIC, "g"): {queue: log.next_offsets[TOPIC, queue] for queue in range(QUEUES)}})
    first = [one for one in log.written if one.offset < FILE_SIZE]
    second = [one for one in log.written if FILE_SIZE <= one.offset < 2 * FILE_SIZE]
    flushed = first[10].offset
    marks: dict[Mark, bytes | None] = {Mark.NONE: None, Mark.CLEAN: layout.positions.read_bytes()}
    files = read(layout.root)
    for mark, boot in ((Mark.SAME_BOOT, positions.boot_id()), (Mark.OTHER_BOOT, b"some other boot.")):
        layout.positions.unlink()
        with patch.object(positions, "boot_id", lambda boot=boot: boot):
            running = Positions(layout)
            running.record(flushed, first[10].store_ms)
            running.close()
        marks[mark] = layout.positions.read_bytes()
    blank = first[-1].offset + first[-1].size
    word = Unsynced(layout)
    word.raise_queues()
    word.close()
    short = first[15].offset + first[15].size
    hashes = [key_hash(TOPIC, key(number)) for number in range(len(log.written))]
    return Base(files, marks, log.written, hashes, log.end, flushed, blank, second[5], short, layout.unsynced.read_bytes())


# ---- what is found, laid over the store


def lay(base: Base, found: Found) -> Bytes:
    files = dict(base.files)
    if found.abort:
        files["abort"] = b""
    mark = base.marks[found.mark]
    if mark is None:
        del files["orbitmq/positions"]
    else:
        files["orbitmq/positions"] = mark
    if not found.commit:
        del files["orbitmq/reput"]
    if found.unsynced:
        files["orbitmq/unsynced"] = base.unsynced
    else:
        files.pop("orbitmq/unsynced", None)
    lay_point(base, files, found.point)
    if found.index is Index.TORN:
        newest = of_folder(files, "index")[-1]
        files[newest] = files[newest][: len(files[newest]) // 2].ljust(len(files[newest]), b"\0")
    if found.index is Index.MISSING:
        for path in of_folder(files, "index"):
            del files[path]
    lay_queues(base, files, found.queues)
    lay_tail(base, files, found.tail)
    return files


def lay_point(base: Base, files: Bytes, point: Point) -> None:
    second = next(one for one in base.sent if one.offset >= FILE_SIZE)
    last_ms = base.sent[-1].store_ms
    vouched = {Point.OLDER: second.store_ms + 3000, Point.NOW: last_ms, Point.NEWER: last_ms + HOUR_MS}
    if point in vouched:
        ms = vouched[point]
        files["checkpoint"] = b"".join(value.to_bytes(8, "big") for value in (ms, ms, ms)).ljust(4096, b"\0")
    elif point is Point.CORRUPT:
        files["checkpoint"] = b"\x5a" * 4096
    else:
        del files["checkpoint"]


def lay_queues(base: Base, files: Bytes, queues: Queues) -> None:
    if queues is Queues.MISSING:
        for path in of_folder(files, "consumequeue"):
            del files[path]
    for queue in range(QUEUES) if queues in (Queues.SHORT, Queues.LONG) else ():
        end = base.end if queues is Queues.LONG else base.short
        units = sum(1 for one in base.written_before(end) if one.queue == queue)
        more = b""
        if queues is Queues.LONG:
            more = b"".join((base.end + n * 100).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8) for n in range(3))
        folder = f"consumequeue/{TOPIC}/{queue}"
        whole = b"".join(files.pop(path) for path in of_folder(files, folder))[: units * UNIT_SIZE] + more
        size = FILES.queue_file_units * UNIT_SIZE
        for start in range(0, len(whole), size):
            files[f"{folder}/{start:020d}"] = whole[start : start + size].ljust(size, b"\0")


def lay_tail(base: Base, files: Bytes, tail: Tail) -> None:
    def overwrite(offset: int, content: bytes) -> None:
        path = f"commitlog/{offset - offset % FILE_SIZE:020d}"
        at = offset % FILE_SIZE
        files[path] = files[path][:at] + content + files[path][at + len(content) :]

    if tail is Tail.EMPTY:
        files[f"commitlog/{3 * FILE_SIZE:020d}"] = bytes(FILE_SIZE)
    elif tail is Tail.GARBAGE:
        overwrite(base.end, encode(TOPIC, b"x" * 500, physical_offset=base.end, store_ms=5)[:300])
    elif tail is Tail.NO_BLANK:
        overwrite(base.blank, bytes(8))
    elif tail is Tail.BAD_CRC:
        overwrite(base.bad.offset + 90, b"\xee")


# ---- what is to be expected


@dataclass(frozen=True, slots=True)
class Expected:
    """end: of the log. damaged: the end is below what was on disk, so the store opens for reading only. unseen: the place of
    damage that the start does not see."""

    ending: Ending
    end: int
    damaged: bool
    unseen: int | None


def expect(base: Base, found: Found) -> Expected:
    how = ending((found.abort, found.mark, found.commit), has_log=True, unsynced=found.unsynced)
    floor = {Mark.NONE: 0, Mark.CLEAN: base.end}.get(found.mark, base.flushed)
    good = {Tail.NO_BLANK: base.blank, Tail.BAD_CRC: base.bad.offset}.get(found.tail, base.end)
    queued = {Queues.SHORT: base.short, Queues.MISSING: 0}.get(found.queues, base.end)
    files = 4 if found.tail is Tail.EMPTY else 3
    # A checkpoint that the log contradicts does not count; the newest one here covers only what is 3 s old.
    vouched = {Point.OLDER: FILE_SIZE, Point.NOW: 2 * FILE_SIZE}.get(found.point, 0)
    start = {
        Ending.STOPPED: min(base.end, queued),
        Ending.KILLED: min(base.flushed, queued),
        Ending.POWER_CUT: min(base.flushed, vouched, queued),
        Ending.UNSYNCED: min(floor, vouched, queued),
        Ending.OTHER_STOPPED: min((files - 3) * FILE_SIZE, queued),
        Ending.OTHER_DIED: min(vouched, queued),
    }[how]
    # Damage before the place where reading starts is not seen.
    seen = start <= good
    end = good if seen else base.end
    return Expected(how, end, end < floor, None if seen else good)


# ---- what is done


def look(base: Base, found: Found, root: Path) -> None:
    files = lay(base, found)
    write(files, root)
    expected = expect(base, found)
    settings = settings_of(root)
    report = open_store(settings)
    assert report.ending is expected.ending
    assert (report.begin, report.end, report.read_only) == (0, expected.end, expected.damaged)
    assert report.lines()
    if expected.damaged:
        assert report.damage is not None and report.damage.offset == expected.end
        assert read(root) == files, "a damaged store is not touched"
        return
    assert report.damage is None and report.flushed == report.end
    check_cuts(base, found, expected, report, root)
    life = Life(settings, report, (TOPIC,))
    life.index()
    try:
        seen = life.tree.positions()
        # If keys are indexed again from so far back, reput meets what the start did not see. It passes a damaged body, which
        # readers do not get; where there is no record it stops.
        stopped = found.tail is Tail.NO_BLANK and expected.unseen is not None and report.reput <= expected.unseen
        assert int(seen.reput) == (expected.unseen if stopped else expected.end)
        check_messages(base, expected, life)
        check_index(base, found, expected, int(seen.reput), settings.layout)
    finally:
        life.close()
    recorded = positions.load(settings.layout)
    assert recorded is not None and (recorded.flushed, recorded.clean) == (expected.end, False)
    assert abort.exists(settings.layout)
    assert not load(settings.layout).queues, "what was in doubt is made anew"


def check_cuts(base: Base, found: Found, expected: Expected, report: RecoveryReport, root: Path) -> None:
    """What is behind the end is set aside, and the report says why. Groups get again what they had consumed of it."""
    why = {
        Tail.GARBAGE: "the record there " + Fault.BAD_SIZE.text,
        Tail.BAD_CRC: "the record there " + Fault.BAD_BODY_CRC.text,
        Tail.NO_BLANK: "it lies behind the end of the log",
    }
    cut = found.tail is Tail.GARBAGE or expected.end < base.end
    assert bool(report.cuts) == cut
    if cut:
        assert any(each.why == why[found.tail] for each in report.cuts), report.cuts
        cuts = sorted(report.cuts, key=lambda cut: cut.offset)
        kept = b"".join(Path(each.path).read_bytes() for each in cuts if each.path)
        at = 0  # in the order of the log, so that nothing is read twice
        for one in base.sent:
            if one.offset > expected.end:
                at = kept.find(one.offset.to_bytes(8, "big"), at)
                assert at >= 0, one
    left = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    assert left[: expected.end] == b"".join(lay_log(base, found))[: expected.end] and not left[expected.end :].strip(b"\0")
    held = Counter(one.queue for one in base.written_before(expected.end))
    assert config.load_offsets(StoreLayout.at(root)) == {(TOPIC, "g"): {queue: held[queue] for queue in range(QUEUES)}}
    assert bool(report.lowered) == (expected.end < base.end)


def lay_log(base: Base, found: Found) -> list[bytes]:
    files = dict(base.files)
    lay_tail(base, files, found.tail)
    return [files[path] for path in of_folder(files, "commitlog")]


def check_messages(base: Base, expected: Expected, life: Life) -> None:
    """Every queue holds its messages, from 0 on, each at its place, and no other."""
    for queue in range(QUEUES):
        held = [one for one in base.written_before(expected.end) if one.queue == queue]
        bounds = life.registry.bounds(life.topics[TOPIC].first_slot + queue)
        assert (bounds.minimum, bounds.maximum) == (0, len(held))
        units = ConsumeQueue(life.settings.layout.root, TOPIC, queue, FILES.queue_file_units).units(0, len(held))
        assert [(unit.physical_offset, unit.size) for unit in units] == [(one.offset, one.size) for one in held]


def check_index(base: Base, found: Found, expected: Expected, indexed: int, layout: StoreLayout) -> None:
    """Each key leads to its message, and none to what was cut."""
    held = {one.offset for one in base.sent if one.offset < min(indexed, expected.end)}
    believed = expected.ending in (Ending.STOPPED, Ending.KILLED, Ending.OTHER_STOPPED)
    # An index that the last life is believed to have left whole is not read; `verify` does that. Without any sign of what was
    # there, only new keys are indexed.
    unknown = found.index is Index.MISSING and expected.ending is Ending.OTHER_STOPPED
    by_hand = unknown or (found.index is Index.TORN and believed)
    with finder(layout.index, FILES) as find:
        for number, (hash_, one) in enumerate(zip(base.hashes, base.sent, strict=True)):
            places = set(find(hash_))
            assert not places - held or expected.unseen is not None
            if one.offset in held and not by_hand:
                assert one.offset in places, f"key {number} at {one.offset}"


SIGNS = list(itertools.product((False, True), Mark, (False, True)))
REST = (Point, Index, Queues, Tail)
BELIEVED = [signs for signs in SIGNS if ending(signs, has_log=True, unsynced=True) is Ending.UNSYNCED]


def name(signs: Signs) -> str:
    return f"{'' if signs[0] else 'no '}abort, {signs[1].name}, {'' if signs[2] else 'no '}commit"


def test_no_combination_is_forgotten() -> None:
    """The tests below try the signs of how the last life ended, one by one."""
    assert set(SIGNS) == set(ENDINGS)
    assert len(SIGNS) * len(list(itertools.product(*REST))) == 4800
    assert len(BELIEVED) == 5


@pytest.mark.parametrize("signs", SIGNS, ids=name)
def test_every_combination(base: Base, in_memory: Path, monkeypatch: pytest.MonkeyPatch, signs: Signs) -> None:
    combinations = [Found(*signs, *parts) for parts in itertools.product(*REST)]
    look_at_all(base, combinations, in_memory, monkeypatch)


@pytest.mark.parametrize("signs", BELIEVED, ids=name)
def test_every_combination_after_a_sync_of_the_queues_that_did_not_succeed(
    base: Base, in_memory: Path, monkeypatch: pytest.MonkeyPatch, signs: Signs
) -> None:
    """Where the queues would otherwise be believed, they are not."""
    axes = (Point, Index, Queues, (Tail.WHOLE, Tail.BAD_CRC))
    combinations = [Found(*signs, *parts, unsynced=True) for parts in itertools.product(*axes)]
    look_at_all(base, combinations, in_memory, monkeypatch)


def look_at_all(base: Base, combinations: list[Found], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here depends on what a sync does, and there would be a hundred thousand."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    wrong = []
    for found in combinations:
        root = folder / "store"
        try:
            look(base, found, root)
        except Exception as error:
            wrong.append(f"{found}: {type(error).__name__}: {str(error)[:300]}")
        shutil.rmtree(root)
    assert not wrong, f"{len(wrong)} of {len(combinations)}\n" + "\n".join(wrong[:20])
