"""The writer and atomic batches with an id, a step at a time: the first message has it, and the whole batch is stored once."""

from __future__ import annotations

import random
import resource
import signal
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p
from tests.native.pipeline import run
from tests.native.test_writer_dedup import NOW_MS, codes, known, successor


def batch(id_: bytes, *bodies: bytes) -> list[bytes]:
    """Messages to queues 0, 1, ..., of which the first has the id."""
    return [p.message(body, known(id_) if i == 0 else b"", queue=i % 4) for i, body in enumerate(bodies)]


def places(verdicts: list[p.Verdict]) -> list[tuple[int, int, int, int]]:
    return [(each.physical_offset, each.queue_offset, each.size, each.queue_id) for each in verdicts]


@pytest.mark.parametrize("flags", [p.SEND_DEDUP, p.SEND_DEDUP | p.SEND_FLUSH], ids=["mapped", "small"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_second_batch_of_an_id_is_the_first(tmp_path: Path, flags: int, count: int) -> None:
    """In one write group and in the next, in which a small write may still be in memory."""
    bodies = [b"%d" % i for i in range(count)]
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"before", queue=0))
        for turn in range(3):
            session.send_atomic((tree.topic, batch(b"a", *bodies)), flags=flags)
            if turn:
                run(handler, writer)
        verdicts = session.verdicts()[1:]
        assert [each.code for each in verdicts] == [p.APPENDED] * count + [p.DUPLICATE] * 2 * count
        assert places(verdicts[:count]) == places(verdicts[count : 2 * count]) == places(verdicts[2 * count :])
        records = tree.records()
        assert [bytes(each.body) for each in records] == [b"before", *bodies]
        assert [each.properties.get("DEDUP_ID") for each in records] == [None, "a"] + [None] * (count - 1)


def test_only_the_first_message_may_have_an_id(tmp_path: Path) -> None:
    """Goal: a client without the library can neither hide an id in a batch nor forge one."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        one, plain = p.message(b"x", known(b"a")), p.message(b"y")
        for frames, flags in (
            (((tree.topic, [plain, one]),), p.SEND_DEDUP),
            (((tree.topic, [plain]), (tree.topic, [one])), p.SEND_DEDUP),
            (((tree.topic, [one, one]),), p.SEND_DEDUP),
            (((tree.topic, [one, plain]),), 0),
        ):
            before = session.completed
            session.send_atomic(*frames, flags=flags)
            run(handler, writer)
            assert sorted(session.verdict(before + n).code for n in (1, 2)) == [p.RESERVED, p.BATCH_REFUSED]
        assert not tree.records()


def test_what_was_stored_under_the_id_is_another_batch(tmp_path: Path) -> None:
    """Goal: a verdict never names the place of another message. `detail` says how many the first has."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send_atomic((tree.topic, batch(b"a", b"1", b"2")), flags=p.SEND_DEDUP)
        session.send(p.message(b"3", known(b"b")), p.message(b"4", known(b"b")), flags=p.SEND_DEDUP)
        session.send_atomic((tree.topic, batch(b"c", b"5", b"6", b"7")), flags=p.SEND_DEDUP)
        run(handler, writer)
        before = session.completed
        for id_, count in ((b"a", 3), (b"b", 2), (b"c", 2), (b"a", 1)):
            session.send_atomic((tree.topic, batch(id_, *[b"x"] * count)), flags=p.SEND_DEDUP)
        run(handler, writer)
        found = [(each.code, each.detail) for each in session.verdicts()[before:]]
        differs, refused = (lambda stored: (p.BATCH_DIFFERS, stored)), (p.BATCH_REFUSED, 0)
        assert found == [differs(2), refused, refused, differs(1), refused, differs(3), refused, differs(2)]
        assert [bytes(each.body) for each in tree.records()] == [b"1", b"2", b"3", b"5", b"6", b"7"]


def test_no_more_ids_than_the_setting_says(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as tree:
        lib.control_settings(tree.control).dedup_ids = 1
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        for id_ in (b"a", b"b", b"a"):
            session.send_atomic((tree.topic, batch(id_, b"1", b"2")), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert codes(session) == [p.APPENDED] * 2 + [p.DEDUP_FULL, p.BATCH_REFUSED] + [p.DUPLICATE] * 2


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_a_small_write_that_fails_takes_the_batch_its_id_and_its_duplicate_back(tmp_path: Path, whole: int) -> None:
    """Goal: what the disk refuses in the middle counts as never sent, for its duplicates too; the duplicate of an earlier batch
    stays. Method: the kernel writes up to RLIMIT_FSIZE, which ends in the batch."""
    flags = p.SEND_DEDUP | p.SEND_FLUSH
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send_atomic((tree.topic, batch(b"a", b"1", b"2")), flags=flags)
        run(handler, writer)
        parts = [b"part%d" % n for n in range(4)]
        for id_, bodies in ((b"a", [b"1", b"2"]), (b"b", parts), (b"b", parts)):
            session.send_atomic((tree.topic, batch(id_, *bodies)), flags=flags)
        lib.handler_step(handler)
        held = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (tree.wrote + whole * 130 + 10, limits[1]))
        try:
            lib.writer_step(writer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, held)
        assert codes(session) == [p.APPENDED] * 2 + [p.DUPLICATE] * 2 + [p.STORE_FAILED] * 8
        assert [bytes(each.body) for each in tree.records()] == [b"1", b"2"]
        view = ffi.new("struct actor_view *")
        lib.actor_page_view(lib.control_actor(tree.control, 2), view)
        counters = lib.COUNT_MESSAGES, lib.COUNT_REJECTED, lib.COUNT_DUPLICATES, lib.COUNT_BYTES
        assert [view.counter[each] for each in counters] == [2, 8, 2, tree.wrote]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_successors_know_the_ids_of_batches(tmp_path: Path, seed: int) -> None:
    """Method: a model. Batches with few ids, many of them sent again, while handler and writer are replaced between any two
    steps."""
    rng = random.Random(seed)
    with p.pipeline(tmp_path, lane_capacity=64 << 10, message_max=16 << 10, file_size=64 << 10, files=14) as tree:
        handler, session = tree.handler(), tree.session(window=256)
        writer = successor(tree, tree.writer(), NOW_MS)
        known_ids: dict[bytes, int] = {}  # how many messages were sent under each
        sent: list[tuple[bytes, int]] = []
        total = 0
        for _ in range(60):
            id_ = b"%d" % rng.randrange(20)
            count = known_ids.setdefault(id_, rng.choice((1, 2, 3, 10)))
            if total + count <= 256:
                bodies = [id_ + b".%d " % i + bytes(rng.randrange(600)) for i in range(count)]
                session.send_atomic((tree.topic, batch(id_, *bodies)), flags=p.SEND_DEDUP | rng.choice((0, p.SEND_FLUSH)))
                sent.append((id_, count))
                total += count
            for _ in range(rng.randrange(4)):
                deed = rng.randrange(10)
                if deed < 4:
                    lib.handler_step(handler)
                elif deed < 8:
                    lib.writer_step(writer)
                elif deed == 8:
                    handler = tree.handler()
                else:
                    run(handler, writer)
                    writer = successor(tree, writer, NOW_MS)
        run(handler, writer)
        stored = [bytes(each.body).split(b" ")[0] for each in tree.records()]
        firsts = list(dict.fromkeys(sent))
        assert stored == [id_ + b".%d" % i for id_, count in firsts for i in range(count)]
        verdicts, seen = session.verdicts(), dict[bytes, list[tuple[int, int, int, int]]]()
        for id_, count in sent:
            mine, verdicts = verdicts[:count], verdicts[count:]
            assert {each.code for each in mine} == {p.DUPLICATE if id_ in seen else p.APPENDED}
            assert seen.setdefault(id_, places(mine)) == places(mine)
