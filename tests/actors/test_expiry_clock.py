"""Goal: messages expire by the time that passes, whatever is done to the machine's clock. Method: the test controls both
clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.actors.expiry_clock import ABSENCE_MS, GRACE_MS, STEP_MS, ExpiryClock
from orbitmq.actors.retention import HOUR_MS
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from tests.actors.test_retention import hours

START = 1_700_000_000_000
LOOK_MS = 5000


class Machine:
    """A machine with a clock that can be set."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layout = StoreLayout.at(root)
        self.layout.make_folders()
        self.wall, self.passed, self.boot = START, 1000, 0
        monkeypatch.setattr(positions, "boot_id", lambda: self.boot.to_bytes(16, "big"))

    def broker(self) -> ExpiryClock:
        return ExpiryClock(self.layout, lambda: self.wall, lambda: self.passed)

    def wait(self, ms: int) -> None:
        self.wall += ms
        self.passed += ms

    def reboot(self, off_ms: int) -> None:
        self.boot += 1
        self.wall += off_ms
        self.passed = 500


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_time_that_passes_is_believed(machine: Machine) -> None:
    clock = machine.broker()
    for ms in (0, LOOK_MS, LOOK_MS, 100 * HOUR_MS):  # the last: the machine slept, and CLOCK_BOOTTIME counted on
        machine.wait(ms)
        assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)


@pytest.mark.parametrize("jump_ms", [STEP_MS + 1, 72 * HOUR_MS, 1 << 44])
def test_a_jump_ahead_is_not_believed(machine: Machine, jump_ms: int) -> None:
    """Until the clock comes back, however often somebody looks, and also for a successor and a restart."""
    clock = machine.broker()
    machine.wall += jump_ms
    for _ in range(100):
        machine.wait(LOOK_MS)
        assert clock.look() == machine.wall - jump_ms and clock.ahead_ms == jump_ms
        clock.keep()
    for _ in range(2):
        clock.close()
        machine.wait(HOUR_MS)
        clock = machine.broker()
        assert clock.look() == machine.wall - jump_ms and clock.ahead_ms == jump_ms
    machine.wall -= jump_ms
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)


def test_a_jump_that_somebody_vouches_for(machine: Machine) -> None:
    clock = machine.broker()
    machine.wall += 72 * HOUR_MS
    clock.look()
    assert clock.ahead_ms
    clock.believe()
    machine.wait(LOOK_MS)
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)
    clock.keep()
    assert machine.broker().look() == machine.wall


def test_small_steps_do_not_add_up(machine: Machine) -> None:
    """If the clock is set ahead by a minute at each look, it counts no faster than a hundredth."""
    clock, began, passed = machine.broker(), machine.wall, 0
    for _ in range(1000):
        machine.wait(LOOK_MS)
        machine.wall += 60_000
        passed += LOOK_MS
        assert clock.look() <= began + passed + passed // 100
    assert clock.ahead_ms > STEP_MS


def test_one_small_step_is_caught_up_with(machine: Machine) -> None:
    clock = machine.broker()
    machine.wall += 60_000
    for _ in range(2000):
        machine.wait(LOOK_MS)
        assert clock.look() <= machine.wall and clock.ahead_ms == 0
    assert clock.look() == machine.wall


def test_a_clock_that_goes_back(machine: Machine) -> None:
    """Messages look younger. When the clock returns to where it was, that is no jump."""
    clock = machine.broker()
    machine.wall -= 1000 * HOUR_MS
    machine.wait(LOOK_MS)
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)
    machine.wall += 1000 * HOUR_MS
    machine.wait(LOOK_MS)
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)


@pytest.mark.parametrize("off_ms", [0, ABSENCE_MS - HOUR_MS])
def test_a_machine_that_was_off(machine: Machine, off_ms: int) -> None:
    machine.broker().keep()
    machine.reboot(off_ms)
    clock = machine.broker()
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)


def test_a_start_with_a_wrong_clock(machine: Machine) -> None:
    """A machine whose clock is days ahead after it was switched on: nothing is believed until somebody has had an hour to set
    it right; and what was not believed is not recorded as if it had been."""
    machine.broker().keep()
    machine.reboot(90 * HOUR_MS)
    clock = machine.broker()
    for _ in range(10):
        assert clock.look() < START + HOUR_MS and clock.ahead_ms > 80 * HOUR_MS
        clock.keep()
        machine.wait(LOOK_MS)
    clock = machine.broker()
    clock.look()
    assert clock.ahead_ms > 80 * HOUR_MS
    right = machine.wall - 89 * HOUR_MS
    wrong, machine.wall = machine.wall, right
    assert (clock.look(), clock.ahead_ms) == (right, 0)
    machine.wall = wrong
    clock = machine.broker()  # nobody sets it right
    clock.look()
    machine.wait(GRACE_MS)
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)


@pytest.mark.parametrize("content", [b"", b"x" * 44, b"orbclock"])
def test_a_file_that_says_nothing(machine: Machine, content: bytes) -> None:
    machine.layout.clock.write_bytes(content)
    clock = machine.broker()
    assert (clock.look(), clock.ahead_ms) == (machine.wall, 0)
    clock.keep()
    assert machine.broker().look() == machine.wall


def test_nothing_is_removed_when_the_clock_jumps(tmp_path: Path, machine: Machine) -> None:
    """Everything together: 14 messages, one each hour, kept for ten hours. The clock jumps by as much, and by years."""
    store = hours(tmp_path / "log", t=0)
    store.send(*["t"] * 14)
    machine.wall = 13 * HOUR_MS
    clock = machine.broker()
    for jump in (10 * HOUR_MS, 100_000 * HOUR_MS):
        machine.wall += jump
        machine.wait(LOOK_MS)
        clock.look()
        store.look(clock=clock.look, held=lambda: clock.ahead_ms > 0)
        assert (store.log(), store.bounds("t")) == ([0, 1, 2, 3], (0, 14))
        machine.wall -= jump
    machine.wait(HOUR_MS)
    clock.look()
    store.look(clock=clock.look, held=lambda: clock.ahead_ms > 0)
    assert (store.log(), store.bounds("t")) == ([1, 2, 3], (4, 14))


def test_messages_stored_by_a_clock_that_was_ahead(tmp_path: Path, machine: Machine) -> None:
    """They carry the time that the clock showed, and so do those after them until that time has come; they expire by it. Older
    messages expire as usual."""
    store = hours(tmp_path / "log", t=0)
    store.send(*["t"] * 8)
    store.count = 1000  # stored a thousand hours ahead
    store.send(*["t"] * 6)
    machine.wall = 18 * HOUR_MS
    clock = machine.broker()
    store.look(clock=clock.look)
    assert (store.log(), store.bounds("t")) == ([1, 2, 3], (4, 14))
    machine.wait(900 * HOUR_MS)
    store.look(clock=clock.look)
    assert (store.log(), store.bounds("t")) == ([1, 2, 3], (4, 14)), "the first message of file 2 says how old file 1 is"
    machine.wait(110 * HOUR_MS)
    store.look(clock=clock.look)
    assert (store.log(), store.bounds("t")) == ([3], (12, 14))
