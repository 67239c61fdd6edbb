"""A worker's answers on their way to the broker: put into the ring as ranges, and remembered until the broker has applied
them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from orbitmq.client.work.failure import REASON_MAX, bounded
from orbitmq.errors import TimedOut
from orbitmq.native._core import lib

if TYPE_CHECKING:
    from orbitmq.client.work.hand_out import HandOut

TEXT_MAX = lib.WORK_TEXT_MAX
DIGEST_MAX = TEXT_MAX - REASON_MAX


def text_of(reason: str, digest: str) -> bytes:
    """Why a message was not done, as one text of at most TEXT_MAX bytes; empty if there is no reason."""
    tail = f"\1{bounded(digest)}".encode(errors="replace") if digest else b""
    tail = tail[:DIGEST_MAX].decode(errors="ignore").encode()  # whole letters
    return bounded(reason).encode(errors="replace") + tail if reason else b""


class Answers:
    """link: struct work_link *. range_max: messages that one answer may name. Its user holds a lock."""

    def __init__(self, link: Any, range_max: int) -> None:
        self._link = link
        self._range_max = range_max
        self._sent: deque[tuple[int, Sequence[HandOut]]] = deque()  # (applied once so many are, which)
        self._last: int | None = None  # how many were applied when the session ended

    @property
    def target(self) -> int:
        """How many answers there are so far."""
        return int(self._link.answered)

    def applied(self) -> int:
        """How many the broker has applied."""
        return int(lib.work_link_applied(self._link)) if self._last is None else self._last

    def put(
        self, kind: int, hand_outs: Sequence[HandOut], time_ms: int, make_room: Callable[[], None], *, told: bool = True,
        text: bytes = b"",
    ) -> None:
        """make_room: waits until the broker has applied some. told: the program is to hear of refusals. text: why one is
        nacked; work_ring.h says how it travels."""
        lone = hand_outs[0] if len(hand_outs) == 1 else None
        ranges = ((lone.slot, lone.opening, lone.offset, 1, lone.delivery),) if lone else self._ranges(hand_outs)
        for slot, opening, first, count, tries in ranges:
            while not (  # all of it or nothing: whoever waits for room may be interrupted
                lib.work_link_nack(self._link, slot, opening, first, tries, time_ms, text, len(text))
                if text
                else lib.work_link_answer(self._link, kind, slot, opening, first, count, tries, time_ms)
            ):
                lib.work_link_publish(self._link)
                make_room()
        if told:
            self._sent.append((self.target, tuple(hand_outs)))
        lib.work_link_publish(self._link)

    def put_off(self, slot: int, opening: int, offset: int, tries: int, time_ms: int, make_room: Callable[[], None]) -> None:
        """A message that cannot be read: it comes again after a time, and takes no room in our hands until then."""
        while not lib.work_link_answer(self._link, lib.WORK_NACK, slot, opening, offset, 1, tries, time_ms):
            lib.work_link_publish(self._link)
            make_room()
        lib.work_link_publish(self._link)

    def pass_over(self, slot: int, opening: int, first: int, count: int, tries: int) -> None:
        """Places without a message, which nobody can do: they count as done."""
        while count > 0:
            part = min(count, self._range_max)
            if not lib.work_link_answer(self._link, lib.WORK_ACK, slot, opening, first, part, tries, 0):
                return  # they come again
            first, count = first + part, count - part
        lib.work_link_publish(self._link)

    def prune(self, applied: int) -> None:
        """Forgets what was applied, once the refusals that were published before have been taken out of the ring."""
        while self._sent and self._sent[0][0] <= applied:
            self._sent.popleft()

    def refused(self, slot: int, opening: int, first: int, count: int, tries: int) -> list[HandOut]:
        """The hand-outs of these answers that the broker did not accept."""
        named = range(first, first + count)
        sent = (each for _, hand_outs in self._sent for each in hand_outs if each.delivery == tries)
        return [each for each in sent if each.slot == slot and each.opening == opening and each.offset in named]

    def end(self) -> list[HandOut]:
        """The session ends, and its memory is not read any more. Returns the answers of which nobody knows whether they
        count."""
        self._last = applied = self.applied()
        return [each for target, hand_outs in self._sent if target > applied for each in hand_outs]

    def late(self, group: str, timeout: float | None) -> TimedOut:
        left = self.target - self.applied()
        why = f"{left} are not applied after {timeout:g} s"
        text = f"could not wait until all answers of the group {group!r} are applied: {why}"
        again = "call settled() again, which is safe; look with `orbitmq status` whether the dispatcher runs"
        return TimedOut(text, hint=again, timeout=timeout)

    def _ranges(self, hand_outs: Sequence[HandOut]) -> Iterator[tuple[int, int, int, int, int]]:
        """(queue slot, its opening, first, count, delivery), of messages that follow each other."""
        most, one = self._range_max, hand_outs[0]
        slot, opening, tries, first, end = one.slot, one.opening, one.delivery, one.offset, one.offset
        for each in hand_outs:
            if (
                each.offset == end and each.delivery == tries and each.slot == slot and each.opening == opening
                and end - first < most
            ):  # fmt: skip
                end += 1
                continue
            yield slot, opening, first, end - first, tries
            slot, opening, tries, first, end = each.slot, each.opening, each.delivery, each.offset, each.offset + 1
        yield slot, opening, first, end - first, tries
