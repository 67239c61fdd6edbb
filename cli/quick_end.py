"""The end of a command's process without that of its interpreter, which would take apart, object by object, all that the
command has imported. That takes longer than what most commands do."""

from __future__ import annotations

import atexit
import os
import sys
import threading


def end_quickly(status: int) -> None:
    """Ends the process as the interpreter would: waits for its threads, calls what was registered for its exit, and writes
    what is still to be written. Returns if that cannot be written: the interpreter says so at its end, and changes the
    status."""
    try:
        _flush()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
    except (OSError, ValueError):
        return
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
