"""The errors of requests to servers: nobody answers, the answer is damaged, or it refuses."""

from __future__ import annotations

import time
from collections.abc import Sequence

from orbitmq.errors import ProtocolError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.store.settings.listen_address import ListenAddress

PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)


class Patience:
    """Lets pass the time that somebody may need to come back, with longer and longer pauses. seconds: of all of them."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pauses = 0

    @property
    def left(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def over(self) -> bool:
        """False after another pause."""
        pause = min(PAUSES_S[min(self._pauses, len(PAUSES_S) - 1)], self._deadline - time.monotonic())
        if pause <= 0:
            return True
        self._pauses += 1
        time.sleep(pause)
        return False


def silent(what: str, addresses: Sequence[ListenAddress], why: str, topic: str | None, timeout: float) -> TimedOut:
    """what: "a route", for instance."""
    return TimedOut(
        f"{_could_not(what, addresses, topic)} within {timeout:g} s: {why}",
        hint=hint("give another address in {servers of spark} || wait longer with {timeout of spark}"),
        timeout=timeout,
        topic=topic,
        operation=what,
        option="timeout",
    )


def damaged(what: str, addresses: Sequence[ListenAddress], why: str, topic: str | None = None) -> ProtocolError:
    return ProtocolError(
        f"{_could_not(what, addresses, topic)}: the answer is damaged: {why}",
        hint=hint("{servers of spark} names a server of RocketMQ's protocol, such as OrbitMQ's gateway"),
        operation=what,
        topic=topic,
    )


def refused(what: str, address: ListenAddress, why: str, topic: str | None, number: int) -> ProtocolError:
    return ProtocolError(f"{_could_not(what, [address], topic)}: it answers {why}", operation=what, topic=topic, code=number)


def not_believed(what: str, address: ListenAddress, why: str, topic: str | None) -> ProtocolError:
    return ProtocolError(
        f"{_could_not(what, [address], topic)}: its certificate is not believed: {why}",
        hint=hint("name the file of its certificate, or of its issuer, in {tlsTrust of spark}"),
        operation=what,
        topic=topic,
    )


def _could_not(what: str, addresses: Sequence[ListenAddress], topic: str | None) -> str:
    of = f" of topic {topic!r}" if topic else ""
    return f"could not get {what}{of} from {', '.join(map(str, addresses))} of option servers"
