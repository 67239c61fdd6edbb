"""The CommitLog writer, a step at a time: ends of files, disks without room, and what a successor finds."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import signal
import struct
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p
from tests.native.pipeline import run
from tests.waiting import until

FREE, READY, CLOSING, DRAINED, FAULTY, LOST = range(6)
# Values in shared memory that only a kill at the right instruction would leave so: native/shared/session.h,
# native/shared/lane.h.
SESSION_COMPLETED_AT = 192
LANE_HEAD_AT = 256


def test_a_record_that_does_not_fit_begins_the_next_file(tmp_path: Path) -> None:
    """Method: files of 64 KiB, bodies of seeded sizes; `records` checks each blank marker's length."""
    rng = random.Random(9)
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10, files=8) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        bodies = [rng.randbytes(rng.randrange(100, 9000)) for _ in range(60)]
        for body in bodies:
            session.send(p.message(body))
        run(handler, writer)
        records = tree.records()
        assert [bytes(record.body) for record in records] == bodies
        assert tree.wrote > 2 * (64 << 10)
        for record in records:
            assert record.physical_offset % (64 << 10) + record.size + 8 <= 64 << 10


def test_it_waits_for_the_next_file_and_goes_on(tmp_path: Path) -> None:
    """Goal: a missing file gives no verdict yet; the file's arrival is enough."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        for _ in range(10):
            session.send(p.message(bytes(12000)))
        run(handler, writer)
        assert session.completed == 5
        tree.allocate()
        run(handler, writer)
        assert session.completed == 10
        assert {verdict.code for verdict in session.verdicts()} == {p.APPENDED}


def test_a_full_disk_is_an_answer_and_passes(tmp_path: Path) -> None:
    """Goal: while no file can be made each send is refused with the errno; when one is there, sends succeed again."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        for _ in range(8):
            session.send(p.message(bytes(12000)))
        lib.control_set_allocated(tree.control, 64 << 10, errno.ENOSPC)
        run(handler, writer)
        codes = [(verdict.code, verdict.detail) for verdict in session.verdicts()]
        assert codes == [(p.APPENDED, 0)] * 5 + [(p.STORE_FULL, errno.ENOSPC)] * 3
        tree.allocate()
        session.send(p.message(bytes(12000)))
        run(handler, writer)
        assert session.verdict(9).code == p.APPENDED
        assert len(tree.records()) == 6


def test_store_timestamps_never_go_back(tmp_path: Path) -> None:
    """Method: a commit record from the future, as a clock that was set back leaves it."""
    future = 4_000_000_000_000
    with p.pipeline(tmp_path) as tree:
        lib.control_recovered(tree.control, 0, 0, 0, 0, tree.file_size, future)
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"x"), p.message(b"y"))
        run(handler, writer)
        assert [record.store_ms for record in tree.records()] == [future, future]


def test_a_successor_zeroes_what_was_not_committed(tmp_path: Path) -> None:
    """Goal: bytes of a write group that never happened cannot come back in a later recovery."""
    with p.pipeline(tmp_path, files=2) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"kept"))
        run(handler, writer)
        end = tree.wrote
        path = tree.layout.log_file(0)
        with path.open("r+b") as file:
            file.seek(end)
            file.write(b"\xda" * 70_000)
        # reput has not indexed `kept` yet, so the takeover does not end; the zeroing comes first.
        successor = lib.writer_open(tree.tree(2))
        assert lib.writer_take_over(successor, 1) == 0
        content = path.read_bytes()
        assert content[end:] == bytes(len(content) - end)
        assert len(tree.records()) == 1


def test_a_successor_zeroes_every_file_that_a_group_may_have_filled(tmp_path: Path) -> None:
    """Method: files far smaller than a write group, all of them full of what was not committed."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10, files=4) as tree:
        for n in range(4):
            tree.layout.log_file(n << 16).write_bytes(b"\xda" * (64 << 10))
        writer = tree.writer()
        assert tree.log() == bytes(256 << 10)
        assert lib.writer_step(writer) == 0


def test_a_client_is_told_when_the_writer_died_between_its_two_counts(tmp_path: Path) -> None:
    """Goal: a writer killed after it counted its verdicts for the broker, and before it did for the client, leaves nobody
    waiting.

    Method: the session's count and the lane's head are put back to where they were at that instruction."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(*(p.message(b"%d" % n) for n in range(3)))
        run(handler, writer)
        session.memory[SESSION_COMPLETED_AT : SESSION_COMPLETED_AT + 8] = bytes(8)
        lane = ffi.buffer(ffi.cast("char *", tree.lane), LANE_HEAD_AT + 8)
        assert struct.unpack_from("=Q", lane, LANE_HEAD_AT)[0] > 0
        lane[LANE_HEAD_AT : LANE_HEAD_AT + 8] = bytes(8)
        assert session.completed == 0
        successor = lib.writer_open(tree.tree(2))
        assert lib.writer_take_over(successor, 1) == 0
        assert [verdict.code for verdict in session.verdicts()] == [p.APPENDED] * 3
        assert len(tree.records()) == 3


def test_a_stream_leaves_the_lane_to_its_handler(tmp_path: Path) -> None:
    """Goal: of a group that is not small the writer only reads the lane, so that its lines need not come back from another
    processor. Sessions that take turns in it get all of their verdicts, refusals included."""
    with p.pipeline(tmp_path) as tree:
        handler, writer = tree.handler(), tree.writer()
        sessions = [tree.session(slot=slot, window=512) for slot in (0, 1, 65)]
        for n in range(300):
            sessions[n % 3].send(p.message(b"%d" % n, queue=4 if n % 7 == 0 else n % 4))
        while lib.handler_step(handler):
            pass
        lane = ffi.buffer(ffi.cast("char *", tree.lane), lib.lane_size_of(1 << 20))[LANE_HEAD_AT + 8 :]
        assert len(lane.rstrip(b"\0")) > 32 << 10, "not a small group"
        assert lib.writer_step(writer) == 300
        assert ffi.buffer(ffi.cast("char *", tree.lane), lib.lane_size_of(1 << 20))[LANE_HEAD_AT + 8 :] == lane
        for k, session in enumerate(sessions):
            wanted = [p.UNKNOWN_QUEUE if n % 7 == 0 else p.APPENDED for n in range(k, 300, 3)]
            assert [verdict.code for verdict in session.verdicts()] == wanted
        places = {v.physical_offset: v.queue_offset for s in sessions for v in s.verdicts() if v.code == p.APPENDED}
        assert places == {record.physical_offset: record.queue_offset for record in tree.records()}


def test_verdicts_of_a_slots_last_session_do_not_count_for_its_next(tmp_path: Path) -> None:
    """Goal: what a closed session left in the lane is stored, and the next session in the same slot starts at nothing.

    Method: the writer still has the first session mapped when the second opens."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, first = tree.handler(), tree.writer(), tree.session()
        first.send(p.message(b"delivered"))
        run(handler, writer)
        first.send(*(p.message(b"last %d" % n) for n in range(3)))
        lib.handler_step(handler)
        lib.session_set_state(tree.control, 0, FREE)
        second = tree.session(epoch=2)
        lib.writer_step(writer)
        assert (first.completed, second.completed) == (1, 0)
        second.send(p.message(b"fresh"))
        run(handler, writer)
        assert [verdict.code for verdict in second.verdicts()] == [p.APPENDED]
        assert [bytes(record.body) for record in tree.records()][-1] == b"fresh"


def test_a_session_that_cannot_be_answered_is_given_up(tmp_path: Path) -> None:
    """Goal: if the writer cannot map a session, its client learns that it is lost instead of waiting for ever."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"x"))
        assert lib.handler_step(handler) == 1
        os.close(session.descriptor)
        assert lib.writer_step(writer) == 1
        assert session.state == LOST, "its slot is the handler's to give back"
        run(handler, writer)
        assert session.state == FAULTY
        assert len(tree.records()) == 1


def test_what_the_writer_could_not_answer_is_not_taken_twice(tmp_path: Path) -> None:
    """Goal: a closing session's message is stored once, though the writer could not map the session, and the handler was killed
    after it had published the message and before it noted that.

    Method: what a kill at that instruction leaves: control block and session as they were before the step."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"once"))
        lib.session_set_state(tree.control, 0, CLOSING)
        control = ffi.buffer(tree.control, ffi.sizeof("struct control"))
        before = bytes(control), session.memory[:]
        assert lib.handler_step(handler) == 1
        control[:], session.memory[:] = before
        kept = os.dup(session.descriptor)
        os.close(session.descriptor)
        assert lib.writer_step(writer) == 1
        os.dup2(kept, session.descriptor)
        os.close(kept)
        run(tree.handler(), writer)
        assert [bytes(record.body) for record in tree.records()] == [b"once"]
        assert session.state == DRAINED


def test_a_session_that_is_gone_is_let_go_by_a_writer_that_never_sleeps(tmp_path: Path) -> None:
    """Goal: the memory of a session that has ended is free soon, not when the writer has nothing to do for as long as it spins.

    Method: a writer that spins for longer than it is run."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        lib.control_settings(tree.control).spin_us = 2**32 - 1
        session.send(p.message(b"x"))
        lib.handler_step(handler)

        def mapped() -> int:
            view = ffi.new("struct actor_view *")
            lib.actor_page_view(lib.control_actor(tree.control, 2), view)
            return int(view.counter[lib.COUNT_SESSIONS])

        lib.writer_run(writer, 1)
        assert (session.completed, mapped()) == (1, 1)
        lib.session_set_state(tree.control, 0, FREE)
        lib.writer_run(writer, 1)
        assert mapped() == 0


def test_flush_moves_only_the_flushed_position(tmp_path: Path) -> None:
    """Goal: a step syncs up to the wrote position, over a file's end too."""
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=16 << 10, files=4) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        flush = lib.flush_open(tree.tree(3))
        for _ in range(12):
            session.send(p.message(bytes(12000)))
        run(handler, writer)
        seen = ffi.new("struct positions_seen *")
        assert lib.flush_step(flush) == tree.wrote
        lib.control_positions(tree.control, seen)
        assert seen.flushed == seen.wrote == tree.wrote
        assert lib.flush_step(flush) == 0


@pytest.mark.parametrize("go_on", [False, True])
def test_a_sync_that_fails_is_not_tried_again(tmp_path: Path, go_on: bool) -> None:
    """Method: the file to be synced is gone. The position stays, the error persists, and everything is refused that was not
    sent before; if the operator chose to go on, only what waits for the disk."""
    with p.pipeline(tmp_path, go_on_unsynced=go_on) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        flush = lib.flush_open(tree.tree(3))
        session.send(p.message(b"x"))
        run(handler, writer)
        path = tree.layout.log_file(0)
        hidden = path.with_suffix(".away")
        path.rename(hidden)
        assert lib.flush_step(flush) == 0
        hidden.rename(path)
        assert lib.flush_step(flush) == 0
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(tree.control, seen)
        assert (seen.flushed, seen.flushed_error) == (0, errno.ENOENT)
        session.send(p.message(b"durable"), flags=p.SEND_FLUSH)
        session.send(p.message(b"appended"))
        run(handler, writer)
        assert [verdict.code for verdict in session.verdicts()] == [
            p.APPENDED,
            p.SYNC_FAILED,
            p.APPENDED if go_on else p.SYNC_FAILED,
        ]
        # A successor knows it too.
        again = lib.flush_open(tree.tree(3))
        assert lib.flush_step(again) == 0


class Killed:
    """A flush service that is killed in the middle of a sync: the test holds a lease on the log file, for whose end the sync
    waits."""

    def __init__(self, tree: p.Pipeline) -> None:
        asked: list[int] = []
        # Not blocked and waited for: the kernel may give the signal to any thread of this process, which would end it.
        before = signal.signal(signal.SIGIO, lambda number, _frame: asked.append(number))
        descriptor = os.open(tree.layout.log_file(0), os.O_RDWR)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        pid = os.fork()
        if pid == 0:
            lib.flush_step(lib.flush_open(tree.tree(3)))
            os._exit(0)
        until(lambda: asked, "somebody to open the file")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_successor_writes_again_what_may_not_be_on_disk(tmp_path: Path, dropped: bool) -> None:
    """Goal: a flush service that finds its predecessor dead in a sync writes all of it again, because that sync may have
    failed; and if memory has lost it in the meantime, it says so. Method: written bytes are counted; the test zeroes what was
    lost."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        for _ in range(5):
            session.send(p.message(b"x" * 9000))
        run(handler, writer)
        lib.writer_close(writer)
        Killed(tree)
        if dropped:
            with tree.layout.log_file(0).open("r+b") as file:
                file.seek(20_000)
                file.write(bytes(4096))
        before = _written()
        flush = lib.flush_open(tree.tree(3))
        done = lib.flush_step(flush)
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(tree.control, seen)
        assert tree.wrote <= _written() - before <= tree.wrote + 4096
        assert (done, seen.flushed_error) == ((0, errno.EIO) if dropped else (tree.wrote, 0))
        if not dropped:  # what comes after is synced as usual
            before = _written()
            assert lib.flush_step(lib.flush_open(tree.tree(3))) == 0 and _written() == before


def test_a_store_that_is_only_read_is_not_zeroed(tmp_path: Path) -> None:
    """What lies behind the end of a damaged log is there to be repaired; a writer leaves it alone."""
    with p.pipeline(tmp_path, read_only=True) as tree:
        with tree.layout.log_file(0).open("r+b") as file:
            file.seek(1000)
            file.write(b"to be repaired")
        assert lib.writer_left_over(lib.writer_open(tree.tree(2))) == 0
        tree.writer()
        assert b"to be repaired" in tree.log()


def _written() -> int:
    """Bytes that this process has passed to write() and its like."""
    return int(next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("wchar:")).split()[1])


def test_a_few_records_that_wait_for_the_disk_go_there_by_system_call(tmp_path: Path) -> None:
    """Goal: the sync of these records writes no more than they are. Method: the bytes that this process passed to write()."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        sent = []
        for flags in (0, p.SEND_FLUSH, 0):
            bodies = [b"%d %d" % (flags, number) for number in range(5)]
            session.send(*map(p.message, bodies), flags=flags)
            before, start = _written(), tree.wrote
            run(handler, writer)
            assert _written() - before >= (tree.wrote - start if flags else 0)
            if not flags:
                assert _written() - before < tree.wrote - start
            sent += bodies
        assert [bytes(record.body) for record in tree.records()] == sent


def test_a_group_of_both_kinds_keeps_its_order(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=256)
        bodies = [b"%d" % number for number in range(100)]  # of either kind more than the parts of one system call
        for number, body in enumerate(bodies):
            session.send(p.message(body), flags=p.SEND_FLUSH if number % 4 else 0)
        run(handler, writer)
        assert [bytes(record.body) for record in tree.records()] == bodies


def test_many_records_do_not(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        bodies = [b"%d" % number + bytes(2000) for number in range(20)]
        session.send(*map(p.message, bodies), flags=p.SEND_FLUSH)
        before = _written()
        run(handler, writer)
        assert _written() - before < 20_000
        assert [bytes(record.body) for record in tree.records()] == bodies


def test_the_mapping_serves_where_the_system_call_fails(tmp_path: Path) -> None:
    """Method: the descriptor that the writer has opened to write is closed behind its back."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"opens the file"))
        run(handler, writer)
        log = str(tree.layout.log_file(0))
        (descriptor,) = [int(link.name) for link in Path("/proc/self/fd").iterdir() if os.path.realpath(link) == log]
        os.close(descriptor)
        session.send(p.message(b"lands"), p.message(b"as well"), flags=p.SEND_FLUSH)
        run(handler, writer)
        assert [bytes(record.body) for record in tree.records()] == [b"opens the file", b"lands", b"as well"]


@pytest.mark.parametrize("torn", [0, 1, 100])
@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_small_write_that_fails_is_refused(tmp_path: Path, whole: int, torn: int) -> None:
    """Goal: what the disk does not accept is neither in the log nor in a receipt, and is not tried through the mapping, where
    it would be a SIGBUS; what is whole before it stays. Method: the kernel writes up to RLIMIT_FSIZE and refuses the rest; the
    limit is `torn` bytes behind so many of the three records that wait for the disk. One write group has them, one record
    before that does not wait, and one after."""
    with p.pipeline(tmp_path) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(p.message(b"opens"), flags=p.SEND_FLUSH)
        run(handler, writer)
        size = tree.wrote  # of each record: the bodies are equally long
        bodies = [b"plain", b"one..", b"two..", b"three", b"late."]
        for body in bodies:
            session.send(p.message(body), flags=p.SEND_FLUSH if body[-1:] in b".e" and body != b"late." else 0)
        session.send(p.message(b"refused", queue=4))
        lib.handler_step(handler)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((2 + whole) * size + torn, limits[1]))
        try:
            assert lib.writer_step(writer) == len(bodies) + 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        kept = 2 + whole
        assert [bytes(record.body) for record in tree.records()] == [b"opens", *bodies][:kept]
        assert not tree.log()[tree.wrote + torn :].strip(b"\0")
        *verdicts, refused = session.verdicts()
        assert refused.code == p.UNKNOWN_QUEUE
        assert [verdict.code for verdict in verdicts] == [p.APPENDED] * kept + [p.STORE_FAILED] * (6 - kept)
        assert [verdict.queue_offset for verdict in verdicts[:kept]] == list(range(kept))
        assert {verdict.detail for verdict in verdicts[kept:]} == {errno.EFBIG}
        # A successor knows it too, and the begun record is gone. (It continues to look for reput, which is not there.)
        session.send(p.message(b"again"))
        successor = lib.writer_open(tree.tree(2))
        assert lib.writer_take_over(successor, 1) == lib.RUN_TIME
        run(handler, successor)
        assert session.verdicts()[-1].code == p.STORE_FAILED
        assert not tree.log()[tree.wrote :].strip(b"\0")
