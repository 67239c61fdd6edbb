"""reput: a log in, ConsumeQueues and an index out.

Goal: queues are byte for byte those of a plain Python model and every key is found exactly once per record that carries it,
wherever reput was killed. Method: logs from a plain Python encoder (reput_rig.py); tiny files so that every kind of file rolls.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store.consume_queue import BLANK_SIZE, ConsumeQueue
from orbitmq.store.index_file import IndexFile, key_hash
from orbitmq.store.index_headers import index_files
from orbitmq.store.layout import StoreLayout
from orbitmq.store.reput_commit import ReputCommit
from tests.native.reput_rig import ENTRIES, FILE_UNITS, SLOTS, Message, Model, Rig, index_hash, random_message

EBADMSG, ENOSPC, EOVERFLOW = 74, 28, 75
TOPICS = ["orders", "%RETRY%billing", "t" * 127, "a-b_c|d"]


def make(store: Path, count: int, seed: int = 1, topics: list[str] = TOPICS) -> Model:
    print(f"seed {seed}")
    rng = random.Random(seed)
    model = Model()
    for number in range(count):
        model.append(random_message(rng, topics, number))
    model.save(store)
    return model


def test_hash_of_a_known_key() -> None:
    """RocketMQ's own numbers."""
    assert key_hash("T_one", "7F0000016B085FFD2B27679AE2430000") == 0x179F75C5
    assert key_hash("T_one", "key1") == 0x5E78EAC6 == index_hash("T_one", "key1")
    assert key_hash("T_one", "key2") == 0x5E78EAC5 == index_hash("T_one", "key2")


@pytest.mark.parametrize("limit", [1, 5000, 1 << 20])
def test_everything_against_the_model(tmp_path: Path, limit: int) -> None:
    """Any step size gives the same files; a commit says how far it got."""
    model = make(tmp_path, 1500)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    reput.run_until(model.end, limit)
    assert rig.position() == model.end
    assert reput.step() == 0
    rig.check()
    assert len(index_files(tmp_path / "index")) > 10
    commit = ReputCommit.load(StoreLayout(tmp_path))
    assert commit is not None and commit.position == commit.indexed == model.end
    reput.close()


def test_one_message_is_published_at_once(tmp_path: Path) -> None:
    """A step over one record publishes it; a limit in the middle of one takes it whole."""
    model = make(tmp_path, 20)
    rig = Rig(tmp_path, model, TOPICS)
    rig.wrote(0)
    reput = rig.open()
    for end in model.boundaries[1:]:
        rig.wrote(end)
        assert reput.step() == 1
        assert rig.position() == end
    rig.check()
    reput.close()


def test_without_keys_there_is_no_index_file(tmp_path: Path) -> None:
    """An IndexFile costs 20 MB of slots; it is made when the first key comes."""
    model = Model()
    for _ in range(10):
        model.append(Message("orders", 0))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    reput.step()
    assert index_files(tmp_path / "index") == []
    reput.close()


def test_index_file_bytes(tmp_path: Path) -> None:
    """Header, slot and entries stand where RocketMQ reads them."""
    model = Model()
    model.append(Message("T_one", 1, keys=("key1", "key2"), unique_key="7F0000016B085FFD2B27679AE2430000"))
    model.store_ms += 2500
    model.append(Message("T_one", 1, keys=("key1",)))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["T_one"])
    reput = rig.open()
    reput.step()
    (path,) = index_files(tmp_path / "index")
    content = path.read_bytes()
    assert len(content) == 40 + 4 * SLOTS + 20 * ENTRIES
    first, second = 1_700_000_000_000, 1_700_000_002_507
    assert struct.unpack(">QQQQII", content[:40]) == (first, second, 0, model.boundaries[1], 3, 5)
    entries = [struct.unpack_from(">IQII", content, 40 + 4 * SLOTS + 20 * n) for n in range(5)]
    assert entries == [
        (0, 0, 0, 0),
        (0x179F75C5, 0, 0, 0),
        (0x5E78EAC6, 0, 0, 0),
        (0x5E78EAC5, 0, 0, 0),
        (0x5E78EAC6, model.boundaries[1], 2, 2),
    ]
    assert struct.unpack_from(">I", content, 40 + 4 * (0x5E78EAC6 % SLOTS)) == (4,)
    with IndexFile(path, SLOTS, ENTRIES) as file:
        assert file.find(0x5E78EAC6, begin_ms=second) == [model.boundaries[1]]
        assert file.find(0x5E78EAC6, end_ms=first) == [0]
    reput.close()


def test_a_queue_that_goes_on_from_an_earlier_life(tmp_path: Path) -> None:
    """The first unit of an empty queue may be anywhere: units before it are blank and its min offset is its own."""
    model = Model()
    model.next_offset["orders", 2] = 70
    model.append(Message("orders", 2))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    reput.step()
    seen = rig.queue("orders", 2)
    assert (seen.min_offset, seen.max_offset) == (70, 71)
    content = (tmp_path / "consumequeue/orders/2" / f"{64 * 20:020d}").read_bytes()
    assert content[: 6 * 20] == struct.pack(">QIq", 0, BLANK_SIZE, 0) * 6
    assert content[6 * 20 : 7 * 20] == model.units["orders", 2][0]
    reput.close()


def test_a_queue_of_which_a_power_cut_has_left_some_fillers(tmp_path: Path) -> None:
    """Goal: its min offset is still that of its first unit. Method: recovery has found it empty, at the end of the fillers."""
    model = Model()
    model.next_offset["orders", 2] = 70
    model.append(Message("orders", 2))
    model.save(tmp_path)
    folder = tmp_path / "consumequeue/orders/2"
    folder.mkdir(parents=True)
    (folder / f"{64 * 20:020d}").write_bytes((struct.pack(">QIq", 0, BLANK_SIZE, 0) * 3).ljust(FILE_UNITS * 20, b"\0"))
    rig = Rig(tmp_path, model, TOPICS)
    seen = ffi.new("struct topic_seen *")
    assert lib.topic_see(rig.topics, rig.topic_index["orders"], seen)
    lib.queue_recovered(rig.topics, seen.first_slot + 2, 67, 67, 0)
    reput = rig.open()
    reput.step()
    found = rig.queue("orders", 2)
    assert (found.min_offset, found.max_offset) == (70, 71)
    reput.close()


def test_delayed_messages_have_their_time_in_the_queue(tmp_path: Path) -> None:
    """RocketMQ delivers from SCHEDULE_TOPIC_XXXX what its unit says is due; any other value there would be due at once."""
    seconds = [1, 5, 10, 30, *(60 * minutes for minutes in range(1, 11)), 1200, 1800, 3600, 7200]
    levels = {str(number): due for number, due in enumerate(seconds, 1)}
    levels |= {"019": 7200, "4294967297": 7200, "00000000002": 5}
    model = Model()
    for level, due in levels.items():
        model.append(Message("SCHEDULE_TOPIC_XXXX", 3, tag="a", delay=level, due_ms=1000 * due))
    for level in ("0", "-1", "1x", None):
        model.append(Message("SCHEDULE_TOPIC_XXXX", 3, tag="a", delay=level))
    model.append(Message("orders", 0, tag="a", delay="3"))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["SCHEDULE_TOPIC_XXXX", "orders"])
    reput = rig.open()
    reput.run_until(model.end)
    rig.check()
    reput.close()


def test_a_full_queue_file_is_dated_for_rocketmq(tmp_path: Path) -> None:
    """RocketMQ looks for a time in the first file whose date is at or after it. So a full file's date is between its last
    message and the next one's, even if the files are made long after the messages."""
    model = make(tmp_path, 1500)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    reput.run_until(model.end, 5000)
    reput.close()
    dated = 0
    for (topic, number), stored in model.stored_ms.items():
        queue = ConsumeQueue(tmp_path, topic, number, FILE_UNITS)
        for first in queue.files()[:-1]:
            following = first + FILE_UNITS
            assert stored[following - 1] <= queue.path(first).stat().st_mtime_ns // 1_000_000 < stored[following]
            dated += 1
    assert dated > 10


def test_unknown_topic(tmp_path: Path) -> None:
    """reput stops before a topic that the table does not know, names it, and continues when it is there."""
    model = Model()
    model.append(Message("orders", 0, keys=("a",)))
    model.append(Message("late", 3, keys=("b",)))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["orders"])
    reput = rig.open()
    assert lib.reput_run(reput.handle, 1000) == lib.RUN_NEED
    assert reput.missing() == ("late", 3)
    assert rig.position() == model.boundaries[1]
    rig.add_topic("late", 4)
    assert lib.reput_run(reput.handle, 1) == lib.RUN_TIME
    rig.check()
    reput.close()


@pytest.mark.parametrize("at", ["magic", "size", "place", "zero"])
def test_a_bad_record_stops_it(tmp_path: Path, at: str) -> None:
    """Something that is not a record is below the wrote position: everything before it is served, then an error state."""
    model = make(tmp_path, 30)
    bad = model.boundaries[20]
    content = model.files[0]
    if at == "magic":
        content[bad + 4] ^= 1
    elif at == "size":
        content[bad : bad + 4] = struct.pack(">I", 0x7FFFFFFF)
    elif at == "place":
        content[bad + 35] ^= 1
    else:
        content[bad : bad + 100] = bytes(100)
    model.save(tmp_path)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    assert lib.reput_run(reput.handle, 1000) == lib.RUN_FAILED
    assert rig.position() == bad
    assert rig.positions().reput_error == EBADMSG
    assert lib.reput_run(reput.handle, 1) == lib.RUN_TIME, "it is said once, and then waited"
    assert (rig.position(), rig.positions().reput_error) == (bad, EBADMSG)
    reput.close()


@pytest.mark.parametrize(("topic", "queue"), [("x" * 127, 0), ("orders", (1 << 32) - 1)])
def test_a_record_without_a_queue_is_passed_or_ends_it(tmp_path: Path, topic: str, queue: int) -> None:
    """The caller decides what to do about a queue that the table cannot have, for that record only."""
    model = Model()
    model.append(Message("orders", 0, body=b"before"))
    model.append(Message(topic, queue, keys=("lost",)))
    model.append(Message(topic, queue))
    model.append(Message("orders", 0, body=b"behind"))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["orders"])
    reput = rig.open()
    for at in (1, 2):
        assert lib.reput_run(reput.handle, 1000) == lib.RUN_NEED
        assert reput.missing() == (topic, queue)
        assert reput.position == rig.position() == model.boundaries[at]
        lib.reput_pass(reput.handle)
    assert lib.reput_run(reput.handle, 1) == lib.RUN_TIME
    assert rig.position() == model.end
    assert not reput.missing()[0]
    reput.close()
    again = Rig(tmp_path, model, ["orders"])
    stopping = again.open()
    assert lib.reput_run(stopping.handle, 1000) == lib.RUN_NEED
    lib.reput_stop(stopping.handle, EOVERFLOW)
    assert lib.reput_run(stopping.handle, 1) == lib.RUN_TIME
    assert (again.position(), again.positions().reput_error) == (model.boundaries[1], EOVERFLOW)
    stopping.close()


def test_no_room_heals_itself(tmp_path: Path) -> None:
    """A folder that cannot be made stops reput at that record, again and again, and nothing is doubled when it can be made."""
    model = make(tmp_path, 300)
    (tmp_path / "consumequeue").mkdir()
    blocked = tmp_path / "consumequeue" / TOPICS[1]
    blocked.write_text("in the way")
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    for _ in range(5):
        reput.step()
        assert rig.positions().reput_error == 20
        assert rig.position() < model.end
    blocked.unlink()
    reput.run_until(model.end)
    assert rig.positions().reput_error == 0
    rig.check()
    reput.close()


def test_a_lost_commit(tmp_path: Path) -> None:
    """Without a commit the index is taken as it is: nothing is in it twice, everything after it once."""
    model = make(tmp_path, 600)
    rig = Rig(tmp_path, model, TOPICS)
    rig.wrote(model.boundaries[400])
    reput = rig.open()
    reput.step()
    reput.close()
    commit = tmp_path / "orbitmq" / "reput"
    commit.write_bytes(b"\xff" * 4096)
    assert ReputCommit.load(StoreLayout(tmp_path)) is None
    rig.boot(TOPICS, reput=model.boundaries[200])
    reput = rig.open()
    assert reput.position == model.boundaries[200]
    reput.run_until(model.end)
    rig.check(published=False)
    reput.close()


def test_a_commit_half_written(tmp_path: Path) -> None:
    """The damaged slot does not count; the older one does."""
    model = make(tmp_path, 200)
    rig = Rig(tmp_path, model, TOPICS)
    reput = rig.open()
    reput.step(8000)
    path = tmp_path / "orbitmq" / "reput"
    older = ReputCommit.load(StoreLayout(tmp_path))
    reput.step(8000)
    newer = ReputCommit.load(StoreLayout(tmp_path))
    assert older is not None and newer is not None and older.position < newer.position
    reput.close()
    content = bytearray(path.read_bytes())
    versions = [struct.unpack_from(">Q", content, at)[0] for at in (64, 192)]
    content[(64, 192)[versions.index(max(versions))] + 20] ^= 1
    path.write_bytes(content)
    # The one before the newest: a step makes more than one when index files roll.
    left = ReputCommit.load(StoreLayout(tmp_path))
    assert left is not None and older.position <= left.position < newer.position
    reput = rig.open()
    assert reput.position == left.position
    reput.run_until(model.end)
    rig.check()
    reput.close()


def kill_inside(rig: Rig, target: int, limit: int) -> None:
    """A child that steps until it is killed: as soon as its position reaches `target`, so anywhere inside a step."""
    child = os.fork()
    if child == 0:
        try:
            reput = rig.open()
            reput.run_until(rig.model.end, limit)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 60
    while rig.position() < target:
        assert time.monotonic() < deadline, "the child made no progress"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("seed", range(8))
def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    """SIGKILL at random points, each time a successor on the same shared memory: as if nobody had died."""
    model = make(tmp_path, 2500, seed)
    rng = random.Random(seed)
    rig = Rig(tmp_path, model, TOPICS)
    targets = sorted(rng.randrange(model.end) for _ in range(8))
    for target in targets:
        kill_inside(rig, target, rng.choice((1, 700, 5000, 40000)))
    reput = rig.open()
    reput.run_until(model.end)
    rig.check()
    reput.close()


def test_a_new_tree_after_a_kill(tmp_path: Path) -> None:
    """Shared memory is gone too; recovery sets an earlier position: units again, keys not."""
    model = make(tmp_path, 1500, 5)
    rig = Rig(tmp_path, model, TOPICS)
    for part in (0.3, 0.6):
        kill_inside(rig, int(model.end * part), 700)
        at = model.boundaries[int(len(model.boundaries) * (part - 0.2))]
        rig.boot(TOPICS, reput=at)
    reput = rig.open()
    reput.run_until(model.end)
    rig.check(published=False)
    reput.close()


def test_rollback_of_every_prefix(tmp_path: Path) -> None:
    """index_file_roll_back to each number of entries equals a file that never had more, in slots and entries.

    Hash 0 at offset 0 makes entries that are all zero: those must be found too.
    """
    slots, entries = 7, 40
    hashes = [0, 0, 0, 5, 0, 12, 19, 5, 7, 14, 5, 5, 1, 0, 12]

    def put(file: object, upto: int, header: list[bytes]) -> None:
        for n in range(upto):
            header.append(bytes(ffi.buffer(ffi.addressof(file.header))))  # type: ignore[attr-defined]
            assert lib.index_file_put(file, hashes[n], 0 if n < 5 else n * 100, 1000 + n) == 0

    for left in range(len(hashes) + 1):
        whole, short = ffi.new("struct index_file *"), ffi.new("struct index_file *")
        paths = [tmp_path / f"{kind}{left}" for kind in ("whole", "short")]
        headers: list[bytes] = []
        for file, path, upto in ((whole, paths[0], len(hashes)), (short, paths[1], left)):
            assert lib.index_file_open(file, str(path).encode(), slots, entries, True, True) == 0
            put(file, upto, headers)
        to = ffi.new("struct index_header *", short.header)
        assert lib.index_file_roll_back(whole, to) == 0
        lib.index_file_publish(short)
        lib.index_file_close(whole)
        lib.index_file_close(short)
        expected, found = paths[1].read_bytes(), paths[0].read_bytes()
        if 0 < left < 5:  # an all-zero tail looks like nothing; its slot may name it until the next put
            assert found[40 + 4 * slots :] == expected[40 + 4 * slots :]
        else:
            assert found == expected
