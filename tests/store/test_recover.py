"""Of store/recovery/recover.py and store/recovery/log_cut.py.

Goal: after any end of the last life, the store holds every good record, no other byte, and everything else agrees with it.

Method: composed stores. Every combination of signs is crossed with every kind of tail that a crash can leave; then only the log
is checked. Recovery is interrupted at each of its changes and started again. Queues and index are in test_recovery_queues.py
and test_recovery_index.py, and everything that can be found together in test_recovery_table.py.
"""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.native._core import lib
from orbitmq.store import abort, config, positions, unsynced
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import encode
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery import log_rewrite
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.recovery.table import ENDINGS, PLANS, Ending, Mark, Signs, ending
from tests.store.log_builder import FILE_SIZE, LogBuilder
from tests.store.queue_builder import UNITS, index_queues, write_index
from tests.store.recovery_rig import SETTINGS, run, set_reput, snapshot

ALL_SIGNS: list[Signs] = list(itertools.product((False, True), Mark, (False, True)))


def set_signs(log: LogBuilder, signs: Signs, flushed: int, wrote: int, monkeypatch: pytest.MonkeyPatch) -> None:
    has_abort, mark, _ = signs
    if has_abort:
        log.layout.abort.touch()
    if mark is not Mark.NONE:
        boot = positions.boot_id()
        if mark is Mark.OTHER_BOOT:
            monkeypatch.setattr(positions, "boot_id", lambda: b"0123456789abcdef")
        record = Positions(log.layout)
        if mark is Mark.CLEAN:
            record.record_stop(wrote, 1)
        else:
            record.record(flushed, 1)
        record.close()
        monkeypatch.setattr(positions, "boot_id", lambda: boot)


def no_tail(log: LogBuilder) -> None:
    """Nothing behind the end."""


def torn_record(log: LogBuilder) -> None:
    """The writer died while it copied."""
    log.spoil(log.end, encode("T", b"x" * 500, physical_offset=log.end, store_ms=5)[:300])


def stale_records(log: LogBuilder) -> None:
    """A hole where a page did not reach the disk, and whole records behind it, in their right places."""
    log.spoil(log.end + 4096, encode("T", b"old", physical_offset=log.end + 4096, store_ms=5))


def garbage_file(log: LogBuilder) -> None:
    """The next file holds something, the one after it is fresh."""
    start = log.end - log.end % FILE_SIZE + FILE_SIZE
    log.spoil(start, encode("T", b"old", physical_offset=start, store_ms=5))
    mapped_file.allocate(log.layout, start + FILE_SIZE, FILE_SIZE)


def spare_files(log: LogBuilder) -> None:
    """More fresh files than any broker keeps ready."""
    start = log.end - log.end % FILE_SIZE
    for number in range(1, 5):
        mapped_file.allocate(log.layout, start + number * FILE_SIZE, FILE_SIZE)


TAILS = (no_tail, torn_record, stale_records, garbage_file, spare_files)


def test_the_tables_are_complete() -> None:
    assert set(ENDINGS) == set(ALL_SIGNS)
    assert set(PLANS) == set(Ending) - {Ending.EMPTY}
    for signs in ALL_SIGNS:
        assert ending(signs, has_log=False) is Ending.EMPTY


@pytest.mark.parametrize("tail", TAILS, ids=lambda tail: tail.__name__)
@pytest.mark.parametrize("signs", ALL_SIGNS, ids=lambda signs: f"{signs[0]}-{signs[1].name}-{signs[2]}")
def test_every_ending_with_every_tail(
    log: LogBuilder,
    signs: Signs,
    tail: Callable[[LogBuilder], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the signs say, the end is after the last good record, only zeros follow, and what is on disk is recorded."""
    log.fill(3 * FILE_SIZE + 9000)
    middle = log.written[-20].offset
    index_queues(log, log.written[:-20])
    set_reput(log, middle if signs[2] else None)
    set_signs(log, signs, middle, log.end, monkeypatch)
    tail(log)
    report = run(log.layout)
    assert report.ending is ENDINGS[signs]
    assert (report.begin, report.end, report.flushed) == (0, log.end, log.end)
    assert not report.read_only and report.damage is None
    assert report.reput <= middle and any(report.reput == record.offset for record in log.written)
    assert {(state.topic, state.queue): state.next_offset for state in report.queues} == dict(log.next_offsets)
    assert (len(report.cuts) == 1) == (tail in (torn_record, stale_records, garbage_file))
    starts = mapped_file.list_starts(log.layout, FILE_SIZE)
    assert starts == list(range(0, report.allocated, FILE_SIZE)) and report.allocated - report.end < 3 * FILE_SIZE
    rest = b"".join(log.layout.log_file(start).read_bytes() for start in starts)[report.end :]
    assert not rest.strip(b"\0")
    for cut in report.cuts:
        assert cut.path is not None and Path(cut.path).read_bytes().strip(b"\0")
    recorded = positions.load(log.layout)
    assert recorded is not None and (recorded.flushed, recorded.clean) == (log.end, False)
    assert abort.exists(log.layout)
    # What it left is what it finds.
    again = run(log.layout)
    assert (again.end, again.cuts, again.queues) == (report.end, (), report.queues)
    assert again.lines()


@pytest.mark.parametrize("signs", [signs for signs in ALL_SIGNS if signs[1] is not Mark.NONE], ids=str)
@pytest.mark.parametrize("spoilt", [b"\x01", None])
def test_what_was_on_disk_is_never_cut(
    log: LogBuilder,
    signs: Signs,
    spoilt: bytes | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A damaged byte, or zeros, below the flushed position: the store opens for reading only and not a byte of it changes."""
    log.fill(2 * FILE_SIZE)
    bad = log.written[-5]
    log.spoil(bad.offset + 90 if spoilt else bad.offset, spoilt or bytes(bad.size))
    index_queues(log)
    set_reput(log, log.written[-30].offset if signs[2] else None)
    set_signs(log, signs, log.end, log.written[-30].offset, monkeypatch)
    if signs[1] is Mark.CLEAN:
        # A clean mark whose end lies beyond the damage.
        record = Positions(log.layout)
        record.record_stop(log.end, 1)
        record.close()
    before = snapshot(log.layout.root)
    report = run(log.layout)
    if ENDINGS[signs] is Ending.STOPPED:
        assert report.damage is None or report.damage.offset == bad.offset
    assert report.read_only and report.damage is not None
    assert report.damage.offset == bad.offset == report.end
    assert report.reput <= bad.offset
    assert snapshot(log.layout.root) == before
    assert any("damaged" in line for line in report.lines())


def test_a_file_that_is_gone_below_the_flushed_position(log: LogBuilder) -> None:
    log.fill(2 * FILE_SIZE + 100)
    record = Positions(log.layout)
    record.record(log.end, 1)
    log.layout.log_file(2 * FILE_SIZE).unlink()
    report = run(log.layout)
    assert report.read_only and report.damage is not None and report.damage.offset == 2 * FILE_SIZE


def test_a_log_that_is_gone(log: LogBuilder) -> None:
    log.append()
    Positions(log.layout).record(log.end, 1)
    log.layout.log_file(0).unlink()
    with pytest.raises(CorruptRecord):
        run(log.layout)


def test_an_empty_store(log: LogBuilder) -> None:
    for _ in range(2):
        report = run(log.layout)
        assert report.ending is Ending.EMPTY
        assert (report.begin, report.end, report.reput, report.allocated, report.queues) == (0, 0, 0, 0, ())
    assert abort.exists(log.layout)


def test_a_store_that_rocketmq_stopped(log: LogBuilder) -> None:
    """No orbitmq/ folder: reading starts at the third file from the end, and the queues say where indexing continues."""
    log.fill(5 * FILE_SIZE)
    index_queues(log)
    write_index(log.layout, "20240101000000000", log.written[0], log.written[-1])
    report = run(log.layout)
    assert report.ending is Ending.OTHER_STOPPED
    assert report.scanned_from == 3 * FILE_SIZE
    assert (report.end, report.reput, report.removed_index_files) == (log.end, log.end, ())
    assert report.last_store_ms == log.written[-1].store_ms


@pytest.mark.parametrize("boot", ["this", "another"])
def test_a_start_that_got_no_further_than_abort(log: LogBuilder, monkeypatch: pytest.MonkeyPatch, boot: str) -> None:
    """Only `abort` says that it began; the last life's clean end counts, not another program's death."""
    log.fill(5 * FILE_SIZE)
    index_queues(log)
    set_reput(log, log.end)
    set_signs(log, (False, Mark.CLEAN, True), log.end, log.end, monkeypatch)
    abort.create(log.layout)
    if boot == "another":
        monkeypatch.setattr(positions, "boot_id", lambda: b"0123456789abcdef")
    report = run(log.layout)
    assert report.ending is (Ending.KILLED if boot == "this" else Ending.POWER_CUT)
    assert (report.scanned_from, report.end) == (log.end if boot == "this" else 0, log.end)


def test_an_abort_of_another_program_stays_its_own(log: LogBuilder) -> None:
    """If a start dies while it repairs what another left, that does not make it look like OrbitMQ's."""
    log.layout.abort.touch()
    abort.create(log.layout)
    assert abort.exists(log.layout) and abort.boot(log.layout) is None


def test_a_store_in_which_rocketmq_died(log: LogBuilder) -> None:
    log.step_ms = 1000
    log.fill(5 * FILE_SIZE)
    index_queues(log)
    log.layout.abort.touch()
    starts = range(0, log.end, FILE_SIZE)
    firsts = [next(record for record in log.written if record.offset >= start) for start in starts]
    Checkpoint(firsts[3].store_ms + 3000, firsts[4].store_ms + 3000, 0).store(log.layout)
    report = run(log.layout)
    assert report.ending is Ending.OTHER_DIED
    assert report.scanned_from == 3 * FILE_SIZE
    assert (report.end, report.reput) == (log.end, 0)


def test_an_anchor_that_is_no_record_is_not_believed(log: LogBuilder) -> None:
    log.fill(FILE_SIZE + 5000)
    index_queues(log)
    abort.create(log.layout)
    Positions(log.layout).record(log.written[-3].offset + 7, 1)
    set_reput(log, log.end)
    report = run(log.layout)
    assert (report.end, report.scanned_from) == (log.end, FILE_SIZE)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_may_be_lost_above_the_flushed_position(data: st.DataObject) -> None:
    """Sectors anywhere above it did not reach the disk, and a few bytes there have changed: the log ends exactly before the
    first record that was hit, and everything before is untouched."""
    with tempfile.TemporaryDirectory() as root:
        layout = StoreLayout.at(root)
        layout.open(SETTINGS)
        log = LogBuilder(layout)
        log.fill(FILE_SIZE + FILE_SIZE // 2)
        flushed = data.draw(st.sampled_from([record.offset for record in log.written]), "flushed")
        abort.create(layout)
        record = Positions(layout)
        record.record(flushed, 1)
        record.close()
        whole = b"".join(layout.log_file(start).read_bytes() for start in (0, FILE_SIZE))
        spoilt = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 3), "runs")):
            at = data.draw(st.integers(flushed, log.end - 1), "at")
            if data.draw(st.booleans(), "lost"):
                # Sectors below the flushed position are on disk; the sector that contains it is, up to there.
                begin, size = max(flushed, at - at % 512), data.draw(st.integers(1, 8), "sectors") * 512
                end = at - at % 512 + size
                spoilt[begin:end] = bytes(len(spoilt[begin:end]))
            else:
                size = data.draw(st.integers(1, 3), "size")
                spoilt[at : at + size] = bytes(each ^ 0x55 for each in spoilt[at : at + size])
        spoilt = spoilt[: log.end] + whole[log.end :]
        log.spoil(0, bytes(spoilt[:FILE_SIZE]))
        log.spoil(FILE_SIZE, bytes(spoilt[FILE_SIZE:]))
        report = run(layout)
        hit = [each for each in log.written if spoilt[each.offset :][: each.size] != whole[each.offset :][: each.size]]
        last = next(each for each in reversed(log.written) if each.offset < FILE_SIZE)
        blank = last.offset + last.size
        marker_hit = flushed <= blank and spoilt[blank : blank + 8] != whole[blank : blank + 8]
        ends = [each.offset for each in hit[:1]] + [blank] * marker_hit + [log.end]
        assert not report.read_only and report.end == min(ends)
        left = b"".join(layout.log_file(start).read_bytes() for start in mapped_file.list_starts(layout, FILE_SIZE))
        assert left[: report.end] == bytes(spoilt[: report.end])
        assert not left[report.end :].strip(b"\0")


def test_looking_changes_nothing(log: LogBuilder) -> None:
    log.fill(FILE_SIZE)
    torn_record(log)
    before = snapshot(log.layout.root)
    report = run(log.layout, read_only=True)
    assert report.end == log.end and report.cuts[0].path is None and report.read_only
    assert snapshot(log.layout.root) == before


def test_too_much_to_keep(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.recovery.log_cut.KEEP_MAX", 1000)
    log.fill(5000)
    stale_records(log)
    report = run(log.layout)
    assert [(cut.path, cut.offset) for cut in report.cuts] == [(None, log.end)]
    assert not log.read(log.end, FILE_SIZE - log.end).strip(b"\0")


def test_interrupted_at_every_change(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dies at its n-th change, for every n; the next run ends as an uninterrupted one does. If the death was in the cutting of
    queues, it ends as one that found them in doubt."""

    class Died(BaseException):
        pass

    def compose(name: str) -> LogBuilder:
        layout = StoreLayout.at(in_memory / name)
        layout.open(SETTINGS)
        log = LogBuilder(layout)
        log.fill(FILE_SIZE + 3000, queues=2)
        index_queues(log)
        write_index(layout, "20240101000000000", log.written[0], log.written[-1])
        config.store_offsets(layout, {("T", "g"): {0: 10**6}})
        abort.create(layout)
        Positions(layout).record(log.written[10].offset, 1)
        log.spoil(log.written[-UNITS * 3].offset + 90, b"\x01")
        log.spoil(2 * FILE_SIZE, b"garbage")
        return log

    def outcome(log: LogBuilder, report: RecoveryReport) -> tuple[object, ...]:
        files = snapshot(log.layout.root)
        kept = {name: files[name] for name in files if name.startswith(("commitlog", "consumequeue", "index"))}
        return report.begin, report.end, report.reput, report.queues, kept, files["config/consumerOffset.json"]

    expected = [outcome(whole := compose("whole"), run(whole.layout))]
    doubted = compose("doubted")
    unsynced.Unsynced(doubted.layout).raise_queues()
    expected.append(outcome(doubted, run(doubted.layout)))
    deaths = 0
    for number in itertools.count():
        log = compose(f"dies-{number}")
        left = number

        def dying(real: Callable[..., object]) -> Callable[..., object]:
            def call(*given: object, **named: object) -> object:
                nonlocal left
                if left == 0:
                    raise Died
                left -= 1
                return real(*given, **named)

            return call

        with monkeypatch.context() as patched:
            for name in ("pwrite", "fsync", "fdatasync", "unlink", "rename"):
                patched.setattr(os, name, dying(getattr(os, name)))
            for name in ("unlink", "rename", "touch"):
                patched.setattr(Path, name, dying(getattr(Path, name)))
            try:
                run(log.layout)
                break
            except Died:
                deaths += 1
        in_doubt = unsynced.load(log.layout).queues
        assert outcome(log, run(log.layout)) == expected[in_doubt], f"after death {number}"
    assert deaths > 20


def test_queues_in_doubt_are_made_anew(log: LogBuilder) -> None:
    """Goal: units that a failed sync may have left out are not written again in their place. Method: one life ended in a failed
    sync, and it is not certain that the machine kept its memory, because reput's commit is missing; with a sync that succeeded,
    the same units stay."""
    log.fill(3000, queues=2)
    index_queues(log)
    abort.create(log.layout)
    Positions(log.layout).record(log.end, 1)
    log.layout.reput.unlink(missing_ok=True)
    kept = run(log.layout)
    assert kept.ending is Ending.POWER_CUT and all(queue.max_offset for queue in kept.queues)
    unsynced.Unsynced(log.layout).raise_queues()
    anew = run(log.layout)
    assert anew.ending is Ending.POWER_CUT and anew.reput == 0
    assert [queue.max_offset for queue in anew.queues] == [0, 0] and not unsynced.load(log.layout).queues


def test_a_death_while_queues_in_doubt_are_cut(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the next start begins to index where the first queue was cut, and leaves no hole in it. Method: the checkpoint
    vouches for more than reput's commit; the first start dies before it cuts the second queue."""
    log.step_ms = 1000  # the checkpoint is trusted up to 3 s before its time
    log.fill(2 * FILE_SIZE + 3000, queues=2)
    index_queues(log)
    abort.create(log.layout)
    Positions(log.layout).record(log.end, 1)
    set_reput(log, 0)
    newest = log.written[-1].store_ms
    Checkpoint(newest, newest, 0).store(log.layout)
    unsynced.Unsynced(log.layout).raise_queues()
    real, cuts = ConsumeQueue.truncate, 0

    def truncate(queue: ConsumeQueue, *given: int) -> object:
        nonlocal cuts
        cuts += 1
        if cuts == 2:
            raise KeyboardInterrupt
        return real(queue, *given)

    with monkeypatch.context() as patched:
        patched.setattr(ConsumeQueue, "truncate", truncate)
        with pytest.raises(KeyboardInterrupt):
            run(log.layout)
    assert Checkpoint.load(log.layout).logics_ms == 0, "it vouches for what was cut"
    report = run(log.layout)
    assert report.reput == 0 and [queue.max_offset for queue in report.queues] == [0, 0]


def test_what_was_not_flushed_is_written_again(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last sync may have failed, and the kernel then treats the pages as written, so a sync alone would find nothing to do.
    Method: the bytes above the recorded position are written before the sync that vouches for them; none of it is if the store
    was stopped, or is only read."""
    log.fill(2 * FILE_SIZE + 9000)
    middle = log.written[20].offset
    abort.create(log.layout)
    Positions(log.layout).record(middle, 1)
    set_reput(log, middle)
    before = log.read(0, log.end)
    times = [log.layout.log_file(start).stat().st_mtime_ns for start in mapped_file.list_starts(log.layout, FILE_SIZE)]
    run(log.layout, read_only=True)
    assert [log.layout.log_file(n * FILE_SIZE).stat().st_mtime_ns for n in range(3)] == times
    written: list[tuple[int, int]] = []
    real = lib.log_rewrite

    class Core:
        """The core, and what it is asked to write again."""

        def __getattr__(self, name: str) -> object:
            return getattr(lib, name)

        def log_rewrite(self, descriptor: int, begin: int, end: int) -> int:
            start = int(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            written.append((start + begin, start + end))
            return int(real(descriptor, begin, end))

    monkeypatch.setattr(log_rewrite, "lib", Core())
    report = run(log.layout)
    assert report.ending is Ending.KILLED and report.end == log.end and log.read(0, log.end) == before
    assert written == [(middle, FILE_SIZE), (FILE_SIZE, 2 * FILE_SIZE), (2 * FILE_SIZE, log.end)]
    written.clear()
    Positions(log.layout).record_stop(log.end, 1)
    abort.remove(log.layout)
    assert run(log.layout).ending is Ending.STOPPED and written == []


@pytest.mark.parametrize("errors", [1, 2])
def test_a_sync_that_fails_in_recovery(log: LogBuilder, monkeypatch: pytest.MonkeyPatch, errors: int) -> None:
    """The first error may be an old one, which the kernel reports to a new descriptor; what was written since is synced again.
    The second error ends the start, and the next start writes all of it once more."""
    log.fill(5000)
    abort.create(log.layout)
    Positions(log.layout).record(log.written[3].offset, 1)
    set_reput(log, log.written[3].offset)
    left, real = errors, os.fdatasync

    def sync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", sync)
        if errors == 2:
            with pytest.raises(OSError, match="Input/output"):
                run(log.layout)
            assert (recorded := positions.load(log.layout)) is not None and recorded.flushed == log.written[3].offset
    assert run(log.layout).end == log.end
    assert (recorded := positions.load(log.layout)) is not None and recorded.flushed == log.end


def test_zeros_that_did_not_reach_the_disk(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery cuts, and the sync of the zeros fails: memory shows zeros, the disk may have whole records. Method: the next
    recovery finds nothing to cut, and writes the zeros again all the same."""
    log.fill(5000)
    stale_records(log)
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().parent == log.layout.commitlog:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", sync)
        with pytest.raises(OSError, match="Input/output"):
            run(log.layout)
    tail = unsynced.load(log.layout).tail
    assert tail > log.end + 4096
    written: list[tuple[int, int]] = []
    with monkeypatch.context() as patched:
        patched.setattr(log_rewrite.sparse, "zero_again", lambda _, begin, end: written.append((begin, end)))
        assert run(log.layout).cuts == ()
    assert written == [(log.end, tail)] and unsynced.load(log.layout).tail == 0
