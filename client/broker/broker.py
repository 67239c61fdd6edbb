"""A broker tree for a script or a test: an object that starts it and stops it."""

from __future__ import annotations

import itertools
import os
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from orbitmq.client.broker.launch import Started, start_tree
from orbitmq.client.broker.log import BrokerLog
from orbitmq.client.client import Client
from orbitmq.client.parameters import refuse_option
from orbitmq.client.unclosed import state
from orbitmq.store.settings.tree_settings import KINDS

if TYPE_CHECKING:
    from orbitmq.client.setting_types import BrokerSettings

_numbers = itertools.count(1)


class Broker(Client):
    """Starts a whole broker on the store at `path`, and has all methods of Client. Other processes connect to `name`.

    It is the same tree of processes that `orbitmq up` starts. What they say goes to this program's logging, below the logger
    "orbitmq.broker". The broker ends when this process ends, however that happens. A forked child may use the
    object as a client; only the process that made it stops the broker.

    Args:
        path: root folder of the store; it is made if it does not exist.
        name: of the broker; None: a name that nobody else has.
        allow_deletion: allow messages to be deleted at once because a setting, or a default, keeps them for a shorter time, or
            in less room, than the store's last broker did.
        settings: those of `orbitmq up`, such as handlers=1, flush="batch", log_file_size=1 << 26. The store remembers them, for
            `orbitmq up` too. If a setting is None or left out, it comes from the environment (ORBITMQ_FLUSH=batch), else from
            what the store remembers, else from the default; docs/operations.md has the whole table.

    Raises: StoreLocked, StoreFull, StoreVersion, StoreSettingsError, StoreUnsupported, SettingError, WouldDelete,
        CorruptRecord, BrokerBroken."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        timeout: float = 5.0,
        allow_deletion: bool = False,
        **settings: Unpack[BrokerSettings],
    ) -> None:
        given: dict[str, Any] = {**settings}
        for setting in given.keys() - KINDS.keys():
            raise refuse_option("Broker", setting, given[setting], {*KINDS, "timeout", "allow_deletion"} - {"owner"})
        self._owner = os.getpid()
        name = name if name is not None else f"embedded-{self._owner}-{next(_numbers)}"
        options = {"name": name, "owner": self._owner, **settings}
        self._log = BrokerLog(name)
        try:
            self._started: Started | None = start_tree(
                os.fspath(path), options, allow_deletion=allow_deletion, errors_to=self._log.writer, records=True
            )
        except BaseException:
            self._log.end()
            raise
        finally:
            os.close(self._log.writer)
        try:
            super().__init__(name, timeout=timeout)
        except BaseException:
            self._stop()
            raise

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self._started is not None, "the broker was closed"
        return self._started.process.pid

    def close(self) -> None:
        """Closes the client and stops the broker. Returns when no process of it is left."""
        try:
            super().close()
        finally:  # also if a callback of the program raises, or messages are in flight for too long
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
            self._log.end()
        except BaseException:
            # Ctrl-C during the stop: the broker must not run on when its owner does not wait for it any longer.
            process.kill()
            with suppress(subprocess.SubprocessError):
                process.wait()
            raise
