"""Atomic batches, a step of handler and writer at a time: all messages are in the log, next to one another, or none is."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log.record import encode
from tests.native import pipeline as p
from tests.native.pipeline import run

READY, FAULTY = 1, 4


def mark(record: p.Record) -> str | None:
    return record.properties.get("ATOMIC")


def test_all_are_stored_in_one_place(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        several = [p.message(b"a", queue=1), p.message(b"b", b"TAGS\x01t")]
        session.send_atomic((tree.topic, several), (tree.topic, [p.message(b"c")]))
        session.send_atomic((tree.topic, [p.message(b"alone")]))
        run(handler, writer)
        records = tree.records()
        assert [(bytes(each.body), each.queue_id, mark(each)) for each in records] == [
            (b"a", 1, "0:3"), (b"b", 0, "1:3"), (b"c", 0, "2:3"), (b"alone", 0, None),
        ]  # fmt: skip
        assert records[1].properties["TAGS"] == "t"
        assert [each.code for each in session.verdicts()] == [p.APPENDED] * 4
        assert [each.physical_offset for each in session.verdicts()] == [each.physical_offset for each in records]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (p.message(b"x", queue=4), p.UNKNOWN_QUEUE),
        (p.message(bytes(200 << 10)), p.TOO_LARGE),
        (p.message(b"x", b"ATOMIC\x010:2"), p.RESERVED),
        (p.message(b"x", b"a\x01" + bytes(32_740 - 2)), p.PROPERTIES),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_refusal_refuses_all(tmp_path: Path, wrong: bytes, code: int, place: int) -> None:
    """Goal: whichever message is refused, none is stored, and each verdict names it."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        messages = [p.message(b"a"), p.message(b"b")]
        messages.insert(place, wrong)
        session.send_atomic((tree.topic, messages))
        session.send(p.message(b"next"))
        run(handler, writer)
        assert [bytes(each.body) for each in tree.records()] == [b"next"]
        *verdicts, following = session.verdicts()
        assert [each.code for each in verdicts] == [code if n == place else p.BATCH_REFUSED for n in range(3)]
        assert all(each.detail == place for each in verdicts if each.code == p.BATCH_REFUSED)
        assert following.code == p.APPENDED


def test_a_batch_that_no_lane_holds_is_refused(tmp_path: Path) -> None:
    """Goal: it does not stall the handler for ever. Method: batches around half a lane; what is sent after them is stored."""
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=1 << 20) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        for size in (15, 16, 17, 40):
            before = session.completed
            session.send_atomic((tree.topic, [p.message(bytes(1900)) for _ in range(size)]))
            session.send(p.message(b"next"))
            run(handler, writer)
            verdicts = [session.verdict(sequence) for sequence in range(before + 1, before + size + 2)]
            assert verdicts[-1].code == p.APPENDED
            wanted = {p.APPENDED} if size < 16 else {p.BATCH_REFUSED, p.BATCH_TOO_LARGE}
            assert {each.code for each in verdicts[:-1]} == wanted


def test_a_handler_sleeps_while_a_batch_does_not_fit(tmp_path: Path) -> None:
    """Goal: it does not try again before there is more room, although less than half of the lane is in use. Method: a batch of
    half a lane, of which the second message needs the rest of the ring as padding; each announced sleep is one."""
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=1 << 20) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(bytes(13_900)))
        run(handler, writer)
        session.send(p.message(bytes(14_700)), p.message(bytes(14_700)))
        session.send_atomic((tree.topic, [p.message(bytes(15_750)), p.message(bytes(15_750))]))
        assert lib.handler_step(handler) == 2
        assert lib.handler_run(handler, 300) == lib.RUN_TIME
        view = ffi.new("struct actor_view *")
        lib.actor_page_view(lib.control_actor(tree.control, 8), view)
        assert 0 < view.counter[lib.COUNT_FULL] == view.counter[lib.COUNT_SLEEPS]
        run(handler, writer)
        assert [each.code for each in session.verdicts()] == [p.APPENDED] * 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        p.ATOMIC.pack(0, 0),
        p.ATOMIC.pack(1, 0),
        p.ATOMIC.pack(1, 1),
        p.ATOMIC.pack(2**32 - 1, 1) + p.FRAME.pack(0, 0, 1, 0, 0) + p.message(b"x"),
        p.ATOMIC.pack(2, 1) + p.FRAME.pack(0, 0, 0, 0, 0),
        p.ATOMIC.pack(1, 1) + p.FRAME.pack(0, 0, 2, 0, 0) + p.message(b"x") * 2,
        p.ATOMIC.pack(1, 1) + p.FRAME.pack(0, 0, 1, p.SEND_BORN, 0) + bytes(20) + p.SIZE.pack(9) + p.message(b"x"),
        p.ATOMIC.pack(1, 2**32 - 1) + p.FRAME.pack(0, 0, 0, 0, 0) * 3,
        pytest.param(p.ATOMIC.pack(65, 1) + p.FRAME.pack(0, 0, 65, 0, 0) + p.message(b"x") * 65, id="above the window"),
    ],
)
def test_hostile_batches_end_their_session_only(tmp_path: Path, content: bytes) -> None:
    with p.pipeline(tmp_path) as tree:
        handler, writer, session, other = tree.handler(), tree.writer(), tree.session(), tree.session(slot=1)
        session.put(content, p.SQ_ATOMIC)
        other.send(p.message(b"good"))
        run(handler, writer)
        assert (session.state, other.state) == (FAULTY, READY)
        assert [bytes(each.body) for each in tree.records()] == [b"good"]


def test_a_frame_cannot_claim_to_be_part_of_a_batch(tmp_path: Path) -> None:
    """Goal: the flag by which the writer knows what belongs together is the handler's alone."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"a"), flags=1 << 31)
        run(handler, writer)
        assert [bytes(each.body) for each in tree.records()] == [b"a"]
        session.send_atomic((tree.topic, [p.message(b"b")]), flags=1 << 31)
        run(handler, writer)
        assert [bytes(each.body) for each in tree.records()] == [b"a", b"b"]


@pytest.mark.parametrize("seed", range(4))
def test_successors_store_each_batch_once_and_whole(tmp_path: Path, seed: int) -> None:
    """Method: a model. Batches of seeded sizes, some refused, among frames, through a lane that a few of
    them fill. The handler is replaced between any two steps; at each moment the log has whole batches only."""
    rng = random.Random(seed)
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=64 << 10, files=14) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=256)
        expected: list[list[bytes]] = []
        refused, number, sent = 0, 0, 0
        for step in range(60):
            count = rng.choice((1, 2, 3, 10, 40))
            if sent + count - session.completed <= 256 and rng.random() < 0.6:
                bodies = [b"%d." % (number + n) + bytes(rng.randrange(600)) for n in range(count)]
                number += count
                sent += count
                messages = [p.message(body, queue=rng.randrange(4)) for body in bodies]
                if rng.random() < 0.3:
                    session.send(*messages)
                    expected += [[body] for body in bodies]
                elif rng.random() < 0.2:
                    messages[rng.randrange(count)] = p.message(b"x", queue=9)
                    session.send_atomic((tree.topic, messages))
                    refused += count
                else:
                    session.send_atomic((tree.topic, messages))
                    expected.append(bodies)
            for _ in range(rng.randrange(4)):
                deed = rng.randrange(8)
                if deed < 3:
                    lib.handler_step(handler)
                elif deed < 6:
                    lib.writer_step(writer)
                elif deed == 6:
                    handler = tree.handler()
            if step % 4:
                continue  # a look takes long
            stored = [bytes(each.body) for each in tree.records()]
            whole = [body for bodies in expected for body in bodies]
            assert stored == whole[: len(stored)]
            ends = {0}
            for bodies in expected:
                ends.add(max(ends) + len(bodies))
            assert len(stored) in ends
        run(handler, writer)
        assert [bytes(each.body) for each in tree.records()] == [body for bodies in expected for body in bodies]
        assert session.completed == sent
        places = [(each.physical_offset // (64 << 10), mark(each) or "0:1") for each in tree.records()]
        marked = [(file, *map(int, text.split(":"))) for file, text in places]
        firsts = [file for file, index, _ in marked if index == 0]
        lasts = [file for file, index, count in marked if index + 1 == count]
        assert firsts == lasts and len(set(firsts)) > 1, "a batch lies in one file"


@pytest.mark.parametrize("whole", [1, 2, 3])
def test_a_small_write_that_fails_in_a_batch_takes_all_of_it_back(tmp_path: Path, whole: int) -> None:
    """Method: the kernel writes up to RLIMIT_FSIZE: one record before the batch, and so many of the batch's four less one."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"opens"), flags=p.SEND_FLUSH)
        run(handler, writer)
        before = tree.wrote
        session.send(p.message(b"stays"), flags=p.SEND_FLUSH)
        session.send_atomic((tree.topic, [p.message(b"part%d" % n, queue=n) for n in range(4)]), flags=p.SEND_FLUSH)
        lib.handler_step(handler)
        size = len(encode("T", b"part0", properties={"ATOMIC": "0:4"}))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * before + (whole - 1) * size + 10, limits[1]))
        try:
            assert lib.writer_step(writer) == 5
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [bytes(record.body) for record in tree.records()] == [b"opens", b"stays"]
        assert [each.code for each in session.verdicts()] == [p.APPENDED] * 2 + [p.STORE_FAILED] * 4
