"""Failures of exports."""

from __future__ import annotations

from typing import Unpack

from orbitmq.errors.requests import UsageError
from orbitmq.errors.root import Common, OrbitError, Retry


class ExportPlace(Common, total=False):
    """The place of an error; see ExportError."""

    path: str | None
    topic: str | None
    queue: int | None


class ExportError(OrbitError):
    """A folder that topics are exported to; `path` is in it, or a file there."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        topic: str | None = None,
        queue: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(message, **common)
        self.path = path
        self.topic = topic
        self.queue = queue


class ExportBusy(ExportError):
    """Another export is running there; `holder` says which one, for people."""

    def __init__(self, message: str, *, holder: str | None = None, **place: Unpack[ExportPlace]) -> None:
        super().__init__(message, **place)
        self.holder = holder

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE


class ExportDiffers(ExportError, UsageError):
    """What is there already came from another store, has other columns or other folders, or is not an export's."""

    def __init__(self, message: str, *, store: str | None = None, **place: Unpack[ExportPlace]) -> None:
        super().__init__(message, **place)
        self.store = store


class ExportDamaged(ExportError):
    """The manifest cannot be read, or does not fit the files."""


class ExportFailed(ExportError):
    """A file could not be written; `errno` says why."""

    def __init__(self, message: str, *, errno: int | None = None, **place: Unpack[ExportPlace]) -> None:
        super().__init__(message, **place)
        self.errno = errno

    @property
    def _retry(self) -> Retry:
        return Retry.SAFE
