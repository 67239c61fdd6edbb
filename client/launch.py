"""Starting a broker tree as a program of its own, and hearing from it whether it runs."""

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
    """A tree that runs. process is its supervisor, a child of this process."""

    process: subprocess.Popen[bytes]
    name: str
    generation: int
    store: str


class Supervisor(subprocess.Popen[bytes]):
    """Whose owner warns, in better words, where it is left running (client/broker.py); so it does not do so itself."""

    def __del__(self) -> None:
        super().__del__(_warn=lambda *_, **__: None)  # type: ignore[call-arg]


def how_ended(code: int) -> str:
    """A process's exit code in words."""
    return f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"


def why_ended(code: int, otherwise: str) -> str:
    """Where to look for the reason: where memory runs out, the kernel kills without a word."""
    return "if nobody did it by hand, look whether memory ran out (dmesg)" if code == -signal.SIGKILL else otherwise


def start_tree(
    store: str,
    options: dict[str, Any],
    *,
    allow_deletion: bool = False,
    errors_to: int | IO[Any] | None = None,
    progress: Callable[[str], None] | None = None,
    told: Callable[[Started], None] | None = None,
) -> Started:
    """Starts the supervisor and waits until every actor runs. When this process ends before that, or before `told` has
    returned, the tree ends too.

    Args:
        store: root of the store; made when it is missing.
        options: settings of store/tree_settings.py, by name; None: not given. They count more than the environment's, than
            what the store remembers and than defaults, and the store remembers them.
        allow_deletion: messages may be deleted at once because they are to be kept for a shorter time, or in less room.
        errors_to: where the tree's lines about deaths and restarts go; None: this process's error output.
        progress: called with lines about the recovery.
        told: called with the tree once it runs, to pass on what it says; what it raises ends the tree.

    Raises: what the supervisor met: SettingError, WouldDelete, StoreLocked, StoreFull, StoreVersion, StoreSettingsError,
    StoreUnsupported, CorruptRecord ...; BrokerBroken: it died without a word."""
    content = {"store": store, "options": options, "allow_deletion": allow_deletion}
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    arguments = [sys.executable, "-m", "orbitmq.actors.supervisor", json.dumps(content), str(number)]
    try:
        # A session of its own: Ctrl-C in the starter's terminal is the starter's to pass on.
        process = Supervisor(
            arguments,
            pass_fds=(number,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            # A tree that outlives its starter must not hold a pipe open that somebody reads to its end.
            stdout=subprocess.DEVNULL,
            stderr=errors_to,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    try:
        with ours, ours.makefile("rb") as lines:
            for line in lines:
                content = json.loads(line)
                if "ready" in content:
                    ready = content["ready"]
                    started = Started(process, ready["name"], ready["generation"], ready["store"])
                    if told is not None:
                        told(started)
                    with suppress(BrokenPipeError, ConnectionResetError):  # it has died: whoever uses it will see
                        ours.sendall(b"\n")
                    return started
                if "error" in content:
                    process.wait()
                    raise error_raised(content)
                if progress is not None:
                    progress(content["progress"])
    except BaseException:
        process.terminate()
        process.wait()
        raise
    code = process.wait()
    raise BrokerBroken(
        f"cannot start the broker on {store}, its supervisor {how_ended(code)}",
        hint=why_ended(code, "see its error output"),
        store=store,
        code=code,
    )
