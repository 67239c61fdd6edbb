"""Locks of queues, with leases, for ordered consumers that are no members here: those of the remoting gateway. It is what
RocketMQ's LOCK_BATCH_MQ and UNLOCK_BATCH_MQ ask of a broker.

Members of a group need no lock: a queue has one member at a time, and a commit of another one raises Fenced. A consumer
elsewhere shares its group's queues by its own rules, so two may believe that they have a queue. Of these the one with the lock
reads. It renews the lock now and then; if it dies, the lock ends with its lease.

A queue is locked or has a member, never both: the registry assigns no locked queue, and a queue that a member has cannot be
locked. Locks outlive every process: they are written down (store/locked_queues.py) before they are granted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from orbitmq.actors.groups.groups import NAME_MAX
from orbitmq.actors.sessions.caller import Caller, Share
from orbitmq.errors import Full, SettingError
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import locked_queues
from orbitmq.store.layout import StoreLayout
from orbitmq.store.locked_queues import Lock

LOCKS_MAX = 16_384
LEASE_MS = 60_000  # RocketMQ's
LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 3_600_000


class QueueLocks:
    """percent: what one user may take of them (sessions/caller.py)."""

    def __init__(self, layout: StoreLayout, percent: int = 100, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._layout = layout
        self._share = Share("queue locks", LOCKS_MAX, percent)
        self._clock_ns = clock_ns
        self._locks = locked_queues.load(layout)

    def lock(
        self, caller: Caller, group: str, owner: Any, queues: Collection[QueueKey], lease_ms: int, taken: Collection[QueueKey]
    ) -> list[QueueKey]:
        """Locks those of the queues that nobody else has, or renews their locks. taken: queues that cannot be locked. Returns
        those that the owner has now. Raises: SettingError; Full; OSError: nothing has changed."""
        _check(group, owner, lease_ms)
        now_ms, mark = self._now_ms(), caller.mark
        granted = []
        for queue in dict.fromkeys(queues):
            held = self._locks.get((group, queue))
            mine = held is not None and (held.owner, held.mark) == (owner, mark)
            if queue not in taken and (held is None or mine or held.until_ms <= now_ms):
                granted.append(queue)
        live = {key: lock for key, lock in self._locks.items() if lock.until_ms > now_ms}
        fresh = sum((group, queue) not in live for queue in granted)
        if len(live) + fresh > LOCKS_MAX:
            raise Full(
                f"cannot lock {fresh} more queues for the group {group!r}: {len(live):,} are locked, of {LOCKS_MAX:,}",
                hint="unlock queues that are not needed, or wait until leases are over",
                limit="queue locks",
                value=len(live),
            )
        if fresh:
            self._share.check(caller, Counter(lock.mark for lock in live.values()), fresh)
        if granted:
            self._store({**live, **{(group, queue): Lock(owner, mark, now_ms + lease_ms) for queue in granted}})
        return granted

    def unlock(self, caller: Caller, group: str, owner: Any, queues: Iterable[QueueKey]) -> list[QueueKey]:
        """Returns those that were the owner's; the others stay as they are. Raises: OSError: nothing has changed."""
        ended = []
        for queue in dict.fromkeys(queues):
            held = self._locks.get((group, queue))
            if held is not None and (held.owner, held.mark) == (owner, caller.mark):
                ended.append(queue)
        if ended:
            over = {(group, queue) for queue in ended}
            self._store({key: lock for key, lock in self._locks.items() if key not in over})
        return ended

    def held(self, group: str) -> dict[QueueKey, Lock]:
        """The group's queues that are locked now."""
        now_ms = self._now_ms()
        found = ((queue, lock) for (name, queue), lock in self._locks.items() if name == group)
        return {queue: lock for queue, lock in found if lock.until_ms > now_ms}

    def expire(self) -> set[str]:
        """Forgets locks whose lease is over, which the file may keep. Returns their groups."""
        now_ms = self._now_ms()
        over = {key for key, lock in self._locks.items() if lock.until_ms <= now_ms}
        if over:
            self._locks = {key: lock for key, lock in self._locks.items() if key not in over}
        return {group for group, _ in over}

    def _store(self, locks: dict[tuple[str, QueueKey], Lock]) -> None:
        locked_queues.store(self._layout, locks)
        self._locks = locks

    def _now_ms(self) -> int:
        return self._clock_ns() // 1_000_000


def _check(group: str, owner: Any, lease_ms: int) -> None:
    """Raises: SettingError."""
    if not isinstance(owner, str) or not 1 <= len(owner.encode(errors="surrogatepass")) <= NAME_MAX:
        raise SettingError(
            f"cannot lock queues of the group {group!r} for {owner!r:.64}: an owner has a name of 1 to {NAME_MAX} bytes",
            name="owner",
            value=owner,
            limit=NAME_MAX,
        )
    if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
        raise SettingError(
            f"cannot lock queues of the group {group!r} for {lease_ms / 1000:g} s: a lease lasts from {LEASE_MS_MIN // 1000} "
            f"to {LEASE_MS_MAX // 1000:,} s",
            name="lease",
            value=lease_ms / 1000,
        )
