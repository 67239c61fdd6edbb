"""Goal: a search by time is binary only where times are known to rise, whichever program has written to the store. Method: logs
composed as OrbitMQ's and as another program's, whose clock goes back; recovery after every way in which they can come
together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.store import abort, rising
from orbitmq.store.commit_log.log_scan import scan_log
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery import recover as recovery
from orbitmq.store.verify.findings import Finding, Kind
from orbitmq.store.verify.verify import verify
from tests.store.log_builder import FIRST_MS, LogBuilder, Written
from tests.store.queue_builder import index_queues
from tests.store.recovery_rig import SETTINGS, run, set_reput


def ours(log: LogBuilder, count: int = 10) -> list[Written]:
    """Records of OrbitMQ's writer: it continues where recovery ended, and never goes back."""
    last = max((one.store_ms for one in log.written), default=FIRST_MS)
    return [log.append(store_ms=last + number) for number in range(count)]


def theirs(log: LogBuilder, *steps: int) -> list[Written]:
    """Records of RocketMQ's, each so many milliseconds after the newest before them."""
    last = log.written[-1].store_ms if log.written else FIRST_MS
    return [log.append(store_ms=last + step, sealed=False) for step in steps]


def recovered(log: LogBuilder) -> int:
    """What a start finds, and leaves durably."""
    found = run(log.layout).rising_from
    assert rising.load(log.layout) == found
    return found


def die(log: LogBuilder, flushed: int) -> None:
    """As a killed broker leaves it: the newest time is that of the end, not that of what was flushed."""
    record = Positions(log.layout)
    record.record(flushed, log.written[-1].store_ms)
    record.close()


def stop(log: LogBuilder) -> None:
    record = Positions(log.layout)
    record.record_stop(log.end, log.written[-1].store_ms)
    record.close()
    abort.remove(log.layout)


def test_a_damaged_file_says_nothing(log: LogBuilder) -> None:
    assert rising.load(log.layout) is None
    rising.store(log.layout, 4711)
    whole = log.layout.rising.read_bytes()
    assert rising.load(log.layout) == 4711
    for at in range(len(whole)):
        assert rising.parse(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) is None
        assert rising.parse(whole[:at]) is None


def test_a_scan_tells_where_times_fall(log: LogBuilder) -> None:
    theirs(log, 0, 5, 5, 9)
    fallen = theirs(log, -3)[0]
    theirs(log, 0, 1)
    found = scan_log(log.layout, log.file_size, 0)
    assert (found.rising_from, found.first_ms, found.first_sealed) == (fallen.offset, FIRST_MS, False)
    ours(log)
    found = scan_log(log.layout, log.file_size, fallen.offset)
    assert (found.rising_from, found.first_ms) == (fallen.offset, fallen.store_ms), "a part of the log by itself"


def test_an_empty_store_and_all_that_we_write(log: LogBuilder) -> None:
    assert recovered(log) == 0
    written = ours(log, 20)
    die(log, written[10].offset)
    assert recovered(log) == 0, "also where the flushed position tells of a later time than the first record behind it"
    ours(log)
    stop(log)
    assert recovered(log) == 0


def test_a_store_of_another_program(log: LogBuilder) -> None:
    theirs(log, 0, 5, 9)
    fallen = theirs(log, -200)[0]
    assert recovered(log) == fallen.offset
    ours(log)
    die(log, fallen.offset)
    assert recovered(log) == fallen.offset


def test_another_program_in_between_whose_clock_was_right(log: LogBuilder) -> None:
    assert recovered(log) == 0
    ours(log)
    stop(log)
    theirs(log, 0, 3)
    assert recovered(log) == 0


@pytest.mark.parametrize("end", [stop, lambda log: die(log, log.end)], ids=["stopped", "killed"])
def test_another_program_in_between_whose_clock_was_behind(log: LogBuilder, end: Callable[[LogBuilder], None]) -> None:
    """Its first record is earlier than OrbitMQ's last, which is below the part that recovery reads."""
    assert recovered(log) == 0
    ours(log)
    end(log)
    first = theirs(log, -1, 5)[0]
    assert rising.trusted(log.layout) == (0, first.offset), "who reads without a broker does not know it yet"
    assert recovered(log) == first.offset


def test_another_program_that_steps_back_later(log: LogBuilder) -> None:
    assert recovered(log) == 0
    ours(log)
    stop(log)
    theirs(log, 1, 5)
    fallen = theirs(log, -4)[0]
    assert recovered(log) == fallen.offset


def test_a_recovery_that_is_killed_between_the_two_files(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recovered(log) == 0
    ours(log)
    stop(log)
    first = theirs(log, -1, 5)[0]

    def killed(point: str) -> None:
        if point == "recovery_rising_settled":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "crash_point", killed)
        with pytest.raises(KeyboardInterrupt):
            run(log.layout)
    assert recovered(log) == first.offset


def test_what_is_not_known_is_seen_or_not_trusted(log: LogBuilder) -> None:
    """Without positions it is not known what the file is about; without the file nothing is known about what was not read."""
    assert recovered(log) == 0
    log.fill(3 * log.file_size)
    index_queues(log, log.written)
    set_reput(log, log.end)
    stop(log)
    log.layout.rising.unlink()
    assert rising.trusted(log.layout) == (0, 0)
    assert recovered(log) == log.end
    rising.store(log.layout, 0)
    log.layout.positions.unlink()
    assert rising.trusted(log.layout) == (0, 0)
    report = run(log.layout)
    assert report.rising_from == report.scanned_from


def findings(layout: StoreLayout) -> list[tuple[Kind, bool]]:
    found: list[Finding] = []
    verify(layout, SETTINGS, found.append)
    return [(each.kind, each.damage) for each in found if each.kind is Kind.RISING]


def test_verify_names_a_false_and_a_damaged_file(log: LogBuilder) -> None:
    assert recovered(log) == 0
    theirs(log, 0, 5, -3)
    stop(log)
    assert findings(log.layout) == [(Kind.RISING, True)]
    content = log.layout.rising.read_bytes()
    log.layout.rising.write_bytes(content[:-1] + b"!")
    assert findings(log.layout) == [(Kind.RISING, False)]
    rising.store(log.layout, log.written[-1].offset)
    assert findings(log.layout) == []
