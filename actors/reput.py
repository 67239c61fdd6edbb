"""reput: from the CommitLog into ConsumeQueues and IndexFiles (native/reput.h)."""

from __future__ import annotations

from contextlib import closing

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.spec import PAGE_REPUT
from orbitmq.actors.tree import Tree
from orbitmq.errors import BrokerStopped
from orbitmq.native._core import ffi, lib
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import ControlSocket

STEP_BYTES = 4 << 20
ANSWER_S = 10.0  # how long the coordinator may take to answer


class Reput(CoreActor):
    kind = "reput"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_REPUT)

    def need(self) -> None:
        """The log holds a topic that the table does not: only the coordinator may add it."""
        name, queues = self._missing()
        try:
            path = runtime.socket_path(self.tree.settings.name)
            with closing(ControlSocket(path, ANSWER_S)) as control:
                control.ask("adopt_topic", ANSWER_S, name=name, queues=queues)
        except OSError as error:
            raise BrokerStopped(f"cannot have topic {name!r} of the log added, the coordinator went away: {error}") from error

    def step(self) -> int:
        return int(lib.reput_step(self.handle, STEP_BYTES))

    def _missing(self) -> tuple[str, int]:
        """The topic, and the number of queues that the log needs it to have."""
        name = ffi.new("uint8_t[128]")
        queues = ffi.new("uint32_t *")
        size = lib.reput_missing(self.handle, name, queues)
        return bytes(ffi.buffer(name, size)).decode(), queues[0]
