"""How the work on a queue stands: who has what in hand, what waits, and what holds up the rest. Read from the state file
(native/shared/work_file.h) while the dispatcher goes on: each message is as it was at some moment of the reading."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.store.work import files as work_files
from orbitmq.store.work.plan import PlannedWorker

NEVER = (1 << 64) - 1
STATES = ("free", "in hand", "waiting", "done", "leaving")  # enum work_state


class Hands:
    """What workers have in hand, summed over the queues that are counted."""

    def __init__(self, workers: Sequence[PlannedWorker]) -> None:
        known = sorted(workers, key=lambda worker: worker.slot)
        self.count = len(known)
        self.array: Any = ffi.new("struct work_hands[]", max(1, self.count))
        for index, worker in enumerate(known):
            self.array[index].slot, self.array[index].epoch = worker.slot, worker.epoch
            self.array[index].left_ms = NEVER

    def listed(self) -> list[list[int | None]]:
        """[[slot, messages in hand, ms until the first of them is taken away or None], ...]"""
        found = (self.array[index] for index in range(self.count))
        return [[int(each.slot), int(each.held), _or_none(each.left_ms)] for each in found]


class WorkView(NamedTuple):
    """frontier: no message from there on was handed out. free to done: messages below it. wait_ms: until the first of those
    that wait is free. first: offset of the first message that is not done; first_state: of STATES; first_slot: who has it in
    hand."""

    frontier: int
    free: int
    held: int
    waiting: int
    parting: int
    done: int
    wait_ms: int | None
    first: int
    first_state: str
    first_tries: int
    first_slot: int | None
    first_left_ms: int | None


def read(path: Path, floor: int, now_ms: int, hands: Hands) -> WorkView:
    """floor: where the group is if the file does not say so yet."""
    begun = work_files.read(path)
    whole = _copied(path)
    later = work_files.read(path)
    if begun is None or later is None or len(whole) != lib.WORK_FILE_SIZE:
        return WorkView(floor, 0, 0, 0, 0, 0, None, floor, "free", 0, None, None)
    # What was done while the words were read may be cleared in them.
    low = later.floor
    high = max(low, min(begun.frontier, low + int(lib.WORK_WINDOW)))
    seen = ffi.new("struct work_view *")
    lib.work_view(whole, low, high, now_ms, seen, hands.array, hands.count)
    state = STATES[seen.first_state] if seen.first_state < len(STATES) else "leaving"
    held = state == "in hand"
    timed = held or state == "waiting"
    return WorkView(
        high, seen.free, seen.held, seen.waiting, seen.parting, seen.done, _or_none(seen.wait_ms), seen.first, state,
        seen.first_tries, seen.first_slot if held else None, int(seen.first_left_ms) if timed else None,
    )  # fmt: skip


def _copied(path: Path) -> bytes:
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        return file.read()
    return b""


def _or_none(number: int) -> int | None:
    return None if number == NEVER else int(number)
