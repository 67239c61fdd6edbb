"""What every actor reports about itself (native/shared/counters.h); any process may read it while the actor runs.

A page holds single words that its owner writes without ordering: the numbers are fresh, and not one consistent set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.shm.memory import Buffer, line_pointer


class ActorState(IntEnum):
    """Where an actor is in its life."""

    ABSENT = lib.ACTOR_ABSENT
    STARTING = lib.ACTOR_STARTING
    RECOVERING = lib.ACTOR_RECOVERING
    RUNNING = lib.ACTOR_RUNNING
    STOPPING = lib.ACTOR_STOPPING
    STOPPED = lib.ACTOR_STOPPED
    FAILED = lib.ACTOR_FAILED


class Counter(IntEnum):
    """The index of each counter, the same for every actor; counters that an actor does not use stay 0."""

    STEPS = lib.COUNT_STEPS
    SLEEPS = lib.COUNT_SLEEPS
    MESSAGES = lib.COUNT_MESSAGES
    BYTES = lib.COUNT_BYTES
    REJECTED = lib.COUNT_REJECTED
    WAKES = lib.COUNT_WAKES
    FULL = lib.COUNT_FULL
    SYNCS = lib.COUNT_SYNCS
    INDEXED = lib.COUNT_INDEXED
    BLANKS = lib.COUNT_BLANKS
    DIRTY = lib.COUNT_DIRTY
    SESSIONS = lib.COUNT_SESSIONS
    FAULTS = lib.COUNT_FAULTS
    REDELIVERED = lib.COUNT_REDELIVERED
    DUPLICATES = lib.COUNT_DUPLICATES
    IDS = lib.COUNT_IDS
    PASSED = lib.COUNT_PASSED


# An enumeration takes longer to name its members than a page takes to read, and whoever watches a broker reads every page.
_NAMED = {counter.name.lower(): int(counter) for counter in Counter}
# The verdicts of native/shared/verdict.h that refuse a message, as words.
REASONS: dict[str, int] = {
    name: getattr(lib, f"VERDICT_{name.upper()}")
    for name in (
        "unknown_topic", "no_permission", "unknown_queue", "body_too_large", "properties_too_large", "store_full",
        "store_failed", "reserved", "read_only", "dedup_full", "batch_differs", "batch_refused", "batch_too_large",
        "sync_failed", "settled", "unknown_half", "fenced", "commits_full", "unknown_message", "halves_full", "behind",
    )
}  # fmt: skip


class ActorCounters(NamedTuple):
    """One look at a page. heartbeat_ms is CLOCK_MONOTONIC; error is the errno behind FAILED, or 0; epoch counts lives."""

    name: str
    pid: int
    epoch: int
    state: ActorState
    error: int
    heartbeat_ms: int
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Recorded values, by buckets of at most 12.5 % width (native/shared/counters.c)."""

    counts: tuple[int, ...]

    def below(self, power: int) -> int:
        """How many values are less than 2 ** power, exactly."""
        return sum(self.counts[: int(lib.histogram_index(1 << power))])

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def total(self) -> float:
        """The sum of the values, each taken for the middle of its bucket."""
        return sum(count * middle for count, middle in zip(self.counts, _middles(), strict=True) if count)


@cache
def _middles() -> tuple[float, ...]:
    ends = [int(lib.histogram_lowest(index)) for index in range(lib.HISTOGRAM_BUCKETS + 1)]
    return tuple((low + high - 1) / 2 for low, high in pairwise(ends))


class ActorPage:
    """An actor's page in a mapping.

    Args:
        page: cffi pointer to a struct actor_page, as control_actor gives it; its owner keeps the mapping alive.
    """

    def __init__(self, page: Any) -> None:
        self._page = page

    @classmethod
    def in_buffer(cls, memory: Buffer, offset: int = 0) -> ActorPage:
        """The page that lies at byte `offset` of a writable buffer."""
        return cls(line_pointer("struct actor_page *", memory, offset, page_size()))

    def read(self) -> ActorCounters:
        """Everything but the histogram. Counters are keyed by name in lower case, such as "messages"."""
        view = ffi.new("struct actor_view *")
        lib.actor_page_view(self._page, view)
        counts = ffi.unpack(view.counter, len(view.counter))
        return ActorCounters(
            name=ffi.string(view.name).decode(errors="replace"),
            pid=int(view.pid),
            epoch=int(view.epoch),
            state=ActorState(view.state),
            error=int(view.error),
            heartbeat_ms=int(view.heartbeat_ms),
            counters={name: counts[index] for name, index in _NAMED.items()},
        )

    def refused(self) -> dict[str, int]:
        """The writer's: how many messages were answered with an error, by the words of REASONS. Their sum is "rejected"."""
        counts = ffi.new("uint64_t[]", lib.REFUSALS)
        lib.actor_page_refused(self._page, counts)
        found = ffi.unpack(counts, lib.REFUSALS)
        return {reason: found[verdict] for reason, verdict in REASONS.items()}

    def samples(self) -> int:
        """Number of values recorded in the histogram."""
        return int(lib.actor_page_samples(self._page))

    def histogram(self) -> Histogram:
        counts = ffi.new("uint64_t[]", lib.HISTOGRAM_BUCKETS)
        lib.actor_page_buckets(self._page, counts)
        return Histogram(tuple(counts))

    def quantile(self, q: float) -> int:
        """The value below which the part `q` of the recorded values lies, exact to 12.5 %; 0 if there are none.

        Raises: ValueError: q is not from 0 to 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"cannot compute the quantile {q}, it is not within 0 and 1")
        return int(lib.actor_page_quantile(self._page, q))

    def add(self, counter: Counter, n: int = 1) -> None:
        """Raises one counter. Only the page's owner may call it."""
        lib.actor_page_add(self._page, counter, n)

    def record(self, value: int) -> None:
        """Records a value in the histogram. Only the page's owner may call it."""
        lib.actor_page_record(self._page, value)


def page_size() -> int:
    """Bytes of one page."""
    return int(lib.actor_page_size())
