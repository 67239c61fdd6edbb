"""The writer and messages with an id, a step at a time. The model that kills and cuts the power is tests/power/machine.py."""

from __future__ import annotations

import errno
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import lib
from tests.native import pipeline as p
from tests.native.pipeline import run


def known(id_: bytes, rest: bytes = b"") -> bytes:
    return b"DEDUP_ID\x01" + id_ + b"\x02" + rest


def codes(session: p.Session) -> list[int]:
    return [verdict.code for verdict in session.verdicts()]


@pytest.mark.parametrize("flags", [p.SEND_DEDUP, p.SEND_DEDUP | p.SEND_FLUSH], ids=["mapped", "small"])
def test_the_second_of_an_id_is_the_first(tmp_path: Path, flags: int) -> None:
    """In one write group and in the next; a small write is still in memory when the second one is compared."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(*(p.message(body, known(b"a"), queue) for queue, body in enumerate((b"one", b"two"))), flags=flags)
        run(handler, writer)
        session.send(p.message(b"three", known(b"a"), 2), p.message(b"four", known(b"b"), 2), flags=flags)
        run(handler, writer)
        assert codes(session) == [p.APPENDED, p.DUPLICATE, p.DUPLICATE, p.APPENDED]
        first, second, third, _ = session.verdicts()
        for each in (second, third):
            assert (each.physical_offset, each.queue_offset, each.size, each.queue_id) == (0, 0, first.size, 0)
        assert [bytes(record.body) for record in tree.records()] == [b"one", b"four"]


def test_a_write_that_fails_takes_its_ids_and_its_duplicates_back(tmp_path: Path) -> None:
    """Method: a limit on the size of files lets one record of the group's write through. The one that is a duplicate of what is
    taken back is refused too; the one that is a duplicate of what stays is not."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        flags = p.SEND_DEDUP | p.SEND_FLUSH
        session.send(p.message(b"opens", known(b"a")), flags=flags)
        run(handler, writer)
        size = session.verdict(1).size
        held = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * size, limits[1]))
        try:
            ids = (b"b", b"a", b"c", b"c", b"b")
            session.send(*(p.message(b"%5d" % n, known(id_)) for n, id_ in enumerate(ids)), flags=flags)
            run(handler, writer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, held)
        failed = p.STORE_FAILED
        assert codes(session)[:5] == [p.APPENDED, p.APPENDED, p.DUPLICATE, failed, failed]
        assert [bytes(record.body) for record in tree.records()] == [b"opens", b"    0"]


def test_no_more_ids_than_the_setting_says(tmp_path: Path) -> None:
    """Goal: the message is refused, with the limit, and known ids are still known; it is never stored without its promise."""
    with p.pipeline(tmp_path) as tree:
        lib.control_settings(tree.control).dedup_ids = 3
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(*(p.message(b"x", known(b"%d" % (n % 4))) for n in range(5)), flags=p.SEND_DEDUP)
        session.send(p.message(b"without"))
        run(handler, writer)
        assert codes(session) == [p.APPENDED] * 3 + [p.DEDUP_FULL, p.DUPLICATE, p.APPENDED]
        assert session.verdict(4).detail == 3


@pytest.mark.parametrize(
    ("properties", "flags", "code"),
    [
        (known(b"a"), 0, p.RESERVED),
        (b"", p.SEND_DEDUP, p.RESERVED),
        (b"KEYS\x01k\x02" + known(b"a"), p.SEND_DEDUP, p.RESERVED),
        (known(b""), p.SEND_DEDUP, p.RESERVED),
        (known(b"x" * 256), p.SEND_DEDUP, p.RESERVED),
        (known(b"x" * 30_000), p.SEND_DEDUP, p.RESERVED),
        (known(b"a") + known(b"b"), p.SEND_DEDUP, p.RESERVED),
        (known(b"a", b"DELAY\x011\x02"), p.SEND_DEDUP, p.RESERVED),
        (known(b"x" * 255), p.SEND_DEDUP, p.APPENDED),
        (b"DEDUP_ID\x01a", p.SEND_DEDUP, p.APPENDED),
        (known(b"\x01\xff\x00", b"color\x01red\x02"), p.SEND_DEDUP, p.APPENDED),
    ],
)
def test_a_client_without_the_library(tmp_path: Path, properties: bytes, flags: int, code: int) -> None:
    """Goal: a record either has an id that the writer has looked at, or none. Method: raw frames, sent twice."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(*[p.message(b"x", properties)] * 2, flags=flags)
        run(handler, writer)
        again = p.DUPLICATE if code == p.APPENDED else code
        assert codes(session) == [code, again]


def successor(tree: p.Pipeline, writer: Any, now_ms: int) -> Any:
    """Another writer over the same log, at a time. Nothing is in the lanes."""
    lib.writer_close(writer)
    lib.control_recovered(tree.control, 0, tree.wrote, tree.wrote, 0, tree.files * tree.file_size, now_ms)
    fresh = lib.writer_open(tree.tree(2))
    while (result := lib.writer_take_over(fresh, 1000)) == lib.RUN_TIME:
        pass
    assert result == lib.RUN_NEED
    return fresh


NOW_MS = 4_000_000_000_000  # later than any clock: store times never go back, so this is the time of the next writer


def test_a_successor_knows_the_ids_of_the_window(tmp_path: Path) -> None:
    """Goal: to the millisecond, over several files, with room for fewer than there are. Method: each life of the writer has a
    time of its own."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10, files=12) as tree:
        handler, session = tree.handler(), tree.session(window=1024)
        writer = tree.writer()
        for life in range(6):
            writer = successor(tree, writer, NOW_MS + life * 40_000)
            # the applied positions of a new life are zero: so is its lane
            session.send(*(p.message(bytes(9000), known(b"%d-%d" % (life, n))) for n in range(8)), flags=p.SEND_DEDUP)
            run(handler, writer)
        assert set(codes(session)) == {p.APPENDED}
        before = session.completed
        lib.control_settings(tree.control).dedup_ids = 4  # what is known is not forgotten; what is new is refused
        writer = successor(tree, writer, NOW_MS + 239_999)
        session.send(*(p.message(b"x", known(b"%d-%d" % (life, 7))) for life in (3, 4, 5)), flags=p.SEND_DEDUP)
        session.send(p.message(b"x", known(b"new")), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert codes(session)[before:] == [p.DUPLICATE] * 3 + [p.DEDUP_FULL]
        writer = successor(tree, writer, NOW_MS + 240_000)
        lib.control_settings(tree.control).dedup_ids = 1000
        session.send(*(p.message(b"x", known(b"%d-%d" % (life, 7))) for life in (3, 4)), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert codes(session)[before + 4 :] == [p.APPENDED, p.DUPLICATE]


def test_a_store_without_ids_is_not_read(tmp_path: Path) -> None:
    """Goal: a start costs nothing for those who use no ids. Method: without the file that says so, nobody looks for ids."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        assert not (tree.layout.own / "dedup").exists()
        session.send(p.message(b"x", known(b"a")), flags=p.SEND_DEDUP)
        run(handler, writer)
        marker = tree.layout.own / "dedup"
        marker.unlink()
        writer = successor(tree, writer, NOW_MS)
        session.send(p.message(b"x", known(b"a")), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert codes(session) == [p.APPENDED] * 2
        assert marker.exists()


def test_an_id_is_refused_if_its_promise_cannot_be_kept(tmp_path: Path) -> None:
    """Method: the file that makes a successor look for ids cannot be made, because a folder has its name."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        (tree.layout.own / "dedup").mkdir()
        session.send(p.message(b"x", known(b"a")), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert [(each.code, each.detail) for each in session.verdicts()] == [(p.STORE_FAILED, errno.EISDIR)]
        (tree.layout.own / "dedup").rmdir()
        session.send(p.message(b"x", known(b"a")), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert session.verdict(2).code == p.APPENDED


def test_what_a_named_producer_cannot_send_again_is_forgotten(tmp_path: Path) -> None:
    """Goal: of the ids that a producer has numbered, as many are known as its window holds, by a successor too; those of
    programs, and of other producers, are not touched. They never fill the table. Method: two producers with windows of 4 and 8
    messages, and a program, in turn."""
    with p.pipeline(tmp_path) as tree:
        lib.control_settings(tree.control).dedup_ids = 40
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        writer = successor(tree, writer, NOW_MS)
        few, more = b"\x03Cshop:ab:%d", b"\x03Dshop:ab:%d"
        for n in range(100):
            ids = [few % n, more % n, *([b"order-%d" % n] if n < 20 else [])]
            session.send(*(p.message(b"x", known(id_)) for id_ in ids), flags=p.SEND_DEDUP)
            run(handler, writer)
        assert set(codes(session)) == {p.APPENDED}
        for _ in range(2):
            before = session.completed
            again = [few % n for n in range(96, 100)] + [more % n for n in range(92, 100)]
            again += [b"order-%d" % n for n in range(20)]
            session.send(*(p.message(b"x", known(id_)) for id_ in again), flags=p.SEND_DEDUP)
            run(handler, writer)
            assert codes(session)[before:] == [p.DUPLICATE] * len(again)
            writer = successor(tree, writer, NOW_MS)
        before = session.completed
        session.send(*(p.message(b"x", known(id_)) for id_ in (few % 95, more % 91)), flags=p.SEND_DEDUP)
        run(handler, writer)
        assert codes(session)[before:] == [p.APPENDED] * 2
