"""Handler, writer and reput in one process (native/actors/stages.h), for machines with few processors.

Each of them is the actor that it is in a process of its own. Two things would hold the others up, so they are done in another
way here: a writer that takes over does not sleep until reput has caught up, and reput does not wait for the coordinator."""

from __future__ import annotations

import threading

from orbitmq.actors.actor import Actor, ActorError
from orbitmq.actors.handler import Handler
from orbitmq.actors.reput import Reput
from orbitmq.actors.tree import Tree
from orbitmq.actors.writer import Writer
from orbitmq.native._core import ffi, lib

# How long the loop runs without a look whether reput has caught up for the writer, or the coordinator has answered.
LOOK_MS = 20


class Stages(Actor):
    in_core = True

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        # In the order in which processes of their own would be started. Each takes over what its predecessor left.
        self._reput = Reput(tree)
        self._writer = Writer(tree)
        self._handler = Handler(tree, 0)
        self._asking: threading.Thread | None = None
        self._loop = lib.stages_open(self._handler.core, self._handler.handle, self._writer.handle, self._reput.handle)
        if self._loop == ffi.NULL:
            raise ActorError("cannot open the handler, the writer and reput: out of memory", actor="stages", errno=0)

    def run(self, limit_ms: int) -> None:
        if not self._writer.owns_log:
            self._writer.take_over(0)
        writes = lib.STAGES_WRITES if self._writer.owns_log else 0
        reads = 0 if self._asking is not None and self._asking.is_alive() else lib.STAGES_READS
        result = lib.stages_run(self._loop, writes | reads, limit_ms if writes and reads else LOOK_MS)
        if result == lib.RUN_NEED:
            # It asks the coordinator, which may take seconds to answer. The interpreter's lock is not needed by the others.
            try:
                asking = threading.Thread(target=self._reput.need, name="asking", daemon=True)
                asking.start()
                self._asking = asking
            except RuntimeError:  # no memory for a thread: then the others wait
                self._reput.need()
        elif result == lib.RUN_FAILED:
            self._reput.fail()
        self._reput.bury()

    def step(self) -> int:
        # A writer that was stopped before it had taken over leaves everything to the next one.
        return int(lib.stages_step(self._loop)) if self._writer.owns_log else 0

    def drain(self) -> None:
        if self._asking is not None:
            self._asking.join()
        super().drain()

    def close(self) -> None:
        lib.stages_close(self._loop)
        for each in (self._handler, self._writer, self._reput):
            each.close()
