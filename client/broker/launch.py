"""Starts a broker tree as a program of its own, and waits until it reports that it runs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from orbitmq.errors import BrokerBroken
from orbitmq.shm.frames import error_raised


@dataclass(frozen=True, slots=True)
class Started:
    """A running tree. process is its supervisor, a child of this process."""

    process: subprocess.Popen[bytes]
    name: str
    generation: int
    store: str


class Supervisor(subprocess.Popen[bytes]):
    """A process whose owner warns, in better words, if it is left running (client/broker/broker.py); so Popen's own warning is
    switched off."""

    def __del__(self) -> None:
        super().__del__(_warn=lambda *_, **__: None)  # type: ignore[call-arg]


def how_ended(code: int) -> str:
    """A process's exit code in words."""
    return f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"


def why_ended(code: int, otherwise: str) -> str:
    """Where to look for the reason. If memory runs out, the kernel kills processes without a message."""
    return "if nobody did it by hand, look whether memory ran out (dmesg)" if code == -signal.SIGKILL else otherwise


def start_tree(
    store: str,
    options: dict[str, Any],
    *,
    allow_deletion: bool = False,
    errors_to: int | IO[Any] | None = None,
    records: bool = False,
    log_file: str = "",
    progress: Callable[[str], None] | None = None,
    told: Callable[[Started], None] | None = None,
) -> Started:
    """Starts the supervisor and waits until every actor runs. If this process ends before that, or before `told` has returned,
    the tree ends too.

    Args:
        store: root folder of the store; it is made if it does not exist.
        options: settings of store/settings/tree_settings.py, by name; None: not given. They override the environment, what
            the store remembers, and defaults, and the store remembers them.
        allow_deletion: allow messages to be deleted at once because they are to be kept for a shorter time, or in less room.
        errors_to: where the lines of the tree's log go if it has no file; None: this process's error output.
        records: they are to be records (shm/event.py), for a program.
        log_file: where they go if no setting names a file.
        progress: called with lines about the recovery.
        told: called with the running tree, to pass on its messages. If it raises, the tree ends.

    Raises: what the supervisor met: SettingError, WouldDelete, StoreLocked, StoreFull, StoreVersion, StoreSettingsError,
        StoreUnsupported, CorruptRecord ...; BrokerBroken: it died without a message."""
    content = {
        "store": store, "options": options, "allow_deletion": allow_deletion, "records": records, "log_file": log_file,
    }  # fmt: skip
    process, ours = _spawned(content, errors_to)
    try:
        with ours:
            started = _heard(process, ours, progress, told)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if started is not None:
        return started
    code = process.wait()
    raise BrokerBroken(
        f"cannot start the broker on {store}, its supervisor {how_ended(code)}",
        hint=why_ended(code, "see its log, or its error output"),
        store=store,
        code=code,
    )


def _spawned(content: dict[str, Any], errors_to: int | IO[Any] | None) -> tuple[Supervisor, socket.socket]:
    """The supervisor's process, and the socket on which it tells how it gets on."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    arguments = [sys.executable, "-m", "orbitmq.actors.supervisor.supervisor", json.dumps(content), str(number)]
    try:
        # A session of its own, so that Ctrl-C in the starter's terminal reaches only the starter, which passes it on.
        process = Supervisor(
            arguments,
            pass_fds=(number,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            # A tree that outlives its starter must not hold a pipe open that another program reads to its end.
            stdout=subprocess.DEVNULL,
            stderr=errors_to,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def _heard(
    process: Supervisor,
    ours: socket.socket,
    progress: Callable[[str], None] | None,
    told: Callable[[Started], None] | None,
) -> Started | None:
    """Listens until the tree runs; None: the supervisor has ended without a word. Raises: what it met."""
    with ours.makefile("rb") as lines:
        for line in lines:
            content = json.loads(line)
            if "ready" in content:
                ready = content["ready"]
                started = Started(process, ready["name"], ready["generation"], ready["store"])
                if told is not None:
                    told(started)
                with suppress(BrokenPipeError, ConnectionResetError):  # it has died: its user will notice
                    ours.sendall(b"\n")
                return started
            if "error" in content:
                process.wait()
                raise error_raised(content)
            if progress is not None:
                progress(content["progress"])
    return None
