"""Check-backs (docs/transactions.md): who may ask a producer group now how a transaction ends.

Processes of the group find the open half messages in shared memory, and ask here which of them they may check. Each half is
given to one process at a time, and again after an interval, if it is open then. So whoever gets one and dies has to tell
nobody. How often each was given is written down before it is given (store/check_notes.py). After the last time it is given to
be given up: the process has the writer put it into TRANS_CHECK_MAX_TIME_TOPIC, in one step with what settles it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from orbitmq.actors.trouble import Trouble
from orbitmq.store.check_notes import CheckNote, CheckNotes
from orbitmq.store.settings.tree_settings import TreeSettings

AT_ONCE = 1024  # halves in one question
SETTLED_MAX = 64  # entries of the file that may be about halves that are settled, beside twice those that are open
CLOSED, LATER, CHECK, GIVE_UP = "closed", "later", "check", "give up"
Answer = tuple[str, int]


class Asked(NamedTuple):
    """A half message, as its process describes it. offset: in its queue. immune_ms: after it has begun it is not checked for so
    long; -1: for the usual time. checks: how often another broker has checked it."""

    offset: int
    physical_offset: int
    begun_ms: int
    immune_ms: int
    checks: int


class CheckBacks:
    """is_open: of a half's queue offset; False if there is no such half."""

    def __init__(
        self,
        settings: TreeSettings,
        is_open: Callable[[int], bool],
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.timeout_ms = round(1000 * settings.transaction_timeout_s)
        self.interval_ms = round(1000 * settings.transaction_check_interval_s)
        self._most = settings.transaction_check_max
        self._read_only = settings.read_only
        self._is_open = is_open
        self._wall_ms = wall_ms
        self._clock_ms = clock_ms
        self._file = CheckNotes(settings.layout)
        self._notes: dict[int, CheckNote] = {}
        self._until: dict[int, int] = {}  # by the monotonic clock: until then another process may be at it
        self._loaded = False
        self._tidy_above = SETTLED_MAX  # entries
        self._trouble = Trouble()

    def take(self, halves: Iterable[Asked]) -> list[Answer]:
        """For each of them: ("check", its number): the process has it now, until the interval is over. ("give up", ...): so
        that it is given up. ("later", in so many ms). ("closed", 0): it is settled, or never was."""
        self._load()
        taken: dict[int, CheckNote] = {}
        answers = [self._judged(each, taken) for each in halves]
        if taken:
            self._write(taken)
        return answers

    def noted(self, halves: Iterable[Asked]) -> list[tuple[int, int]]:
        """Of each: how often it was given, and in how many ms it can be given next, 0 for now. Changes nothing."""
        self._load()
        return [self._counted(each) for each in halves]

    def _counted(self, half: Asked) -> tuple[int, int]:
        now_ms, note = self._wall_ms(), self._notes.get(half.offset)
        # After a power cut that took a half back, another one may have its place.
        if note is not None and (note.physical_offset != half.physical_offset or note.asked_ms < half.begun_ms):
            note = None
        if note is not None:
            left = self._until[half.offset] - self._clock_ms()
        else:
            immune_ms = self.timeout_ms if half.immune_ms < 0 else half.immune_ms
            left = half.begun_ms + immune_ms - now_ms if now_ms >= half.begun_ms else 0  # or the clock was set back
        return max(half.checks, 0 if note is None else note.number), max(left, 0)

    def _judged(self, half: Asked, taken: dict[int, CheckNote]) -> Answer:
        if not self._is_open(half.offset):
            return CLOSED, 0
        if self._read_only:
            return LATER, self.interval_ms
        number, left = self._counted(half)
        if left > 0:
            return LATER, left
        now_ms = self._wall_ms()
        answer = (GIVE_UP, number) if number >= self._most else (CHECK, number + 1)
        given = CheckNote(half.offset, half.physical_offset, max(now_ms, half.begun_ms), min(answer[1], (1 << 32) - 1))
        self._notes[half.offset] = taken[half.offset] = given
        self._until[half.offset] = self._clock_ms() + self.interval_ms
        return answer

    def _load(self) -> None:
        """What a predecessor has given is not given again before its interval is over."""
        if self._loaded:
            return
        self._loaded = True
        self._notes = self._file.load()
        now_ms, clock_ms = self._wall_ms(), self._clock_ms()
        for half, note in self._notes.items():
            left = note.asked_ms + self.interval_ms - now_ms
            self._until[half] = clock_ms + min(max(left, 0), self.interval_ms)

    def _write(self, taken: dict[int, CheckNote]) -> None:
        try:
            self._file.add(taken.values())
            if self._file.entries > self._tidy_above or len(self._notes) > self._file.entries:
                self._tidy()
            self._trouble.over()
        except OSError as error:
            # Checks go on. Without the file, a half may be checked more often after a restart.
            self._trouble.say(f"cannot write down which transactions were checked: {error}")

    def _tidy(self) -> None:
        self._notes = {half: note for half, note in self._notes.items() if self._is_open(half)}
        self._until = {half: self._until[half] for half in self._notes}
        self._file.replace(self._notes)
        self._tidy_above = 2 * len(self._notes) + SETTLED_MAX
