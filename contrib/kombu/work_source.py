"""A queue that outlives its consumers: a topic, whose messages the workers of its group share."""

from __future__ import annotations

import logging
import threading
import time

from orbitmq.client.work.hand_out import HandOut
from orbitmq.contrib.kombu.envelope import unpacked, was_kept
from orbitmq.contrib.kombu.link import INDEXED_S, Link
from orbitmq.contrib.kombu.names import topic_of
from orbitmq.contrib.kombu.source import Arrival, Source
from orbitmq.errors import CorruptRecord, TimedOut

LOOK_S = 0.02  # between two looks whether there is a message for `get`
PURGE_AT_ONCE = 1000
PURGE_S = 30.0
_logger = logging.getLogger("orbitmq")


class WorkSource(Source):
    """Opens the session. Raises: BrokerNotRunning, Full."""

    def __init__(self, queue: str, news: threading.Condition, link: Link) -> None:
        super().__init__(queue, news)
        self.topic = topic_of(queue)
        self._link = link
        self._session = link.session(self.topic)

    # ---- a Giver

    def ack(self, hand_out: HandOut) -> None:
        self._session.ack((hand_out,))

    def requeue(self, hand_out: HandOut) -> None:
        self._session.nack(hand_out, 0.0, "requeued by its consumer")

    def give_back(self, hand_out: HandOut) -> None:
        self._session.give_back((hand_out,))

    def extend(self, hand_out: HandOut, seconds: float) -> None:
        self._session.extend(hand_out, seconds)

    def too_late(self) -> list[str]:
        return [f"{each.message.topic}/{each.message.queue}@{each.message.offset}" for each in self._session.settled(0.0)]

    # ---- more

    def purge(self) -> int:
        """Acknowledges all that nobody has. Returns how many."""
        count = 0
        try:
            while found := self._at_hand(PURGE_AT_ONCE):
                self._session.ack(found)
                count += len(found)
        finally:
            self._want_no_more()
        self._session.settled(PURGE_S)
        return count

    def close(self) -> None:
        super().close()
        self._session.close(5.0)

    # ---- a Source

    def _take(self) -> Arrival | None:
        try:
            found = self._session.take(1, None)
        except CorruptRecord as error:  # the broker offers it again later, and others meanwhile
            _logger.error("could not read a message of the queue %r: %s", self.queue, error)
            return None
        return _arrival(found[0]) if found else None

    def _get(self) -> Arrival | None:
        try:
            found = self._at_hand(1)
        finally:
            self._want_no_more()
        return _arrival(found[0]) if found else None

    def _interrupt(self) -> None:
        self._session.interrupt()

    def _rest(self, arrival: Arrival | None) -> None:
        self._session.give_back((arrival.hand_out,) if arrival is not None else ())

    def _at_hand(self, most: int) -> list[HandOut]:
        """What nobody has, of all that was sent before this call, or of what reput, which hangs, had indexed. Afterwards the
        broker goes on handing things to this session, until `_want_no_more`.

        Raises: TimedOut: there is something, and the broker does not hand it out."""
        link, sent = self._link, self._link.wrote()
        begun = time.monotonic()
        while not (found := self._session.take(most, LOOK_S)):
            waited = time.monotonic() - begun
            left = max(0.0, min(INDEXED_S, link.options.timeout) - waited)
            if (not left or link.reached(sent)) and not link.free(self.topic, left):
                return self._session.take(most, 0.0)  # none is free if this session has got it since the look
            if waited >= link.options.timeout:
                raise self._stuck(link.options.timeout)
        return found

    def _want_no_more(self) -> None:
        """So that nothing is handed to this session while nobody asks."""
        if not self._wanted:
            self._session.give_back(())

    def _stuck(self, timeout: float) -> TimedOut:
        return TimedOut(
            f"could not get what waits in the queue {self.queue!r} within {timeout:g} s: the broker does not hand it out",
            hint="settle some if this connection has many messages, look with `orbitmq health` what holds the broker up, or "
            "raise the transport option timeout",
            topic=self.topic,
            timeout=timeout,
        )


def _arrival(hand_out: HandOut) -> Arrival:
    payload = unpacked(bytes(hand_out.message))
    was_kept(payload)
    if hand_out.delivery > 1:
        payload["properties"]["delivery_info"]["redelivered"] = True
    return Arrival(payload, hand_out)
