"""There is no room, the time is over, or the object that was waited with is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from orbitmq.errors.root import Common, OrbitError, Retry


class Room(Common, total=False):
    """What is full; see Full."""

    limit: str | None
    topic: str | None
    size: int | None
    value: int | None
    most: int | None


class Full(OrbitError):
    """No room now.

    limit: what is full; size or most: how much there is; value: how much is taken. A later retry helps."""

    def __init__(
        self,
        message: str,
        *,
        limit: str | None = None,
        topic: str | None = None,
        size: int | None = None,
        value: int | None = None,
        most: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.limit = limit
        self.topic = topic
        self.size = size
        self.value = value
        self.most = most

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class NoMeans(Full):
    """This process gets no descriptor, mapping, thread or memory now.

    limit: which of them. errno: of the system. What the process had stays usable, and the call succeeds once the resource is
        there again."""

    def __init__(self, message: str, *, errno: int | None = None, **room: Unpack[Room]) -> None:
        super().__init__(message, **room)
        self.errno = errno


class TimedOut(OrbitError, TimeoutError):
    """The caller's time limit is over.

    timeout: seconds. operation: what was asked of the broker. in_flight: messages without a verdict. missing: bytes of the log
        for which the call waited. query: of Spark. pending: a message that is on its way; without it, a send has not left this
        process."""

    def __init__(
        self,
        message: str,
        *,
        timeout: float | None = None,
        topic: str | None = None,
        operation: str | None = None,
        broker: str | None = None,
        in_flight: int | None = None,
        missing: int | None = None,
        query: str | None = None,
        option: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.timeout = timeout
        self.topic = topic
        self.operation = operation
        self.broker = broker
        self.in_flight = in_flight
        self.missing = missing
        self.query = query
        self.option = option

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE if self.pending is None else Retry.LOOK_FIRST


class Waited(Common, total=False):
    """What a call waited for; see TimedOut."""

    timeout: float | None
    topic: str | None


class RequestTimeout(TimedOut):
    """No reply to a request came in time. A reply that comes later is dropped.

    receipt: of the request, which is stored; None: it is not known whether it is. correlation_id: the request's."""

    def __init__(
        self, message: str, *, receipt: object | None = None, correlation_id: str | None = None, **waited: Unpack[Waited]
    ) -> None:
        super().__init__(message, **waited)
        self.receipt: Any = receipt
        self.correlation_id = correlation_id

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE if self.receipt is None and self.pending is None else Retry.LOOK_FIRST


class Closed(OrbitError):
    """This program closed the producer, consumer or client; or the process from which this one was forked sent the message."""

    def __init__(self, message: str, *, topic: str | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.topic = topic

    @property
    def _retry(self) -> Retry:
        return Retry.NO


class Interrupted(OrbitError):
    """The consumer's `interrupt` ended this wait. Nothing was taken; the next call works."""

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class Fenced(OrbitError):
    """Messages came from queues that this consumer no longer has, or from another session; they come again.

    queues: of a commit, those that it could not store; all others were committed."""

    def __init__(
        self,
        message: str,
        *,
        group: str | None = None,
        queues: Sequence[tuple[str, int]] | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.group = group
        self.queues = queues

    @property
    def _retry(self) -> Retry:
        return Retry.NO


class JobLost(OrbitError):
    """A worker was no longer the owner of jobs when it settled them: their time was over, or the broker was restarted. Their
    messages come again, here or at another worker.

    ids: of the messages."""

    def __init__(self, message: str, *, ids: Sequence[str] | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.ids = ids

    @property
    def _retry(self) -> Retry:
        return Retry.NO


class TransactionSettled(OrbitError):
    """The transaction has ended before.

    outcome: "committed" or "rolled back"; None: the broker does not remember which."""

    def __init__(self, message: str, *, outcome: str | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.outcome = outcome

    @property
    def _retry(self) -> Retry:
        return Retry.NO
