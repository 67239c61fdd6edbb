"""Goal: what is too old or too much is removed, and nothing else; and if a process dies over it, the store it leaves is intact.

Method: logs of one message an hour, made by hand, with a clock that the test controls; then a store that a real broker wrote,
in which retention is interrupted at every step, and the next start and the next look have to finish it.
"""

from __future__ import annotations

import itertools
import mmap
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.actors import retention
from orbitmq.actors.retention import HOUR_MS, Retention
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.errors import SettingError
from orbitmq.native._core import ffi, lib
from orbitmq.shm.topic_table import RETENTION_FOR_EVER, TopicTable
from orbitmq.store import abort, index_headers, trim
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.recover import recover
from orbitmq.store.settings.tree_settings import tree_settings
from orbitmq.store.verify.findings import Finding
from orbitmq.store.verify.verify import verify
from tests.client.composed_broker import ComposedBroker
from tests.store.stored_by_broker import SETTINGS, Stored, store_by_broker

FILE = 4096
MESSAGES_A_FILE = 4


class Hours(ComposedBroker):
    """Message number n of the log was stored n hours after the epoch; four fill a file."""

    def __init__(self, root: Path, **topics: int) -> None:
        super().__init__(root, log_file_size=FILE)
        self.slots = {name: self.add_topic(name, 1) for name in topics}
        for name, hours in topics.items():
            lib.topic_set_retention(self.topics, self._index(name), hours)
        self.count = 0
        self.retention_hours = 10
        self.retention_bytes = 0
        self.flushed: int | None = None

    def _index(self, name: str) -> int:
        return int(lib.topics_find(self.topics, name.encode(), len(name)))

    def send(self, *topics: str) -> None:
        for topic in topics:
            self.append(topic, self.slots[topic], b"." * 850, store_ms=self.count * HOUR_MS)
            self.count += 1
        self.publish()
        seen = self.positions()
        flushed = self.end if self.flushed is None else self.flushed
        allocated = -(-self.end // FILE) * FILE + FILE
        lib.control_recovered(self.control, seen.min_offset, self.end, self.end, flushed, allocated, 0)

    def positions(self) -> Any:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return seen

    def look(self, hour: float = 0, **arguments: Any) -> Retention:
        """Retention looks once, at this hour."""
        files = SimpleNamespace(log_file_size=FILE, queue_file_units=50)
        settings = SimpleNamespace(
            name="test",
            layout=StoreLayout.at(self.root),
            files=files,
            retention_hours=self.retention_hours,
            retention_bytes=self.retention_bytes,
        )
        tree: Any = SimpleNamespace(settings=settings, control=self.control, topics=self.topics, positions=self.positions)
        made = Retention(tree, **{"clock": lambda: int(hour * HOUR_MS), **arguments})
        made.run()
        return made

    def log(self) -> list[int]:
        """The files of the log, by number; the published beginning must agree."""
        numbers = sorted(int(path.name) // FILE for path in (self.root / "commitlog").iterdir())
        assert self.positions().min_offset == numbers[0] * FILE
        return numbers

    def bounds(self, topic: str) -> tuple[int, int]:
        return TopicTable(self.topics).bounds(self.slots[topic])


def hours(tmp_path: Path, **topics: int) -> Hours:
    return Hours(tmp_path / "store", **topics)


def test_a_file_goes_when_all_of_it_is_old(tmp_path: Path) -> None:
    """A file counts as old when the first message of the next one is: with ten hours, file 0 is removed at hour 14."""
    store = hours(tmp_path, t=0)
    store.send(*["t"] * 14)
    for hour, files, first in [(13.9, [0, 1, 2, 3], 0), (14, [1, 2, 3], 4), (17.9, [1, 2, 3], 4), (18, [2, 3], 8)]:
        store.look(hour)
        assert (store.log(), store.bounds("t")) == (files, (first, 14))


def test_the_newest_message_keeps_its_file(tmp_path: Path) -> None:
    store = hours(tmp_path, t=0)
    store.send(*["t"] * 6)
    store.look(1e6)
    assert (store.log(), store.bounds("t")) == ([1], (4, 6))
    store.send("t", "t", "t")  # the ninth fills no file, but it is in another one
    store.look(1e6)
    assert (store.log(), store.bounds("t")) == ([2], (8, 9))


def test_for_ever(tmp_path: Path) -> None:
    store = hours(tmp_path, t=0)
    store.retention_hours = 0
    store.send(*["t"] * 14)
    store.look(1e6)
    assert (store.log(), store.bounds("t")) == ([0, 1, 2, 3], (0, 14))


@pytest.mark.parametrize("rises_from", [8, 9, 14, 1 << 20])
def test_times_that_go_back(tmp_path: Path, rises_from: int) -> None:
    """Goal: in a log of another program, whose clock was set back by 50 hours after six messages, a file is removed when its
    newest message is old, and not before. Method: the same log, known to rise from its file 2 on, from within that or the next
    one, or nowhere. The cutoff passes hour after hour."""
    store = hours(tmp_path, t=0)
    store.count = 50
    store.send(*["t"] * 6)  # 50 to 55
    store.count = 0
    store.send(*["t"] * 10)  # 0 to 9
    lib.control_set_rising(store.control, rises_from * 1024)
    for cutoff, files, first in [
        (20, [0, 1, 2, 3], 0),
        (52, [0, 1, 2, 3], 0),
        (53, [1, 2, 3], 4),
        (54, [1, 2, 3], 4),
        (55, [3], 12),
    ]:
        store.look(10 + cutoff)
        assert (store.log(), store.bounds("t")) == (files, (first, 16)), cutoff


def test_a_damaged_file_whose_times_go_back(tmp_path: Path) -> None:
    """Its readable messages, and the first message of the next file, say how old it is."""
    store = hours(tmp_path, t=0)
    store.count = 50
    store.send("t", "t")
    store.count = 0
    store.send(*["t"] * 6)
    lib.control_set_rising(store.control, 1 << 40)
    with (store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(ConsumeQueue(store.root, "t", 0, 50).peek(2).physical_offset)
        file.write(bytes(8))
    for cutoff, files in [(50.5, [0, 1]), (51, [1])]:
        store.look(10 + cutoff)
        assert store.log() == files


def test_a_shorter_time_where_times_go_back(tmp_path: Path) -> None:
    """A topic's own time hides no message that is younger, wherever it is."""
    store = hours(tmp_path, short=3, usual=0)
    store.retention_hours = 1000
    for hour in (20, 21, 5, 6, 22, 7):
        store.count = hour
        store.send("short")
    lib.control_set_rising(store.control, 1 << 40)
    for hour, first in [(10, 0), (22.9, 0), (23, 1), (24, 4), (23, 4), (25, 6)]:
        store.look(hour)
        assert store.bounds("short") == (first, 6)


@pytest.mark.parametrize(
    ("files", "left"), [(0, [0, 1, 2, 3, 4]), (6, [0, 1, 2, 3, 4]), (5, [1, 2, 3, 4]), (3, [3, 4]), (1, [4])]
)
def test_by_bytes(tmp_path: Path, files: int, left: list[int]) -> None:
    """Five files, and one that is reserved after them; the one with the newest message stays, however few are allowed."""
    store = hours(tmp_path, t=0)
    store.retention_bytes = files * FILE
    store.send(*["t"] * 18)
    store.look(0)
    assert (store.log(), store.bounds("t")) == (left, (4 * left[0], 18))


def test_a_shorter_time_hides_messages(tmp_path: Path) -> None:
    """They are no longer delivered, to the hour; the file stays for its other messages, and is removed when they have
    expired."""
    store = hours(tmp_path, short=3, usual=0)
    store.send("short", "short", "usual", "short", "short", "short", "short", "short", "short")
    store.look(4.5)
    assert (store.log(), store.bounds("short"), store.bounds("usual")) == ([0, 1, 2], (2, 8), (0, 1))
    store.look(11.9)
    assert (store.log(), store.bounds("short")) == ([0, 1, 2], (8, 8))
    store.look(12)  # "usual" of hour 2, after ten
    assert (store.log(), store.bounds("short"), store.bounds("usual")) == ([2], (8, 8), (1, 1))


def test_a_file_of_short_lived_messages_goes_early(tmp_path: Path) -> None:
    store = hours(tmp_path, short=3, usual=0)
    store.send(*["short"] * 9, "usual")
    store.look(11)
    assert (store.log(), store.bounds("short"), store.bounds("usual")) == ([2], (9, 9), (0, 1))


@pytest.mark.parametrize(("kept", "hour"), [(100, 105.9), (RETENTION_FOR_EVER, 1e6)])
def test_a_longer_time_keeps_the_file(tmp_path: Path, kept: int, hour: float) -> None:
    """What one topic still keeps also keeps its neighbours, and they stay readable."""
    store = hours(tmp_path, long=kept, usual=0)
    store.send("usual", "usual", "usual", "usual", "usual", "usual", "long", *["usual"] * 6)
    store.look(hour)
    assert (store.log(), store.bounds("long"), store.bounds("usual")) == ([1, 2, 3], (0, 1), (4, 12))
    if kept == 100:
        store.look(106)
        assert (store.log(), store.bounds("long")) == ([3], (1, 1))


def test_bytes_count_more_than_time(tmp_path: Path) -> None:
    store = hours(tmp_path, long=RETENTION_FOR_EVER)
    store.retention_bytes = 3 * FILE
    store.send(*["long"] * 18)
    store.look(0)
    assert (store.log(), store.bounds("long")) == ([3, 4], (12, 18))


def test_what_is_not_on_disk_stays(tmp_path: Path) -> None:
    """A power cut may take back the log behind the flushed position, and nothing would be left."""
    store = hours(tmp_path, t=0)
    store.flushed = FILE + 100
    store.send(*["t"] * 14)
    store.look(1e6)
    assert (store.log(), store.bounds("t")) == ([1, 2, 3], (4, 14))


def test_damage_ends_nothing(tmp_path: Path) -> None:
    """The first record of a file says how old the file before is. If it is damaged, the next file says it."""
    store = hours(tmp_path, t=0)
    store.send(*["t"] * 14)
    store.write(FILE, bytes(100))
    store.look(14)
    assert store.log() == [0, 1, 2, 3]
    store.look(18)
    assert store.log() == [2, 3]


def test_readers_are_told_before_anything_goes(tmp_path: Path) -> None:
    store = hours(tmp_path, t=0)
    store.send(*["t"] * 14)
    seen = []

    def stopping() -> bool:
        names = sorted(int(path.name) // FILE for path in (store.root / "commitlog").iterdir())
        seen.append((names, int(store.positions().min_offset), store.bounds("t")[0]))
        return len(seen) == 2

    store.look(1e6, stopping=stopping)
    assert seen == [([0, 1, 2, 3], 3 * FILE, 12), ([1, 2, 3], 3 * FILE, 12)]
    store.look(0)  # the next process finishes what was begun, whatever the clock says
    assert store.log() == [3]


def test_settings(tmp_path: Path) -> None:
    least = 3 * (1 << 20)
    for name, value in [
        ("retention_hours", -1),
        ("retention_hours", 1.5),
        ("retention_bytes", least - 1),
        ("retention_bytes", -1),
    ]:
        with pytest.raises(SettingError, match=name):
            tree_settings(str(tmp_path), {"log_file_size": 1 << 20, name: value})
    made = tree_settings(str(tmp_path), {"log_file_size": 1 << 20, "retention_bytes": least})
    assert (made.retention_hours, made.retention_bytes) == (72, least)


# ---- broken off


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("retained")
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        yield store_by_broker(folder / "store", "retained")


class Killed(BaseException):
    """Raised where nothing catches it."""


class Opened:
    """A store opened as a start opens it, without processes."""

    def __init__(self, layout: StoreLayout) -> None:
        self.layout = layout
        report = recover(layout, SETTINGS, lambda line: None)
        assert report.damage is None
        self._memory = [mmap.mmap(-1, size) for size in (ffi.sizeof("struct control"), lib.topics_size(16, 64))]
        self.control = ffi.cast("struct control *", ffi.from_buffer(self._memory[0]))
        self.topics = ffi.cast("struct topics *", ffi.from_buffer(self._memory[1]))
        core = ffi.new("struct settings *", {"log_file_size": SETTINGS.log_file_size, "store": str(layout.root).encode()})
        core.lanes, core.lane_capacity = 1, 1 << 20
        core.queue_file_units = SETTINGS.queue_file_units
        lib.control_init(self.control, core, 1)
        lib.topics_init(self.topics, 16, 64, 1)
        numbers = (report.begin, report.end, report.reput, report.flushed, report.allocated, report.last_store_ms)
        lib.control_recovered(self.control, *numbers)
        registry = TopicRegistry(layout, self.topics)
        registry.load(report)
        registry.seed(report)
        self.after = report.last_store_ms + 100 * HOUR_MS
        self.settings = SimpleNamespace(name="test", layout=layout, files=SETTINGS, retention_hours=72, retention_bytes=0)
        self.held = {(queue.topic, queue.queue): queue.max_offset for queue in report.queues}

    def positions(self) -> Any:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return seen

    def look(self) -> trim.Removed:
        return Retention(self, clock=lambda: self.after).run()  # type: ignore[arg-type]

    def die(self) -> None:
        """Leaves the signs of a death behind."""
        abort.create(self.layout)
        positions = Positions(self.layout)
        positions.record(int(self.positions().flushed), int(self.positions().wrote_ms))
        positions.close()

    def stop(self) -> None:
        positions = Positions(self.layout)
        positions.record_stop(int(self.positions().wrote), int(self.positions().wrote_ms))
        positions.close()
        abort.remove(self.layout)


def faults(layout: StoreLayout) -> list[Finding]:
    found: list[Finding] = []
    verify(layout, SETTINGS, found.append)
    return [each for each in found if each.damage]


def test_broken_off_at_every_step(written: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: after a death at any step a start is clean, and verify too, before and after. Method: the n-th step of all raises,
    for every n until none does; then the store is verified, opened and looked at again."""
    passed: list[str] = []
    for last in itertools.count(1):
        root = tmp_path / f"store-{last}"
        shutil.copytree(written.layout.root, root)
        layout = StoreLayout.at(root)
        opened = Opened(layout)
        passed.clear()

        def step(name: str, last: int = last) -> None:
            passed.append(name)
            if len(passed) == last:
                raise Killed

        with monkeypatch.context() as patch:
            for module in (retention, trim):
                patch.setattr(module, "crash_point", step)
            try:
                opened.look()
                whole = True
            except Killed:
                whole = False
        opened.die()
        assert faults(layout) == [], passed
        again = Opened(layout)
        assert again.held == opened.held, "no queue loses count"
        again.look()
        assert len(list(layout.commitlog.iterdir())) <= 2, "the newest message's file, and an empty one"
        for header in index_headers.load(layout)[:-1]:
            assert header.end_offset >= again.positions().min_offset
        again.stop()
        assert faults(layout) == [], passed
        if whole:
            break
        shutil.rmtree(root)
    kinds = {
        "retention_queue_raised",
        "retention_published",
        "trim_log_removed",
        "trim_queue_removed",
        "trim_index_removed",
    }
    assert set(passed) == kinds
    assert last > 10
