"""Handler, writer and reput in one loop: none waits for another one that only this loop could step."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.actors.stages import Stages
from orbitmq.native._core import lib
from tests.native import pipeline as p
from tests.waiting import until

ALL: int = lib.STAGES_WRITES | lib.STAGES_READS


class Hosted:
    """The three of them over a pipeline."""

    def __init__(self, tree: p.Pipeline, writer: Any) -> None:
        self.tree = tree
        self.writer = writer
        attachment = tree.tree(8)
        self.handler = lib.handler_open(attachment, 0)
        self.reput = lib.reput_open(tree.tree(1))
        self.loop = lib.stages_open(attachment, self.handler, writer, self.reput)

    @property
    def indexed(self) -> int:
        return int(lib.reput_position(self.reput))

    def run_until(self, condition: Any, ready: int = ALL) -> None:
        until(lambda: lib.stages_run(self.loop, ready, 1) == lib.RUN_TIME and condition(), look_ms=0)


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    with p.pipeline(tmp_path, file_size=256 << 10, message_max=16 << 10, lane_capacity=64 << 10, files=2) as tree:
        yield Hosted(tree, tree.writer())


def test_one_run_takes_a_message_from_its_ring_to_its_queue(hosted: Hosted) -> None:
    session = hosted.tree.session()
    session.send(p.message(b"x"))
    assert lib.stages_run(hosted.loop, ALL, 0) == lib.RUN_TIME
    assert [verdict.code for verdict in session.verdicts()] == [p.APPENDED]
    assert hosted.indexed == hosted.tree.wrote > 0


def test_more_than_the_lane_holds(hosted: Hosted) -> None:
    """Goal: a handler that found no room goes on as soon as the writer has made some. Method: one step after the other."""
    session = hosted.tree.session(window=1024)
    for number in range(30):
        session.send(p.message(b"%d" % number + bytes(6000)))
    while lib.stages_step(hosted.loop):
        pass
    assert [bytes(record.body[:2]).strip(b"\0") for record in hosted.tree.records()] == [b"%d" % n for n in range(30)]
    assert hosted.indexed == hosted.tree.wrote


def test_a_writer_takes_over_while_reput_is_behind(tmp_path: Path) -> None:
    """Goal: the successor's queue offsets go on where those of its predecessor ended, and nobody waits for ever. Method: the
    predecessor dies after a write group that reput has not seen; the new writer is asked, with no time to wait, in turns with
    the loop, which must not step it."""
    with p.pipeline(tmp_path) as tree:
        session, handler, dead = tree.session(), tree.handler(), tree.writer()
        session.send(p.message(b"before"))
        p.run(handler, dead)
        hosted = Hosted(tree, lib.writer_open(tree.tree(2)))
        session.send(p.message(b"behind"))
        assert lib.writer_take_over(hosted.writer, 0) == lib.RUN_TIME
        assert lib.stages_run(hosted.loop, lib.STAGES_READS, 60_000) == lib.RUN_TIME
        assert hosted.indexed == tree.wrote and session.completed == 1
        assert lib.writer_take_over(hosted.writer, 0) == lib.RUN_NEED
        hosted.run_until(lambda: session.completed == 2)
        assert [verdict.queue_offset for verdict in session.verdicts()] == [0, 1]


def test_they_wait_for_the_next_file_and_go_on(tmp_path: Path) -> None:
    """Goal: the allocator's ring ends the sleep. Method: it rings when the loop sleeps in another thread."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10, lane_capacity=64 << 10) as tree:
        hosted, session = Hosted(tree, tree.writer()), tree.session()
        for _ in range(10):
            session.send(p.message(bytes(12000)))

        def run() -> None:
            while session.completed < 10:
                lib.stages_run(hosted.loop, ALL, 1)

        running = threading.Thread(target=run)
        running.start()
        until(lambda: session.completed == 5)
        tree.allocate()
        running.join()
        hosted.run_until(lambda: hosted.indexed == tree.wrote)
        assert {verdict.code for verdict in session.verdicts()} == {p.APPENDED}


def test_reput_gives_up_and_the_others_say_so(hosted: Hosted) -> None:
    """Method: a record is damaged between the writer and reput."""
    session = hosted.tree.session()
    session.send(p.message(b"x"))
    p.run(hosted.handler, hosted.writer)
    with hosted.tree.layout.log_file(0).open("r+b") as log:
        log.seek(4)
        log.write(b"XXXX")
    assert lib.stages_run(hosted.loop, ALL, 60_000) == lib.RUN_FAILED
    for sequence in (2, 3):  # the writer looks between two groups
        session.send(p.message(b"more"))
        hosted.run_until(lambda sequence=sequence: session.completed == sequence)
    refused = session.verdict(3)
    assert (refused.code, refused.detail, hosted.indexed) == (p.STORE_FAILED, errno.EBADMSG, 0)


def test_reput_asks_and_the_others_go_on(hosted: Hosted) -> None:
    """Goal: a coordinator that hangs does not hold sends up. Method: the log gets a topic that the table does not know; while
    the question has no answer, a message is stored."""
    session, answered = hosted.tree.session(), threading.Event()

    def ask() -> None:
        answered.wait()
        lib.reput_pass(hosted.reput)

    stages = object.__new__(Stages)
    stages._writer = SimpleNamespace(owns_log=True)  # type: ignore[assignment]
    stages._reput = SimpleNamespace(need=ask, bury=lambda: None)  # type: ignore[assignment]
    stages._loop, stages._asking = hosted.loop, None
    session.send(p.message(b"x"))
    p.run(hosted.handler, hosted.writer)
    path = hosted.tree.layout.log_file(0)
    content = path.read_bytes()
    with path.open("r+b") as log:
        log.seek(content.index(b"\x01T"))
        log.write(b"\x01U")
    try:
        until(lambda: stages.run(1) or stages._asking is not None, look_ms=0)
        session.send(p.message(b"while it asks"))
        until(lambda: stages.run(1) or session.completed == 2, look_ms=0)
        assert hosted.indexed == 0
    finally:
        answered.set()
    until(lambda: stages.run(1) or hosted.indexed == hosted.tree.wrote, look_ms=0)
