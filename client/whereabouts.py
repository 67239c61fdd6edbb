"""Where a client looks for its broker: under its name in the runtime folder."""

from __future__ import annotations

import os
from pathlib import Path

from orbitmq.errors import BrokerNotRunning, NoPermission
from orbitmq.shm import runtime


class Whereabouts:
    """name: the broker's; None: $ORBITMQ_BROKER, else "default".

    Raises: SettingError: no name."""

    def __init__(self, name: str | None) -> None:
        self.name = runtime.broker_name(name)

    @property
    def folder(self) -> Path:
        """Something happens here when the broker comes or goes."""
        return runtime.runtime_folder()

    def describe(self) -> runtime.Description | None:
        """What a running or dead broker has left there. Raises: SettingError; NoPermission: it is another user's."""
        return runtime.read_description(self.name)

    def socket_path(self, description: runtime.Description) -> Path:
        return runtime.socket_path(description.name)

    def absent(self, starting: bool) -> BrokerNotRunning:
        what = "it is still starting, or stopping" if starting else "none runs under this name"
        start = "orbitmq up" if self.name == "default" else f"orbitmq up --name {self.name}"
        text = f"cannot connect to the broker {self.name!r}, {what}"
        return BrokerNotRunning(text, hint=f"start it: {start}", broker=self.name, starting=starting)

    def refused(self) -> NoPermission:
        return NoPermission(
            f"cannot connect to the broker {self.name!r}, its control socket is not for uid {os.geteuid()}",
            hint=runtime.ASK_OPERATOR,
            broker=self.name,
        )
