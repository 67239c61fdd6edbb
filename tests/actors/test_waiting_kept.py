"""Goal: retention by time never removes a message that waits for its time; a limit of bytes does, and says so. Method: the
stages in this process (delay_life.py), and retention looks with a clock of the test's."""

from __future__ import annotations

import errno
import time
from dataclasses import replace

import pytest

from orbitmq.actors.retention import Retention
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.delays import TIMER_TOPIC
from orbitmq.store.waiting import when
from tests.actors.delay_life import DelayLife

DAY_MS = 86_400_000
FILE = 64 << 10


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(life: DelayLife, files: int) -> None:
    """Messages without a delay, until the log has grown by so many files."""
    end = life.life.tree.positions().wrote + files * FILE
    while life.life.tree.positions().wrote < end:
        life.send("U", 0, *[bytes(4000)] * 4)
    life.flush()


def look(life: DelayLife, days: float, size: int = 0) -> int:
    """Retention looks once, so many days from now. Returns where the log begins then."""
    tree = life.life.tree
    settings = replace(tree.settings, retention_hours=72, retention_bytes=size)
    Retention(replace(tree, settings=settings), clock=lambda: now_ms() + round(days * DAY_MS)).run()
    return int(tree.positions().min_offset)


def came(life: DelayLife) -> list[bytes]:
    return [bytes(record.body) for record in life.delivered() if record.topic == "T"]


@pytest.mark.parametrize("level", [False, True])
def test_what_waits_is_kept(life: DelayLife, level: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The log goes up to the file of the oldest one, although it is older than the broker keeps messages. Once that is
    delivered, and the disk knows it, its file goes."""
    fill(life, 2)
    at_ms = now_ms() + 30 * DAY_MS
    place = int(life.life.tree.positions().wrote)
    life.send("T", 18, b"waits") if level else life.send_at("T", at_ms, b"waits")
    fill(life, 3)
    assert look(life, 9) == place - place % FILE > 0
    said = caplog.text
    assert f"retention keeps the log from {place:,} on" in said
    assert when(at_ms) in said or level
    life.pass_time(31 * DAY_MS)
    life.settle()
    assert came(life) == [b"waits"]
    assert look(life, 9) == place - place % FILE, "a power cut could take the delivered one back"
    life.flush()
    life.keep()
    assert look(life, 9) > place
    assert "before their time" not in caplog.text


def test_what_waits_in_the_middle(life: DelayLife) -> None:
    """Most that were stored first are done; what counts is the oldest that is not."""
    for n in range(200):
        life.send_at("T", now_ms() + (DAY_MS if n != 120 else 40 * DAY_MS), b"%d" % n + bytes(2000))
    fill(life, 2)
    queue, table = life.life.registry.get(TIMER_TOPIC), TopicTable(life.life.tree.topics)
    life.pass_time(2 * DAY_MS)
    life.settle()
    life.flush()
    life.keep()
    waiting = next(record for record in life.records() if bytes(record.body).startswith(b"120\0"))
    assert look(life, 9) == waiting.physical_offset - waiting.physical_offset % FILE > 0
    assert table.bounds(queue.first_slot).minimum <= 120
    life.pass_time(40 * DAY_MS)
    life.settle()
    life.flush()
    life.keep()
    assert [body for body in came(life) if body.startswith(b"120\0")] == [b"120" + bytes(2000)]
    assert look(life, 9) > waiting.physical_offset + FILE


def test_a_limit_of_bytes_removes_what_waits_and_says_so(life: DelayLife, caplog: pytest.LogCaptureFixture) -> None:
    """What is left comes all the same."""
    life.send_at("T", now_ms() + DAY_MS, b"lost")
    life.send("T", 18, b"lost too")
    fill(life, 3)
    life.send_at("T", now_ms() + DAY_MS, b"left")
    life.flush()
    assert look(life, 0, size=2 * FILE) > 0
    assert "retention removes 2 delayed messages before their time" in caplog.text
    life.begin_scheduler()
    life.pass_time(2 * DAY_MS)
    life.settle()
    assert came(life) == [b"left"]
    life.send_at("T", now_ms(), b"next")
    life.settle()
    assert came(life) == [b"left", b"next"]


def test_a_full_disk_removes_nothing(life: DelayLife) -> None:
    """What is due while the log takes no more keeps its file, and comes when there is room; then the file goes."""
    bodies = [b"%d " % n + bytes(7000) for n in range(30)]
    base = now_ms() + DAY_MS
    for n, body in enumerate(bodies):
        life.send_at("T", base + n, body)
    fill(life, 2)
    places = {bytes(record.body): record.physical_offset for record in life.records() if record.topic == TIMER_TOPIC}
    control, seen = life.life.tree.control, life.life.tree.positions()
    lib.control_set_allocated(control, seen.allocated, errno.ENOSPC)
    life.pass_time(2 * DAY_MS)
    while life.schedule() + life.life.writer.step():
        life.life.index()
    rest = set(bodies) - set(came(life))
    assert rest
    life.flush()
    life.keep()
    assert look(life, 9) <= min(places[body] for body in rest)
    life.begin_scheduler()
    life.settle()
    assert sorted(came(life)) == sorted(bodies)
    life.flush()
    life.keep()
    assert look(life, 9) > max(places.values())
