"""There is no room, no time is left, or what was waited with is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from orbitmq.errors.root import Common, OrbitError, Retry


class Room(Common, total=False):
    """Of what there is none; see Full."""

    limit: str | None
    topic: str | None
    size: int | None
    value: int | None
    most: int | None


class Full(OrbitError):
    """No room now.

    limit: of what; size or most: how much there is; value: how much is taken. Trying again later helps."""

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
    def retry(self) -> Retry:
        return Retry.SAFE


class NoMeans(Full):
    """This process gets no descriptor, mapping, thread or memory now.

    limit: of which. errno: the system's word. What it had stays usable, and what failed succeeds once there are some again."""

    def __init__(self, message: str, *, errno: int | None = None, **room: Unpack[Room]) -> None:
        super().__init__(message, **room)
        self.errno = errno


class TimedOut(OrbitError, TimeoutError):
    """The wait that the caller bounded is over.

    timeout: seconds. operation: what was asked of the broker. in_flight: messages without a verdict. missing: bytes of the log
    that were waited for. query: of Spark. pending: a message that is on its way; without, a send has not left this process."""

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
    def retry(self) -> Retry:
        return Retry.SAFE if self.pending is None else Retry.LOOK_FIRST


class Closed(OrbitError):
    """This producer, consumer or client was closed by its owner; or the message was sent by the process that this one
    was forked from."""

    def __init__(self, message: str, *, topic: str | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.topic = topic

    @property
    def retry(self) -> Retry:
        return Retry.NO


class Interrupted(OrbitError):
    """The consumer's `interrupt` ended this wait. Nothing was taken; the next call goes on."""

    @property
    def retry(self) -> Retry:
        return Retry.SAFE


class Fenced(OrbitError):
    """Messages came from queues that are not this consumer's any more, or from another session; they come again.

    queues: of a commit, those that it could not keep; all others were committed."""

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
    def retry(self) -> Retry:
        return Retry.NO
