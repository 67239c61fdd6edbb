"""The parent that warm.py asks to fork: `python warm_parent.py <descriptor> <"module" | "file"> <what> ...`.

It imports the module, or what the file imports, and the further modules; then it forks a process for each order that comes
through the descriptor: a socket of whole messages, with the process's descriptors. The answer is the process's number.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

ROOM = 1 << 18
DESCRIPTORS = 16


def module_program(name: str) -> Callable[[], None]:
    """Imports the module. Returns what `python -m` would do with it: its `main_process`."""
    module = importlib.import_module(name)

    def run() -> None:
        sys.modules["__main__"] = module
        sys.argv[0] = str(module.__file__)
        module.main_process()

    return run


def file_program(path: str) -> Callable[[], None]:
    """Imports what the file imports, and compiles it. Returns what runs it, as __main__."""
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, {"__name__": "__warm__", "__file__": path})

    def run() -> None:
        main = ModuleType("__main__")
        main.__file__ = path
        sys.modules["__main__"] = main
        exec(code, vars(main))

    return run


def serve(line: socket.socket) -> dict[str, Any] | None:
    """Returns in each process that was forked, with its order; None in the parent, when nobody is left to give one."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(line, ROOM, DESCRIPTORS)
        if not content:
            return None
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            first = os.getpid()
            process = os.fork()
            if process == 0:
                while os.getppid() == first:  # who asks for its parent gets the one that stays
                    os.sched_yield()
                line.detach()  # its number may be another's place, which the end of the object would close
                order: dict[str, Any] = json.loads(content)
                settle(order, descriptors)
                return order
            os.write(writer, b"%d" % process)
            os._exit(0)
        os.close(writer)
        # With the end of the process in between, the child is the child of whoever gave the order.
        os.waitpid(between, 0)
        line.send(os.read(reader, 32))
        for descriptor in (reader, *descriptors):
            os.close(descriptor)


def settle(order: dict[str, Any], descriptors: list[int]) -> None:
    """What else fork and exec would have done."""
    places = order["places"]
    # First where they are in nobody's place.
    held = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, max(places) + 1) for descriptor in descriptors]
    for descriptor, place in zip(held, places, strict=True):
        os.dup2(descriptor, place)
    for descriptor in {int(path.name) for path in Path("/proc/self/fd").iterdir()}.difference(places):
        with suppress(OSError):  # the one with which the folder was read
            os.close(descriptor)
    if order["session"]:
        os.setsid()
    os.umask(order["umask"])
    os.sched_setaffinity(0, order["processors"])
    for limit, values in order["limits"].items():
        with suppress(ValueError):
            resource.setrlimit(int(limit), values)
    for number in order["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])


def main() -> None:
    kind, what = sys.argv[2:4]
    # What Python puts first: the folder of the file, or the one where it is started. Nothing, where the environment forbids it.
    first = [] if sys.flags.safe_path else [str(Path(what).parent if kind == "file" else Path(__file__).parents[1])]
    sys.path[: len(first)] = first
    run = module_program(what) if kind == "module" else file_program(what)
    for further in sys.argv[5:]:
        with suppress(ImportError):
            importlib.import_module(further)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is None:
        return
    sys.argv = [what, *order["arguments"]]
    if first and kind == "module":
        sys.path[0] = order["folder"]
    run()


main()
