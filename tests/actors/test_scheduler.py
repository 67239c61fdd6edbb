"""Goal: a delayed message comes once, whole, and never early. Method: the real stages in this process, moved a step at a time,
with the scheduler's clocks moved by the test."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from orbitmq.actors import scheduler
from orbitmq.native._core import lib
from orbitmq.store import config, delays
from orbitmq.store.delays import Delays
from tests.actors.delay_life import SCHEDULE, DelayLife, settings_of
from tests.native.pipeline import APPENDED, NO_PERMISSION, PROPERTIES, RESERVED, TOO_LARGE, UNKNOWN_QUEUE
from tests.waiting import until

LEVELS_MS = [lib.delay_level_ms(level) for level in range(18)]
LONG_MS = 3 * 3600 * 1000


def test_what_is_kept_and_what_is_new(life: DelayLife) -> None:
    """The record in the schedule topic has the receipt's place; the one for its topic is as RocketMQ makes it."""
    (verdict,) = life.send("T", 3, b"body", queue=1, properties=b"TAGS\x01red\x02mine\x01yes\x02")
    (waiting,) = life.records()
    assert (verdict.code, verdict.queue_id, verdict.queue_offset, verdict.physical_offset) == (APPENDED, 2, 0, 0)
    assert (waiting.topic, waiting.queue_id, waiting.prepared_offset) == (SCHEDULE, 2, 0)
    told = {"TAGS": "red", "mine": "yes", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "1"}
    assert waiting.properties == told
    life.pass_time(LEVELS_MS[2])
    life.settle()
    (record,) = life.delivered()
    same = ("flag", "sys_flag", "born_ms", "born_host", "store_host", "reconsume_times", "properties", "body", "body_crc")
    assert {name: getattr(record, name) for name in same} == {name: getattr(waiting, name) for name in same}
    assert (record.topic, record.queue_id, record.queue_offset) == ("T", 1, 0)
    assert record.prepared_offset == 0x44 << 56 | 3 << 48 | 0


@pytest.mark.parametrize("level", range(1, 19))
def test_never_early(life: DelayLife, level: int) -> None:
    """Not one millisecond before the store timestamp and the level's delay; then at once."""
    life.send("T", level, b"x")
    stored_ms = life.records()[0].store_ms
    wait_ms = LEVELS_MS[level - 1]
    life.pass_time(wait_ms - 500)
    life.settle()
    early = life.delivered()
    if time.time_ns() // 1_000_000 + life.ahead[0] < stored_ms + wait_ms:  # a machine that hung says nothing
        assert early == []
    life.pass_time(500)
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"x"]


def test_levels_above_the_last_are_lowered(life: DelayLife) -> None:
    for level in (19, 99, 2**32 - 8):  # the last ones mean something else (session.h)
        assert life.send("T", level, b"x")[0].queue_id == 17
    assert {record.properties["DELAY"] for record in life.records()} == {"18"}


def test_refusals_come_at_once(life: DelayLife) -> None:
    """The topic that the message is for is judged first; what does not fit in either form is refused."""
    assert life.send("T", 3, b"x", queue=9)[0].code == UNKNOWN_QUEUE
    for name in (b"DELAY", b"REAL_TOPIC", b"REAL_QID"):
        assert life.send("T", 3, b"x", properties=name + b"\x01garbage")[0].code == RESERVED
        assert life.send("T", 0, b"x", properties=name + b"\x01garbage")[0].code == RESERVED
    assert life.send("T", 3, b"x", properties=b"a\x01" + bytes([65]) * 32700)[0].code in (PROPERTIES, TOO_LARGE)
    room = life.settings.files.message_max
    assert life.send("T", 3, bytes(room - 150))[0].code == TOO_LARGE
    schedule = life.life.registry.get(SCHEDULE)
    life.life.topics[SCHEDULE] = schedule
    life.life._hashes[SCHEDULE] = lib.topic_hash(SCHEDULE.encode(), len(SCHEDULE))
    for level in (0, 1):
        assert life.send(SCHEDULE, level, b"x")[0].code == NO_PERMISSION
    assert life.records() == []


def test_a_level_is_in_order(life: DelayLife) -> None:
    for first in range(0, 600, 60):
        life.send("T", 1, *(b"%d" % n for n in range(first, first + 60)))
    life.pass_time(2000)
    life.settle()
    assert [int(bytes(record.body)) for record in life.delivered()] == list(range(600))


def test_a_topic_that_is_gone(in_memory: Path) -> None:
    """A message for a topic that no longer exists is passed, and those behind it come."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    life.send("T", 1, b"x")
    life.send("U", 1, b"y")
    assert life.stop()
    life.end()
    topics, version = config.load_topics(settings.layout)
    del topics["T"]
    config.store_topics(settings.layout, topics, version)
    life = DelayLife(settings, ("U",))
    life.pass_time(2000)
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"y"]
    life.end()


def test_a_retry_topic_is_in_the_file_first(in_memory: Path) -> None:
    """A retry that waits for a topic which only the table has would be dropped after the next start: nothing on disk shows the
    topic. So there is none in the table while the file cannot be written. Method: a folder stands where it is written."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    registry, in_the_way = life.life.registry, settings.layout.config / "topics.json.tmp"
    in_the_way.mkdir()
    with pytest.raises(OSError):
        registry.add_own("%RETRY%g", 1)
    assert registry.find("%RETRY%g") is None
    in_the_way.rmdir()
    assert registry.add_own("%RETRY%g", 1) == registry.find("%RETRY%g")
    assert "%RETRY%g" in config.load_topics(settings.layout)[0]
    life.end()


def test_the_clock_is_set_back(life: DelayLife) -> None:
    """The message waits by the other clock, for its delay and an eighth at most; nothing waits until the old time has come
    again."""
    delay_ms = LEVELS_MS[17]  # beside which it does not matter what this test takes
    life.send("T", 18, b"x")
    life.set_clocks(-LONG_MS, 0)
    life.settle()
    life.set_clocks(-LONG_MS, delay_ms * 9 // 10)
    life.settle()
    assert life.delivered() == []
    life.set_clocks(-LONG_MS, delay_ms * 6 // 5)
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"x"]


def test_the_clock_jumps_ahead(life: DelayLife) -> None:
    """The clock decides: what is due by it comes."""
    life.send("T", 18, b"x")
    life.set_clocks(LEVELS_MS[17], 0)
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"x"]


def test_a_successor_counts_what_was_published(life: DelayLife) -> None:
    """A scheduler dies with a batch in its lane; the next one puts none of it there again."""
    life.send("T", 1, *(b"%d" % n for n in range(50)))
    life.pass_time(2000)
    life.schedule()
    life.begin_scheduler()
    life.settle()
    life.begin_scheduler()
    life.settle()
    assert [int(bytes(record.body)) for record in life.delivered()] == list(range(50))


def test_the_log_is_full(life: DelayLife) -> None:
    """What the log refuses is tried again. What it took meanwhile, though it came later, is not put there twice, even by a
    successor."""
    bodies = [b"%d " % n + bytes(6000 if n % 2 == 0 else 10) for n in range(60)]
    for first in range(0, 60, 10):
        life.send("T", 1, *bodies[first : first + 10])
    life.pass_time(2000)
    control, seen = life.life.tree.control, life.life.tree.positions()
    lib.control_set_allocated(control, seen.allocated, errno.ENOSPC)
    while life.schedule() + life.life.writer.step():
        pass
    life.life.index()
    early = [bytes(record.body) for record in life.delivered()]
    assert 0 < len(early) < 60
    assert early != bodies[: len(early)], "none was passed by a later one"
    assert scheduler.now(life.life.tree) is None
    life.begin_scheduler()

    def all_there() -> bool:
        life.settle()
        return len(life.delivered()) >= 60

    until(all_there, "the rest")
    assert sorted(bytes(record.body) for record in life.delivered()) == sorted(bodies)


def test_the_files_after_a_stop(in_memory: Path) -> None:
    """A clean stop leaves what RocketMQ would, and the next start need not read the log for it."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    life.send("T", 1, b"a", b"b")
    life.send("T", 4, b"c")
    life.pass_time(2000)
    life.settle()
    assert life.stop()
    end = int(life.life.tree.positions().wrote)
    life.end()
    assert config.load_delay_offsets(settings.layout) == {1: 2}
    assert delays.load(settings.layout) == Delays((2, *[0] * 17), start=end)
    life = DelayLife(settings)
    life.pass_time(LONG_MS)
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"a", b"b", b"c"]
    life.end()


@pytest.mark.parametrize("lost", ["nothing", "delayOffset.json", "delayed", "both"])
def test_a_death_of_the_tree(in_memory: Path, lost: str) -> None:
    """The log tells what was delivered after the files were written; without one of them too."""
    settings = settings_of(in_memory)
    life = DelayLife(settings)
    life.send("T", 1, *(b"%d" % n for n in range(20)))
    life.pass_time(2000)
    life.settle()
    life.end()
    if lost in ("delayOffset.json", "both"):
        for name in ("delayOffset.json", "delayOffset.json.bak"):
            (settings.layout.config / name).unlink(missing_ok=True)
    if lost in ("delayed", "both"):
        settings.layout.delayed.write_bytes(b"garbage")
    life = DelayLife(settings)
    life.pass_time(LONG_MS)
    life.settle()
    assert [int(bytes(record.body)) for record in life.delivered()] == list(range(20))
    life.end()


def test_the_files_never_say_more_than_the_disk(life: DelayLife) -> None:
    """After a power cut the log may lack what was not flushed, and then the message must come again."""
    life.send("T", 1, b"x")
    life.flush()
    life.pass_time(2000)
    life.settle()
    life.keep()
    assert delays.load(life.settings.layout).next[0] == 0
    life.flush()
    life.keep()
    assert delays.load(life.settings.layout).next[0] == 1


def test_the_files_never_count_what_waits_and_is_not_on_disk(life: DelayLife) -> None:
    """After a power cut another message may have its number, which must not count as delivered."""
    now_ms = time.time_ns() // 1_000_000
    life.send_at("T", now_ms, b"x")
    life.send("T", 1, b"y")
    life.pass_time(2000)
    life.settle()
    life.flush()
    for n in range(3):
        life.send_at("T", now_ms + LONG_MS, b"waits %d" % n)
    life.settle()
    life.keep()
    said = delays.load(life.settings.layout)
    assert (said.next[0], said.timer[0], said.timer[3]) == (1, 1, 1)


def test_dropped_messages_that_are_not_on_disk_are_not_counted_in_the_files(life: DelayLife) -> None:
    """The same of a level, whose messages are passed if their topic is gone."""
    life.send("T", 1, b"a")
    life.flush()
    life.send("T", 1, b"b")
    life.life.registry.delete(life.life.topics["T"])
    life.pass_time(2000)
    life.settle()
    life.keep()
    assert delays.load(life.settings.layout).next[0] == 1


def test_no_delivery_before_the_files(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without orbitmq/delayed, nobody would look in the log for what was delivered. So a disk that does not take it holds up
    the first delivery of a store, and is asked again."""
    tried: list[Delays] = []

    def full(layout: object, found: Delays) -> None:
        tried.append(found)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(delays, "store", full)
        life = DelayLife(settings_of(in_memory))
        life.send("T", 1, b"x")
        life.pass_time(2000)
        life.settle()
        life.scheduler.need()
        life.settle()
        assert len(tried) == 2
        assert life.delivered() == []
    life.scheduler.need()
    life.settle()
    assert [bytes(record.body) for record in life.delivered()] == [b"x"]
    life.end()
