"""Failures of the store and its disk."""

from __future__ import annotations

from typing import Unpack

from orbitmq.errors.root import Common, OrbitError, Retry


class Place(Common, total=False):
    """The place of an error; see StoreError."""

    path: str | None
    errno: int | None
    offset: int | None
    topic: str | None
    queue: int | None
    queue_offset: int | None
    fault: int | None


class StoreError(OrbitError):
    """A file of the store could not be read.

    offset: physical. queue_offset: of the message, in this queue of this topic. fault: of the record, a number of the core."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        errno: int | None = None,
        offset: int | None = None,
        topic: str | None = None,
        queue: int | None = None,
        queue_offset: int | None = None,
        fault: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.path = path
        self.errno = errno
        self.offset = offset
        self.topic = topic
        self.queue = queue
        self.queue_offset = queue_offset
        self.fault = fault


class StoreLocked(StoreError):
    """Another broker, or a repair, holds this store. holder: which one, for people. dying: it is about to release the store."""

    def __init__(
        self,
        message: str,
        *,
        pid: int | None = None,
        holder: str | None = None,
        dying: bool | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.pid = pid
        self.holder = holder
        self.dying = dying

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class StoreVersion(StoreError):
    """A version of OrbitMQ that this one does not know wrote the store."""

    def __init__(self, message: str, *, version: object = None, known: int | None = None, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.version = version
        self.known = known


class StoreSettingsError(StoreError):
    """The store's files have other sizes than the settings say; bytes."""

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        value: int | None = None,
        stored: int | None = None,
        size: int | None = None,
        expected: int | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.name = name
        self.value = value
        self.stored = stored
        self.size = size
        self.expected = expected


class StoreFull(StoreError):
    """No room on the disk or in shared memory, or no descriptor or mapping left for the next file; bytes."""

    def __init__(
        self,
        message: str,
        *,
        mount: str | None = None,
        need: int | None = None,
        free: int | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.mount = mount
        self.need = need
        self.free = free

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class StoreFailed(StoreError):
    """A write or sync failed; the log accepts no more.

    physical_offset: of a message that was appended before, and may not be on the disk. missing: bytes of the log for which the
        call waited, from this broker. option: of Spark's."""

    def __init__(
        self,
        message: str,
        *,
        physical_offset: int | None = None,
        broker: str | None = None,
        missing: int | None = None,
        option: str | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.physical_offset = physical_offset
        self.broker = broker
        self.missing = missing
        self.option = option

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE if self.physical_offset is None else Retry.LOOK_FIRST


class StoreUnsupported(StoreError):
    """A folder or file system cannot hold a store, or not for this user; or a body has an unknown form."""

    def __init__(self, message: str, *, mount: str | None = None, kind: str | None = None, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.mount = mount
        self.kind = kind


class CorruptRecord(StoreError):
    """A record of the log is not what was written; `offset` is its physical offset."""
