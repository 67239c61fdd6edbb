"""Failures of the broker."""

from __future__ import annotations

from typing import Unpack

from orbitmq.errors.root import Common, OrbitError, Retry


class BrokerError(OrbitError):
    """Another failure of the broker."""

    def __init__(self, message: str, *, pid: int | None = None, **common: Unpack[Common]) -> None:
        super().__init__(message, **common)
        self.pid = pid

    @property
    def _retry(self) -> Retry:
        return Retry.LOOK_FIRST


class BrokerNotRunning(BrokerError):
    """No broker answers under this name, or on this store.

    starting: a broker is about to come, or to go. wait: seconds that the call waited in vain."""

    def __init__(
        self,
        message: str,
        *,
        broker: str | None = None,
        store: str | None = None,
        segment: str | None = None,
        starting: bool | None = None,
        wait: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.broker = broker
        self.store = store
        self.segment = segment
        self.starting = starting
        self.wait = wait

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class BrokerStopped(BrokerError):
    """The broker stopped or died while this client was connected. operation: what it was asked."""

    def __init__(
        self, message: str, *, broker: str | None = None, operation: str | None = None, **common: Unpack[Common]
    ) -> None:
        super().__init__(message, **common)
        self.broker = broker
        self.operation = operation

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class PerhapsStored(BrokerStopped):
    """The broker died with this send in flight: the message may or may not be in the log."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        broker: str | None = None,
        operation: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.topic = topic
        self.broker = broker
        self.operation = operation

    @property
    def _retry(self) -> Retry:
        return Retry.LOOK_FIRST


class BrokerBroken(BrokerError):
    """A broker could not be started, or gave up because an actor died more often than its restart intensity allows.

    code: exit code of its supervisor. path: what another program removed."""

    def __init__(
        self,
        message: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        code: int | None = None,
        store: str | None = None,
        path: str | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.actor = actor
        self.reason = reason
        self.code = code
        self.store = store
        self.path = path

    @property
    def _retry(self) -> Retry:
        return Retry.AFTER_CHANGE


class ProtocolError(BrokerError):
    """An answer that does not fit the question: a bug of OrbitMQ's, or another version."""

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        topic: str | None = None,
        code: int | None = None,
        segment: str | None = None,
        fault: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.operation = operation
        self.topic = topic
        self.code = code
        self.segment = segment
        self.fault = fault

    @property
    def _retry(self) -> Retry:
        return Retry.AFTER_CHANGE
