"""The send handler, a step at a time: what it accepts, what it refuses, and what a client cannot do to it."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from orbitmq.native._core import lib
from tests.native import pipeline as p
from tests.native.pipeline import run

READY, CLOSING, DRAINED, FAULTY = 1, 2, 3, 4


def test_one_message_becomes_one_record(tmp_path: Path) -> None:
    """Goal: a frame's content is in the log byte for byte, and the verdict says where."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"hello", b"TAGS\x01a", queue=2, flag=7))
        run(handler, writer)
        (verdict,) = session.verdicts()
        (record,) = tree.records()
        assert (verdict.code, verdict.physical_offset, verdict.queue_offset, verdict.queue_id) == (p.APPENDED, 0, 0, 2)
        assert verdict.size == record.size == tree.wrote
        assert (record.topic, bytes(record.body), record.queue_id, record.flag) == ("T", b"hello", 2, 7)
        assert record.properties["TAGS"] == "a"


def test_queue_offsets_are_dense_and_in_order(tmp_path: Path) -> None:
    """Method: 500 messages of seeded sizes over four queues in frames of seeded lengths."""
    rng = random.Random(5)
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        bodies = [rng.randbytes(rng.randrange(0, 900)) for _ in range(500)]
        at = 0
        while at < len(bodies):
            count = rng.randrange(1, 40)
            session.send(*(p.message(body, queue=(at + n) % 4) for n, body in enumerate(bodies[at : at + count])))
            at += count
        run(handler, writer)
        records = tree.records()
        assert [bytes(record.body) for record in records] == bodies
        for queue in range(4):
            offsets = [record.queue_offset for record in records if record.queue_id == queue]
            assert offsets == list(range(len(offsets)))
        places = [(verdict.physical_offset, verdict.queue_offset) for verdict in session.verdicts()]
        assert places == [(record.physical_offset, record.queue_offset) for record in records]


@pytest.mark.parametrize(
    ("message", "frame", "code", "detail"),
    [
        (p.message(b"x"), {"topic": 10**6}, p.UNKNOWN_TOPIC, 0),
        (p.message(b"x"), {"topic_hash": 1}, p.UNKNOWN_TOPIC, 0),
        (p.message(b"x", queue=4), {}, p.UNKNOWN_QUEUE, 4),
        (p.message(bytes(64 << 10)), {}, p.TOO_LARGE, 32 << 10),
        (p.message(b"x", bytes(32747)), {}, p.PROPERTIES, 32746),
        (p.message(b"x", b"TAGS\x01a\x02DELAY\x013\x02"), {}, p.RESERVED, 0),
    ],
    ids=["no such topic", "another topic", "no such queue", "body too large", "properties too large", "a reserved name"],
)
def test_a_refusal_names_its_limit_and_disturbs_nobody(
    tmp_path: Path, message: bytes, frame: dict[str, int], code: int, detail: int
) -> None:
    """Method: a good message before and after the bad one; both are stored, and verdicts come in order."""
    with p.pipeline(tmp_path, message_max=32 << 10) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"before"))
        session.send(message, **frame)
        session.send(p.message(b"after"))
        run(handler, writer)
        first, bad, last = session.verdicts()
        assert (first.code, last.code) == (p.APPENDED, p.APPENDED)
        assert (bad.code, bad.detail) == (code, detail)
        assert [bytes(record.body) for record in tree.records()] == [b"before", b"after"]


def test_a_topic_without_write_permission(tmp_path: Path) -> None:
    """Goal: the broker checks permission for each message."""
    with p.pipeline(tmp_path, perm=p.PERM_READ) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"x"))
        run(handler, writer)
        assert [verdict.code for verdict in session.verdicts()] == [p.NO_PERMISSION]
        assert tree.wrote == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(8),
        p.FRAME.pack(0, 0, 1, 0, 0),
        p.FRAME.pack(0, 0, 2**32 - 1, 0, 0) + p.message(b"one"),
        p.FRAME.pack(0, 0, 1, 0, 0) + p.MESSAGE.pack(2**32 - 1, 0, 0, 0, 0, 0),
        p.FRAME.pack(0, 0, 1, 0, 0) + p.MESSAGE.pack(0, 2**32 - 8, 0, 0, 0, 0),
        p.FRAME.pack(0, 0, 1, 0, 0) + p.MESSAGE.pack(2**31, 2**31, 0, 0, 0, 0),
        p.FRAME.pack(0, 0, 0, p.SEND_BORN, 0) + p.born(("fd00::5", 1))[:-1],
        *(
            p.FRAME.pack(0, 0, 1, p.SEND_BORN, 0) + bytes(20) + p.SIZE.pack(size) + p.message(b"x")
            for size in (0, 7, 16, 21, 2**32 - 1)
        ),
    ],
    ids=["empty", "short", "no message", "count", "body size", "properties size", "sum of sizes", "half a host", *"abcde"],
)
def test_a_frame_that_contradicts_itself_ends_its_session_only(tmp_path: Path, content: bytes) -> None:
    """Goal: lengths beyond the record are never believed; another session continues."""
    with p.pipeline(tmp_path) as tree:
        handler, writer = tree.handler(), tree.writer()
        hostile, honest = tree.session(slot=3), tree.session(slot=4)
        hostile.put(content)
        honest.send(p.message(b"fine"))
        run(handler, writer)
        assert hostile.state == FAULTY
        assert honest.state == READY
        assert [verdict.code for verdict in honest.verdicts()] == [p.APPENDED]


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::5"])
@pytest.mark.parametrize("store", ["10.1.2.3", "fd00::6"])
def test_where_messages_come_from(tmp_path: Path, host: str, store: str) -> None:
    """A frame says it, for each of its messages, also of an atomic batch; what says nothing comes from this machine. The
    largest record is as large with either."""
    with p.pipeline(tmp_path, message_max=32 << 10, store_host=(store, 10911)) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(sq_capacity=1 << 19)
        told = (host, 40_000)
        room = (32 << 10) - 91 - 1 - 20 - 12 * (":" in host) - 12 * (":" in store)
        bodies = [b"a", b"b", b"c", b"d", b"e", bytes(room)]
        session.send(p.message(bodies[0]))
        session.send(p.message(bodies[1]), p.message(bodies[2]), host=told)
        session.send_atomic((tree.topic, [p.message(bodies[3]), p.message(bodies[4])]), host=told)
        session.send(p.message(bodies[5]), host=told)
        session.send(p.message(bytes(room + 1)), host=told)
        session.send(p.message(b"last"))
        run(handler, writer)
        *stored, refused, last = session.verdicts()
        assert (refused.code, refused.detail, last.code) == (p.TOO_LARGE, 32 << 10, p.APPENDED)
        records = tree.records()
        assert [bytes(record.body) for record in records] == [*bodies, b"last"]
        assert [record.born_host for record in records] == [p.HERE, *[told] * 5, p.HERE]
        assert {record.store_host for record in records} == {(store, 10911)}
        assert [each.physical_offset for each in stored] == [record.physical_offset for record in records[:-1]]
        assert records[5].size == 32 << 10


def test_random_bytes_in_the_ring(tmp_path: Path) -> None:
    """Method: seeded garbage over the whole ring, positions included; the handler survives, an honest session is served."""
    for seed in range(60):
        rng = random.Random(seed)
        with p.pipeline(tmp_path / str(seed)) as tree:
            handler, writer = tree.handler(), tree.writer()
            hostile, honest = tree.session(slot=1, sq_capacity=4096), tree.session(slot=2)
            start = hostile.ring_offset + rng.choice((0, 128))
            garbage = rng.randbytes(4096) if rng.random() < 0.5 else bytes(rng.choices((0, 1, 8, 24, 255), k=4096))
            hostile.memory[start : start + 4096 - 128] = garbage[: 4096 - 128]
            hostile.ring.publish()
            lib.session_call_handler(tree.control, tree.wake, 1)
            honest.send(p.message(b"fine"))
            run(handler, writer)
            assert [verdict.code for verdict in honest.verdicts()] == [p.APPENDED]
            assert all(bytes(record.body) == b"fine" or record.size < 8192 for record in tree.records())


def test_a_window_is_counted_by_the_broker(tmp_path: Path) -> None:
    """Goal: a client that sends more than its window has only a window in flight until verdicts are delivered."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=8)
        session.send(*(p.message(b"%d" % n) for n in range(20)))
        assert lib.handler_step(handler) == 8
        assert lib.handler_step(handler) == 0
        lib.writer_step(writer)
        assert session.completed == 8
        lib.session_call_handler(tree.control, tree.wake, 0)
        run(handler, writer)
        lib.session_call_handler(tree.control, tree.wake, 0)
        run(handler, writer)
        assert session.completed == 20


def test_what_is_taken_of_a_frame_is_not_looked_at_again(tmp_path: Path) -> None:
    """Goal: if the window lets a long frame through message by message, the handler does not walk it from its beginning each
    time. Method: the part that is taken turns into garbage."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1)
        session.send(*(p.message(b"%08d" % n) for n in range(50)))
        begin = session.ring_offset + 128 + 8 + p.FRAME.size
        for taken in range(1, 51):
            run(handler, writer)
            assert session.completed == taken
            session.memory[begin : begin + taken * 32] = b"\xff" * (taken * 32)
            lib.session_call_handler(tree.control, tree.wake, 0)
        assert [bytes(record.body) for record in tree.records()] == [b"%08d" % n for n in range(50)]


def test_frames_without_a_message_end_a_turn(tmp_path: Path) -> None:
    """Goal: a client that publishes as fast as the handler takes cannot keep the handler busy for ever, not even with frames
    that put nothing into the lane. Method: a ring full of them; one step takes a part, and serves the next session."""
    with p.pipeline(tmp_path) as tree:
        handler, writer = tree.handler(), tree.writer()
        hostile, honest = tree.session(slot=1), tree.session(slot=2)
        while hostile.ring.put(p.FRAME.pack(tree.topic, tree.topic_hash, 0, 0, 0), p.SQ_SEND):
            pass
        hostile.ring.publish()
        lib.session_call_handler(tree.control, tree.wake, 1)
        honest.send(p.message(b"fine"))
        lib.handler_step(handler)
        assert 0 < lib.ring_head_position(hostile.parts.sq) < (1 << 20) // 2
        lib.writer_step(writer)
        assert [verdict.code for verdict in honest.verdicts()] == [p.APPENDED]
        for _ in range(10):
            lib.handler_step(handler)
        assert lib.ring_head_position(hostile.parts.sq) == hostile.ring.position


def test_a_full_lane_makes_the_handler_wait(tmp_path: Path) -> None:
    """Method: far more bytes than the lane holds; the handler stops, and continues when the writer has made room."""
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=4 << 20) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024, sq_capacity=1 << 20)
        bodies = [bytes([n % 256]) * 3000 for n in range(100)]
        for body in bodies:
            session.send(p.message(body))
        assert 0 < lib.handler_step(handler) < 100
        run(handler, writer)
        assert [bytes(record.body) for record in tree.records()] == bodies


def test_a_successor_takes_nothing_twice(tmp_path: Path) -> None:
    """Method: handlers are replaced after every seeded number of steps, with and without the writer in between."""
    for seed in range(20):
        rng = random.Random(seed)
        with p.pipeline(tmp_path / str(seed), lane_capacity=64 << 10, message_max=16 << 10) as tree:
            handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
            sent = 0
            for _ in range(30):
                count = rng.randrange(1, 12)
                session.send(*(p.message(b"%06d" % (sent + n), b"K\x01" + b"v" * rng.randrange(900)) for n in range(count)))
                sent += count
                if rng.random() < 0.7:
                    lib.handler_step(handler)
                if rng.random() < 0.5:
                    lib.writer_step(writer)
                if rng.random() < 0.5:
                    handler = tree.handler()
            run(handler, writer)
            assert [bytes(record.body) for record in tree.records()] == [b"%06d" % n for n in range(sent)]
            assert session.completed == sent


def test_a_closing_session_is_drained(tmp_path: Path) -> None:
    """Goal: what a client published before it left is stored, then the coordinator is told."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"last words"))
        lib.session_set_state(tree.control, 0, CLOSING)
        run(handler, writer)
        assert session.state == DRAINED
        assert [bytes(record.body) for record in tree.records()] == [b"last words"]


def test_an_unsealed_session_is_not_mapped(tmp_path: Path) -> None:
    """Goal: a descriptor that a client could shrink is refused; nothing is read from it."""
    with p.pipeline(tmp_path) as tree:
        session = tree.session(slot=5)
        session.send(p.message(b"never"))
        os.close(session.descriptor)
        bare = os.memfd_create("bare")
        os.ftruncate(bare, lib.session_size(session.shape))
        os.dup2(bare, session.descriptor)
        os.close(bare)
        handler, writer = tree.handler(), tree.writer()
        run(handler, writer)
        assert tree.wrote == 0


def test_one_session_that_fills_the_lane_does_not_starve_another(tmp_path: Path) -> None:
    """Method: two sessions, each with many times what the lane holds. The second is served long before the first is done."""
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=4 << 20) as tree:
        handler, writer = tree.handler(), tree.writer()
        first, second = tree.session(slot=0, window=1024), tree.session(slot=1, window=1024)
        for n in range(200):
            for session in (first, second):
                session.send(p.message(bytes([n % 256]) * 3000))
        while first.completed < 100:
            assert lib.handler_step(handler) > 0
            lib.writer_step(writer)
        assert second.completed > 50
        run(handler, writer)
        assert (first.completed, second.completed) == (200, 200)


def test_frames_are_found_without_a_news_bit_however_busy_it_is(tmp_path: Path) -> None:
    """Goal: a client that clears another's news bit only delays it, even if the handler never sleeps.

    Method: a frame without a bit, and a handler that spins for longer than it is run."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(slot=2)
        lib.control_settings(tree.control).spin_us = 10**6
        run(handler, writer)
        frame = p.FRAME.pack(tree.topic, tree.topic_hash, 1, 0, 0) + p.message(b"unheard")
        room = session.ring.claim(len(frame))
        assert room is not None
        room[:] = frame
        session.ring.commit(len(frame), p.SQ_SEND)
        session.ring.publish()
        watchdog = time.monotonic() + 10
        while session.completed == 0 and time.monotonic() < watchdog:
            lib.handler_run(handler, 20)
            lib.writer_step(writer)
        assert [verdict.code for verdict in session.verdicts()] == [p.APPENDED]


def test_a_late_answer_does_not_touch_a_freed_slot(tmp_path: Path) -> None:
    """Goal: a state moves on only from the one that its mover has seen."""
    with p.pipeline(tmp_path) as tree:
        session = tree.session(slot=9)
        assert not lib.session_move_state(tree.control, 9, CLOSING, DRAINED)
        assert session.state == READY
        assert lib.session_move_state(tree.control, 9, READY, FAULTY)
        assert not lib.session_move_state(tree.control, 9, READY, CLOSING)
        assert session.state == FAULTY


def test_a_refusal_shows_nothing_of_other_messages(tmp_path: Path) -> None:
    """Goal: places in a refusal's verdict are 0, not what the lane held there before."""
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=256)
        for _ in range(10):
            session.send(p.message(b"\xee" * 9000))
            run(handler, writer)
        session.send(*(p.message(b"x", queue=99) for _ in range(40)))
        run(handler, writer)
        refused = [verdict for verdict in session.verdicts() if verdict.code == p.UNKNOWN_QUEUE]
        assert {(verdict.physical_offset, verdict.queue_offset) for verdict in refused} == {(0, 0)}
        assert len(refused) == 40
