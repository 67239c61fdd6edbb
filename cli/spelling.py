"""How users of the command change a setting: with an option of the command that they ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orbitmq.errors import OrbitError
from orbitmq.errors.remedy import Face, Knob, library

# Arguments of the library, some with a value, for which there is an option of another name.
OPTIONS = {"tags": "tag", "keys": "key", "choice=cut": "cut", "choice=skip": "skip"}
# Settings with an option of `orbitmq up`. It accepts all others with --set.
OF_UP = (
    "acl", "flush", "flush_interval_ms", "gateway", "gateways", "handlers", "listen", "log_file", "log_file_size", "log_format",
    "log_level", "message_max", "namesrv", "retention_hours", "retention_bytes",
)  # fmt: skip

_RUNNING: list[Callable[[], Any]] = []


def hint_of(error: OrbitError) -> str | None:
    """The error's hint for the user who ran this command. A value that came from a file or a variable has to be changed
    there."""
    if error.remedy is None:
        return None
    command = _RUNNING[0]() if _RUNNING else None
    return error.remedy.spelled(spelled_by(command) if error.face is library else error.face)


def runs(command: Callable[[], Any]) -> None:
    """Notes which command runs in this process, for the case that there is an error to show."""
    _RUNNING[:] = [command]


def named_by(words: Sequence[str], command: Any) -> Any:
    """The command, as a typer object, that these words name in a group of commands; the group if they name none."""
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command = inner
    return command


def spelled_by(command: Any) -> Face:
    """The face of one command; None: of no command. A knob without an option is not for its users, unless it is a setting of
    the broker."""
    name = (command.name if command else None) or ""
    parameters = command.params if command else ()
    options = {parameter.name: max(parameter.opts, key=len) for parameter in parameters if parameter.opts[0][0] == "-"}

    def spelled(knob: Knob) -> str | None:
        if knob.of == "broker":
            return _setting(knob, name)
        # The option --timeout of `down` is the one of connect; that of other commands is not.
        if knob.of not in ("", "connect") or (knob.of == "connect" and name != "down"):
            return None
        valued = f"{knob.name}={knob.value}"
        option = options.get(OPTIONS.get(valued, OPTIONS.get(knob.name, knob.name)))
        if option is not None:
            alone = knob.value is None or isinstance(knob.value, bool) or valued in OPTIONS
            return option if alone else f"{option} {knob.value}"
        return _setting(knob, name) if name in ("up", "set") else None

    return spelled


def _setting(knob: Knob, command: str) -> str:
    """Spells a setting of the broker by what is typed to set it."""
    value = str(knob.value).lower() if isinstance(knob.value, bool) else knob.value
    if command == "set":
        return knob.name if value is None else f"{knob.name}={value}"
    if knob.name in OF_UP:
        option = "--" + "-".join(knob.name.split("_"))
        typed = option if value is None or knob.value is True else f"{option} {value}"
    else:
        typed = f"--set {knob.name}=..." if value is None else f"--set {knob.name}={value}"
    return typed if command == "up" else f"{typed} of orbitmq up"
