"""Goal: verify compares queues, index and small files with the log, and says for each fault what and where it is; and it knows
what a kill or a running broker may leave.

Method: a store that a real broker wrote, damaged in one place at a time; brokers that are killed, or write in the meantime.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import StoreFailed
from orbitmq.shm.segment import remove_leftovers, segment_prefix
from orbitmq.store import abort, config
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock
from orbitmq.store.trim import trim
from orbitmq.store.verify import verify as verifying
from orbitmq.store.verify.findings import Finding, Kind, Verdict
from orbitmq.store.verify.verify import verify
from tests.store.stored_by_broker import QUEUES, SETTINGS, TOPICS, Stored, body, store_by_broker
from tests.waiting import until

INDEX_SLOTS_AT, INDEX_ENTRIES_AT = 40, 40 + 4 * SETTINGS.index_slots


def found_one(stored: Stored, kind: Kind) -> Finding:
    """The only thing that is wrong."""
    verdict, found = stored.verify()
    assert verdict.faults == {kind: 1} and not verdict.whole, found
    return found[0]


def kinds(stored: Stored) -> dict[Kind, int]:
    return stored.verify()[0].faults


def queue_file(stored: Stored, number: int = 1) -> Path:
    return stored.of("consumequeue/flows/1")[number]


def unit_of(stored: Stored, path: Path, number: int) -> tuple[int, int, int]:
    place, size, code = struct.unpack_from(">QIq", stored.files[path], 20 * number)
    return place, size, code


def test_what_a_broker_leaves_is_whole(stored: Stored) -> None:
    verdict, found = stored.verify()
    assert verdict.whole and not found and verdict.records == 600 and verdict.last_ms > 0
    assert {key: seen.next for key, seen in verdict.queues.items()} == {key: 150 for key in stored.bodies}
    assert len(stored.of("commitlog")) > 2 and len(stored.of("index")) > 2, "several files of each kind"


@pytest.mark.parametrize(("at", "what"), [(0, "place"), (7, "place"), (11, "size"), (12, "tags code"), (19, "tags code")])
def test_a_unit_that_differs_from_its_record(stored: Stored, at: int, what: str) -> None:
    path = queue_file(stored)
    stored.flip(path, 8 * (20 * 5 + at))
    finding = found_one(stored, Kind.QUEUE_UNIT)
    assert (finding.path, finding.topic, finding.queue) == (str(path), "flows", 1)
    assert (finding.first, finding.count) == (SETTINGS.queue_file_units + 5, 1) and f"the {what} is" in finding.text
    assert finding.offset == unit_of(stored, path, 5)[0]


def test_units_and_files_that_are_missing(stored: Stored) -> None:
    """Neighbours are reported as one; a file that is gone, and a whole queue, too."""
    path = queue_file(stored)
    stored.spoil(path, 20 * 7, bytes(20 * 9))
    finding = found_one(stored, Kind.QUEUE_MISSING)
    assert (finding.first, finding.count) == (SETTINGS.queue_file_units + 7, 9)
    path.unlink()
    assert kinds(stored) == {Kind.QUEUE_MISSING: 1, Kind.QUEUE_FILE: 1}
    shutil.rmtree(path.parent)
    finding = found_one(stored, Kind.QUEUE_MISSING)
    assert (finding.topic, finding.queue, finding.first, finding.count) == ("flows", 1, 0, 150)


def test_units_that_nothing_stands_behind(stored: Stored) -> None:
    last = queue_file(stored, -1)
    at = 150 % SETTINGS.queue_file_units
    stored.spoil(last, 20 * at, stored.files[last][:40])
    finding = found_one(stored, Kind.QUEUE_EXTRA)
    assert (finding.first, finding.count, finding.topic) == (150, 2, "flows")
    stored.spoil(last, 20 * at, bytes(40))
    stray = stored.layout.queue_folder("flows", 5)
    stray.mkdir()
    (stray / f"{0:020d}").write_bytes(stored.files[last])
    verdict, found = stored.verify()
    assert verdict.faults == {Kind.QUEUE_EXTRA: 1, Kind.CONFIG: 1}, found


def test_queue_files_of_other_sizes_and_names(stored: Stored) -> None:
    path = queue_file(stored, -1)
    path.write_bytes(stored.files[path][:-20])
    assert "780 bytes" in found_one(stored, Kind.QUEUE_FILE).text
    path.write_bytes(stored.files[path])
    (path.parent / "letter").write_text("dear")
    assert found_one(stored, Kind.QUEUE_FILE).path.endswith("letter")
    (path.parent / "letter").unlink()
    (stored.layout.consumequeue / "letter").write_text("dear")
    assert found_one(stored, Kind.QUEUE_FILE).path.endswith("letter")


def test_messages_that_are_lost_are_named(stored: Stored) -> None:
    """A damaged record takes its message with it: which one, and whose."""
    path = queue_file(stored)
    place, size, _ = unit_of(stored, path, 12)
    log = stored.layout.log_file(place - place % SETTINGS.log_file_size)
    stored.spoil(log, place % SETTINGS.log_file_size, bytes(size))
    verdict, found = stored.verify()
    assert verdict.faults == {Kind.LOG_RECORD: 1, Kind.MESSAGE_LOST: 1}
    damage, lost = found
    assert (damage.kind, damage.offset, damage.size) == (Kind.LOG_RECORD, place, size)
    assert (lost.topic, lost.queue, lost.first, lost.count) == ("flows", 1, SETTINGS.queue_file_units + 12, 1)
    assert lost.offset == place


def test_the_last_messages_of_the_log_are_lost(stored: Stored) -> None:
    verdict, _ = stored.verify()
    last = max(unit_of(stored, path, number) for path in stored.of("consumequeue") for number in range(40))
    log = stored.layout.log_file(last[0] - last[0] % SETTINGS.log_file_size)
    stored.spoil(log, last[0] % SETTINGS.log_file_size + 5, b"\0")
    spoilt, found = stored.verify()
    assert spoilt.end == last[0] and verdict.end == last[0] + last[1]
    assert {Kind.LOG_RECORD, Kind.MESSAGE_LOST} <= set(spoilt.faults), found
    assert not {Kind.LOG_TAIL, Kind.QUEUE_EXTRA, Kind.INDEX_ENTRY} & set(spoilt.faults), found


def test_an_entry_of_the_index(stored: Stored) -> None:
    """Its hash, its place, its time, the next entry; then a slot, and the header."""
    path = stored.of("index")[1]
    entry = INDEX_ENTRIES_AT + 20 * 9
    stored.flip(path, 8 * (entry + 4) + 3)
    assert kinds(stored) == {Kind.INDEX_ENTRY: 1, Kind.INDEX_KEY: 1}
    stored.restore()
    stored.flip(path, 8 * entry + 5)
    assert {Kind.INDEX_ENTRY, Kind.INDEX_KEY} <= set(kinds(stored))
    stored.restore()
    stored.flip(path, 8 * (entry + 15))
    finding = found_one(stored, Kind.INDEX_TIME)
    assert (finding.path, finding.first) == (str(path), 9)
    stored.restore()
    stored.spoil(path, entry + 16, struct.pack(">I", 9))
    assert "followed by 9" in found_one(stored, Kind.INDEX_CHAIN).text, "an entry that leads to itself"
    stored.restore()
    stored.spoil(path, INDEX_SLOTS_AT + 4 * 17, struct.pack(">I", 149))
    finding = found_one(stored, Kind.INDEX_SLOT)
    assert finding.first == 17 and "149" in finding.text
    for at in (0, 8, 16, 24, 32):
        stored.restore()
        stored.flip(path, 8 * at + 2)
        assert found_one(stored, Kind.INDEX_HEADER).path == str(path)
    stored.restore()
    stored.flip(path, 8 * INDEX_ENTRIES_AT + 2)
    assert found_one(stored, Kind.INDEX_REST).offset == INDEX_ENTRIES_AT


def test_index_files_that_are_gone_or_strange(stored: Stored) -> None:
    first, second, *_, last = stored.of("index")
    second.unlink()
    finding = found_one(stored, Kind.INDEX_KEY)
    assert finding.count and finding.count > 100
    stored.restore()
    last.unlink()
    assert kinds(stored) == {Kind.INDEX_KEY: 1, Kind.REPUT: 1}
    stored.restore()
    first.write_bytes(stored.files[first][:-4])
    assert kinds(stored) == {Kind.INDEX_FILE: 1, Kind.INDEX_KEY: 1}
    stored.restore()
    (stored.layout.index / "letter").write_text("dear")
    assert found_one(stored, Kind.INDEX_FILE).path.endswith("letter")


def test_the_small_files(stored: Stored) -> None:
    layout = stored.layout
    stored.spoil(layout.checkpoint, 8, struct.pack(">q", 1 << 60))
    assert "logics" in found_one(stored, Kind.CHECKPOINT).text
    stored.restore()
    layout.checkpoint.write_bytes(b"")
    found_one(stored, Kind.CHECKPOINT)
    stored.restore()
    stored.flip(layout.reput, 8 * (64 + 9))
    assert Kind.REPUT in kinds(stored)
    stored.restore()
    (layout.config / config.TOPICS).write_text("{")
    _, found = stored.verify()
    assert found[0].kind is Kind.CONFIG and found[0].path.endswith(config.TOPICS), "though its .bak can be read"
    topics = json.loads(stored.files[layout.config / config.TOPICS])
    del topics["topicConfigTable"]["flows"]
    (layout.config / config.TOPICS).write_text(json.dumps(topics))
    assert found_one(stored, Kind.CONFIG).topic == "flows"
    stored.restore()
    config.store_offsets(layout, {("flows", "g"): {0: 150, 1: 151}})
    assert "flows/1 is 151" in found_one(stored, Kind.CONFIG).text


def test_it_changes_nothing(stored: Stored) -> None:
    for path in stored.of("commitlog"):
        stored.flip(path, 8 * 100)
    before = {path: path.read_bytes() for path in stored.files}
    assert not stored.verify()[0].whole
    assert {path: path.read_bytes() for path in stored.layout.root.rglob("*") if path.is_file()} == before


def test_a_broker_that_is_started_meanwhile(stored: Stored) -> None:
    """Then what was found means nothing, and is not returned as a verdict."""
    locks: list[StoreLock] = []

    def start(done: int, whole: int) -> None:
        locks.append(StoreLock.acquire(stored.layout, "late")) if not locks else None

    with pytest.raises(StoreFailed, match="meanwhile"):
        verify(stored.layout, SETTINGS, lambda finding: None, start)
    locks[0].release()


@pytest.mark.parametrize("loss", ["kill", "power cut", "power cut without queues"])
def test_after_a_death_only_what_must_be_there_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """The tree is killed while it writes; a power cut also takes pages of the queues and the index that were not synced."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    sizes = {"log_file_size": SETTINGS.log_file_size, "queue_file_units": SETTINGS.queue_file_units}
    index = {"index_slots": SETTINGS.index_slots, "index_entries": SETTINGS.index_entries}
    broker = orbitmq.Broker(tmp_path / "store", name="dying", handlers=1, **sizes, **index)
    broker.create_topic("flows", QUEUES)
    with broker.producer() as producer:
        for number in range(400):
            producer.send("flows", body(number), keys=[f"k{number}"], durability="flushed" if number == 300 else None)
    generation = broker.connection.attachment.description.generation
    os.kill(broker.pid, signal.SIGKILL)
    layout = StoreLayout.at(tmp_path / "store")
    with pytest.raises(orbitmq.errors.OrbitError):
        broker.close()
        broker.create_topic("late")
    # The lock goes with the last of its actors. No next start comes to remove their memory.
    lock = wait_for_lock(layout)
    lock.release()
    remove_leftovers(segment_prefix(generation))
    assert abort.exists(layout)
    if loss != "kill":
        layout.reput.write_bytes(b"")
        for path in layout.index.iterdir():
            path.write_bytes(bytes(SETTINGS.index_file_size))
    if loss == "power cut without queues":
        for path in layout.consumequeue.rglob("0*"):
            if path.is_file():
                path.write_bytes(bytes(len(path.read_bytes())))
    found: list[Finding] = []
    verdict = verify(layout, SETTINGS, found.append)
    assert verdict.whole and verdict.records == 400, found


def wait_for_lock(layout: StoreLayout) -> StoreLock:
    def acquired() -> StoreLock | None:
        with suppress(orbitmq.errors.StoreLocked):
            return StoreLock.acquire(layout, "next")
        return None

    lock: StoreLock = until(acquired, "the lock to be free")
    return lock


def test_a_broker_that_writes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, while messages come in: never a fault, and always more to read."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    sizes = {"log_file_size": 1 << 20, "queue_file_units": 1000, "index_slots": 1000, "index_entries": 5000}
    layout = StoreLayout.at(tmp_path / "store")
    done = threading.Event()

    def produce(broker: orbitmq.Broker) -> None:
        with broker.producer() as producer:
            number = 0
            while not done.is_set():
                batch = [body(number + i) for i in range(200)]
                keys = [f"k{number + i}" for i in range(200)]
                producer.send_batch(TOPICS[number // 200 % 2], batch, keys=keys, durability="flushed")
                number += 200

    with orbitmq.Broker(layout.root, name="busy", handlers=1, **sizes) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, QUEUES)
        thread = threading.Thread(target=produce, args=(broker,))
        thread.start()
        try:
            verdicts: list[Verdict] = []
            while len(verdicts) < 20 or verdicts[-1].records < 20_000:
                found: list[Finding] = []
                verdicts.append(verify(layout, layout.settings(), found.append))
                assert verdicts[-1].whole and verdicts[-1].running and not found, found
        finally:
            done.set()
            thread.join()
    assert [verdict.end for verdict in verdicts] == sorted(verdict.end for verdict in verdicts)
    verdict = verify(layout, layout.settings(), pytest.fail)
    assert verdict.whole and not verdict.running and verdict.records >= verdicts[-1].records


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_broker_that_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Retention removes files after so many steps of reading. Files of queues and index may be missing before that shows in the
    log. None of this is a fault; a file that is missing among others is."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(verifying, "STEP_BYTES", 40_000)
    store_by_broker(tmp_path / "store", "removing")
    layout = StoreLayout.at(tmp_path / "store")
    taken = 0

    def look(done: int, whole: int) -> None:
        nonlocal taken
        taken += 1
        if taken == steps:
            assert trim(layout, SETTINGS, SETTINGS.log_file_size, lambda: False).log == 1

    with orbitmq.Broker(layout.root, name="removing", handlers=1):
        found: list[Finding] = []
        verdict = verify(layout, SETTINGS, found.append, look)
        assert (found, verdict.running, taken >= steps) == ([], True, True)
        queue = layout.queue_folder(TOPICS[0], 0)
        sorted(queue.iterdir())[1].unlink()
        verdict = verify(layout, SETTINGS, found.append)
        assert {finding.kind for finding in found if finding.damage} >= {Kind.QUEUE_FILE}
