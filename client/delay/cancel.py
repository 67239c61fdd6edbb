"""Cancels delayed messages: sends a record for each, which lies behind it in its queue, and waits until the scheduler has said
what became of it (docs/delay.md, "Cancel").

The scheduler's answer stands whatever is killed. A call that ends before it has the answer may be repeated: to cancel twice
does no harm. The producer for these records is the client's, made when it is first needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from orbitmq.client.admin.status import read_positions
from orbitmq.client.connection.absence import given_up
from orbitmq.client.delay.cancel_producer import AT_ONCE, CancelProducer
from orbitmq.client.delay.cancel_target import Handle, Target, Targets, came
from orbitmq.errors import BrokerStopped, Closed, Full, OrbitError, PerhapsStored, TimedOut
from orbitmq.errors.remedy import as_hint, hint
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point

if TYPE_CHECKING:
    from orbitmq.client.connection.attachment import Attachment
    from orbitmq.native._types import Pending
    from orbitmq.shm.durability import Durability

LOOK_S = 0.001  # between two looks for an answer
_AGAIN = "what was not cancelled comes; repeating is safe"


class Cancelling:
    """One call. producer: gives the client's, in any thread. timeout: seconds for each AT_ONCE of the messages."""

    def __init__(self, attached: Attachment, producer: Callable[[], CancelProducer], timeout: float) -> None:
        self._attached = attached
        self._make_producer = producer
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._given_up = given_up.get()
        self._producer: CancelProducer | None = None

    def cancel(self, handles: Iterable[Handle], durability: Durability | None) -> list[bool]:
        """For each, whether it never comes. Raises: as Client.cancel_batch; UsageError before anything is sent."""
        targets = Targets(self._attached, self._wait)
        try:
            found = [targets.of(handle) for handle in handles]
        finally:
            targets.close()
        never: list[bool] = []
        for begin in range(0, len(found), AT_ONCE):
            never += self._part(found[begin : begin + AT_ONCE], durability)
        return never

    def _part(self, targets: list[Target | None], durability: Durability | None) -> list[bool]:
        """The time starts anew."""
        self._deadline = time.monotonic() + self._timeout
        now_ms = _now_ms()
        early = [each for each in targets if each is not None and each.due_ms > now_ms]
        if not early:
            return [False] * len(targets)
        producer = self._producer = self._sender(early[0])
        crash_point("cancel_sending")
        sent = [(each, self._send(producer, each, durability)) for each in early]
        stored = [(each, self._receipt(each, pending)) for each, pending in sent]
        crash_point("cancel_sent")
        outcomes = {id(each): self._outcome(each, offset) for each, offset in stored}
        return [outcomes.get(id(each), False) for each in targets]

    def _sender(self, target: Target) -> CancelProducer:
        """With a session at the broker in which the targets were found: their offsets mean something there only."""
        try:
            producer = self._make_producer()
            producer.prepare()
        except OrbitError as error:
            raise _failed(target, error) from None
        if producer.generation != self._attached.generation:
            raise self._stopped("it was started again meanwhile")
        return producer

    def _send(self, producer: CancelProducer, target: Target, durability: Durability | None) -> Pending:
        left = max(0.0, self._deadline - time.monotonic())
        try:
            return producer.send_cancel(target.topic, target.queue, target.offset, durability, left)
        except TimedOut:
            raise self._too_late(target.name, "there was no room for the record that cancels it") from None
        except OrbitError as error:
            raise _failed(target, error) from None

    def _receipt(self, target: Target, pending: Pending) -> int:
        """The queue offset of the record that cancels it."""
        try:
            return pending.result(max(0.0, self._deadline - time.monotonic())).offset
        except TimedOut:
            raise self._too_late(target.name, "the record that cancels it was not stored in time") from None
        except PerhapsStored:
            raise self._stopped("it may be cancelled or not") from None
        except OrbitError as error:
            raise _failed(target, error) from None

    def _outcome(self, target: Target, offset: int) -> bool:
        found = lib.CANCEL_OPEN

        def decided() -> bool:
            nonlocal found
            found = outcome_of(self._attached, offset)
            return bool(found != lib.CANCEL_OPEN)

        self._wait(decided, "the scheduler has not read the record that cancels it", target.name)
        if found == lib.CANCEL_REFUSED:
            text = f"could not cancel {target.name!r}: too many messages are stored between the oldest that waits and this one"
            raise Full(text, hint="it may come or not; repeat the call after that one has come", limit="cancels")
        if found == lib.CANCEL_FORGOTTEN or (found == lib.CANCEL_LATE and target.due_ms > _now_ms()):
            return self._seen(target)
        return bool(found == lib.CANCEL_NEVER)

    def _seen(self, target: Target) -> bool:
        """Whether it never comes, by the log. For one that is done with before its time: it was cancelled before, unless the
        clock was set back after it had come. And for one whose outcome the broker has forgotten."""
        end = read_positions(self._attached).wrote
        self._wait(lambda: read_positions(self._attached).reput >= end, "the queues are behind the log", target.name)
        if not came(self._attached, target):
            if target.due_ms > _now_ms():
                return True
            self._wait(lambda: came(self._attached, target), "nobody knows whether it comes", target.name)
        return False

    def _wait(self, ready: Callable[[], bool], why: str, name: str = "") -> None:
        """Returns when `ready` does not say no any more. why: it says no. Raises: TimedOut, BrokerStopped, Closed."""
        while not ready():
            if (self._given_up is not None and self._given_up.rung) or (self._producer is not None and self._producer.closed):
                text = "could not wait until a message was cancelled: the client was closed"
                raise Closed(text, hint="it may be cancelled or not; repeating is safe")
            if not self._attached.alive():
                raise self._stopped("it may be cancelled or not")
            if time.monotonic() >= self._deadline:
                raise self._too_late(name, why)
            self._attached.pause(LOOK_S)

    def _too_late(self, name: str, why: str) -> TimedOut:
        what = repr(name) if name else "a message"
        return TimedOut(
            f"could not cancel {what} within {self._timeout:g} s: {why}",
            hint=hint("raise {timeout} || look with `orbitmq status` what the broker does").assuring(
                "it may be cancelled or not; repeating is safe"
            ),
            timeout=self._timeout,
        )

    def _stopped(self, what: str) -> BrokerStopped:
        broker = self._attached.description.name
        return BrokerStopped(
            f"could not cancel a message: the broker {broker!r} stopped before it had said what became of it; {what}",
            hint="repeating is safe, once a broker runs: orbitmq up",
            broker=broker,
        )


def outcome_of(attached: Attachment, offset: int) -> int:
    """What became of the record that cancels a message, by its queue offset: a CANCEL_ of `lib`."""
    return int(lib.delay_cancel_outcome(attached.control, offset))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _failed(target: Target, error: OrbitError) -> OrbitError:
    text = f"could not cancel {target.name!r}: {error.message}"
    return error.reworded(text, error.remedy.assuring(_AGAIN) if error.remedy else as_hint(_AGAIN))
