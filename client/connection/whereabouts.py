"""Where a client looks for its broker: under its name in the runtime folder, or in the store that it runs on."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from shlex import quote

from orbitmq.errors import BrokerNotRunning, NoPermission, SettingError
from orbitmq.errors.remedy import all_of, hint
from orbitmq.shm import runtime
from orbitmq.store import broker_file
from orbitmq.store.layout import StoreLayout


class Whereabouts(ABC):
    """name: the broker's, as far as it is known; for error messages."""

    name: str

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder in which something changes when the broker comes or goes."""

    @abstractmethod
    def describe(self) -> runtime.Description | None:
        """The description that a running or dead broker has left there. Raises: SettingError; NoPermission: it is another
        user's."""

    @abstractmethod
    def socket_path(self, description: runtime.Description) -> Path:
        """The path of its control socket."""

    @abstractmethod
    def absent(self, starting: bool) -> BrokerNotRunning:
        """The error for a broker that is not there."""

    def refused(self) -> NoPermission:
        return NoPermission(
            f"cannot connect to the broker {self.name!r}: uid {os.geteuid()} may not use its control socket",
            hint=runtime.ASK_OPERATOR,
            broker=self.name,
        )


class ByName(Whereabouts):
    """name: None: $ORBITMQ_BROKER, else "default". Raises: SettingError: the name is not valid."""

    def __init__(self, name: str | None) -> None:
        self.name = runtime.broker_name(name)

    @property
    def folder(self) -> Path:
        return runtime.runtime_folder()

    def describe(self) -> runtime.Description | None:
        return runtime.read_description(self.name)

    def socket_path(self, description: runtime.Description) -> Path:
        return runtime.socket_path(description.name)

    def absent(self, starting: bool) -> BrokerNotRunning:
        what = "it is still starting, or stopping" if starting else "none runs under this name"
        start = "orbitmq up" if self.name == "default" else f"orbitmq up --name {quote(self.name)}"
        text = f"cannot connect to the broker {self.name!r}, {what}"
        others = [] if starting else runtime.folders_of_others()
        another = f"name the runtime folder of another user's: ORBITMQ_RUNTIME_DIR={others[0]}" if others else None
        known = all_of(f"start it: {start}", another)
        return BrokerNotRunning(text, hint=known, broker=self.name, starting=starting)


class ByStore(Whereabouts):
    """The broker that runs on a store, whatever its name and its runtime folder."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._layout = StoreLayout.at(Path(store).absolute())
        self.name = str(self._layout.root)

    @property
    def folder(self) -> Path:
        return self._layout.own

    def describe(self) -> runtime.Description | None:
        found = broker_file.read(self._layout)
        if found is not None:
            self.name = found.name
        return found

    def socket_path(self, description: runtime.Description) -> Path:
        """Raises: SettingError: the folder was cleared, and is in a place where another user could have put a folder of
        theirs."""
        owner = self._layout.own.stat().st_uid
        runtime.check_folder(description.socket.parent, {os.geteuid(), owner, 0})
        return description.socket

    def absent(self, starting: bool) -> BrokerNotRunning:
        root = self._layout.root
        what = "it is still starting, or stopping" if starting else "none runs on it"
        text = f"cannot connect to the broker of the store {str(root)!r}, {what}"
        start = f"orbitmq up --store {quote(str(root))}"
        return BrokerNotRunning(text, hint=f"start it: {start}", store=str(root), starting=starting)


def whereabouts(name: str | None, store: str | os.PathLike[str] | None) -> Whereabouts:
    """Raises: SettingError: the name is not valid, or both name and store are given."""
    if store is None:
        return ByName(name)
    if name is None:
        return ByStore(store)
    raise SettingError(
        f"cannot connect to the broker {name!r} of the store {str(store)!r}: give either the name or the store, not both",
        hint=hint("leave out {name} || leave out {store}"),
        setting="store",
        value=str(store),
    )
