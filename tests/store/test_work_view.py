"""Goal: what is shown of the work on a queue is what its state file says. Method: files with random words, beside a count
of the same words in Python; floors and frontiers anywhere in the window and around its end."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store.work import view as work_view
from orbitmq.store.work.plan import PlannedWorker

WINDOW = int(lib.WORK_WINDOW)
TICK_MS = 10
NOW_MS = 7_000_000
STATES = FREE, HELD, WAITING, DONE, LEAVING = range(5)
WORKERS = [PlannedWorker(slot, epoch, 1, 100, 30_000, 1000 + slot) for slot, epoch in ((9, 70_000), (2, 5), (1000, 65_536))]


def word(state: int, tries: int = 0, slot: int = 0, epoch: int = 0, in_ms: int = 0) -> int:
    return int(lib.work_view_word(state, tries, slot, epoch, (NOW_MS + in_ms) // TICK_MS % (1 << 26)))


def written(path: Path, floor: int, words: list[int]) -> Path:
    """words: of the messages from the floor on."""
    head = ffi.new("struct work_file *", {"magic": lib.WORK_MAGIC})
    lib.work_file_set(head, floor, floor + len(words))
    body = bytearray(lib.WORK_FILE_SIZE)
    body[: len(ffi.buffer(head))] = bytes(ffi.buffer(head))
    area = memoryview(body)[int(lib.WORK_FILE_SIZE) - 8 * WINDOW :].cast("Q")
    for at, each in enumerate(words, floor):
        area[at % WINDOW] = each
    path.write_bytes(body)
    return path


@pytest.mark.parametrize("count", [0, 1, 300, WINDOW])
def test_every_word_counts(tmp_path: Path, count: int) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    floor = chance.choice([0, WINDOW - 100, 1 << 40])
    made = []
    for _ in range(count):
        worker = chance.choice(WORKERS)
        gone = chance.choice([0, 0, 0, 1])  # 1: it is of an earlier session of the slot
        made.append(
            (
                chance.choice(STATES),
                chance.randrange(512),
                worker.slot,
                worker.epoch + gone,
                TICK_MS * chance.randrange(1, 4_000_000),
            )
        )
    hands = work_view.Hands(WORKERS)
    seen = work_view.read(written(tmp_path / "orders.0", floor, [word(*each) for each in made]), 3, NOW_MS, hands)
    states = Counter(each[0] for each in made)
    found = (seen.free, seen.held, seen.waiting, seen.done, seen.parting)
    assert found == tuple(states[state] for state in STATES) and seen.frontier == floor + count
    assert seen.wait_ms == min((each[4] for each in made if each[0] == WAITING), default=None)
    mine = {
        worker.slot: [each for each in made if each[0] == HELD and each[2:4] == (worker.slot, worker.epoch)]
        for worker in WORKERS
    }
    times = {slot: min((each[4] for each in found), default=None) for slot, found in mine.items()}
    assert hands.listed() == [[slot, len(mine[slot]), times[slot]] for slot in sorted(mine)]
    first = next((at for at, each in enumerate(made) if each[0] != DONE), None)
    if first is None:
        assert seen.first == floor + count and seen.first_state == "free"
        return
    state, tries, slot, _, left = made[first]
    assert (seen.first, seen.first_tries) == (floor + first, tries)
    assert seen.first_state == ("free", "in hand", "waiting", "done", "leaving")[state]
    assert seen.first_slot == (slot if state == HELD else None)
    assert seen.first_left_ms == (left if state in (HELD, WAITING) else None)


def test_what_is_overdue(tmp_path: Path) -> None:
    """The dispatcher has not looked at them yet."""
    path = written(tmp_path / "orders.0", 0, [word(HELD, 1, 2, 5, in_ms=-5000), word(WAITING, 1, in_ms=-5000)])
    hands = work_view.Hands(WORKERS)
    seen = work_view.read(path, 0, NOW_MS, hands)
    assert (seen.wait_ms, seen.first_left_ms) == (0, 0) and [2, 1, 0] in hands.listed()


@pytest.mark.parametrize("content", [None, b"", b"\0" * 100, bytes(lib.WORK_FILE_SIZE)])
def test_a_file_that_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    """It is not there, is being made, or was not used yet: the group is where its offset says."""
    path = tmp_path / "orders.0"
    if content is not None:
        path.write_bytes(content)
    seen = work_view.read(path, 41, NOW_MS, work_view.Hands([]))
    assert (seen.frontier, seen.first, seen.free, seen.held) == (41, 41, 0, 0)
