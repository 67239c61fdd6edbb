"""A broker tree for a script or a test: started with an object, stopped with it."""

from __future__ import annotations

import itertools
import os
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from orbitmq.client.client import Client
from orbitmq.client.launch import Started, start_tree
from orbitmq.client.unclosed import state

_numbers = itertools.count(1)


class Broker(Client):
    """Starts a whole tree on the store at `path`, and has all of Client's methods. Other processes connect to `name`.

    It is the same tree of processes as `orbitmq up` starts; only this process's end stops it, however it comes. A
    forked child may use the object as a client; only the process that made it stops the tree.

    Args:
        path: root of the store; made when it is missing.
        name: of the broker; None: one that nobody else has.
        allow_deletion: messages may be deleted at once where a setting, or a default, keeps them for a shorter time, or in less
            room, than the store's last broker did.
        settings: those of `orbitmq up`, such as handlers=1, flush="batch", log_file_size=1 << 26. The store remembers them, for
            `orbitmq up` too. One that is None or left out is as the environment says (ORBITMQ_FLUSH=batch), else as the store
            remembers, else its default; docs/operations.md has the whole table.

    Raises: StoreLocked, StoreFull, StoreVersion, StoreSettingsError, StoreUnsupported, SettingError, WouldDelete,
    CorruptRecord, BrokerBroken."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        timeout: float = 5.0,
        allow_deletion: bool = False,
        **settings: Any,
    ) -> None:
        self._owner = os.getpid()
        name = name if name is not None else f"embedded-{self._owner}-{next(_numbers)}"
        options = {"name": name, "owner": self._owner, **settings}
        self._started: Started | None = start_tree(os.fspath(path), options, allow_deletion=allow_deletion)
        try:
            super().__init__(name, timeout=timeout)
        except BaseException:
            self._stop()
            raise

    @property
    def pid(self) -> int:
        """The supervisor's."""
        assert self._started is not None, "the broker was closed"
        return self._started.process.pid

    def close(self) -> None:
        """Closes the client and stops the tree; returns when no process of it is left."""
        super().close()
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _words(self) -> str:
        started = self._started
        return f"{self.name!r}, {'' if started is None else f'pid {started.process.pid}, '}{state(started is None)}"

    def _stop(self) -> None:
        if self._started is None or os.getpid() != self._owner:
            return
        process = self._started.process
        self._started = None
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait()
        except BaseException:
            # Ctrl-C while it stops: the tree must not outlive its owner's patience.
            process.kill()
            with suppress(subprocess.SubprocessError):
                process.wait()
            raise
