"""reput: from the CommitLog into ConsumeQueues and IndexFiles (native/reput.h)."""

from __future__ import annotations

import socket

from orbitmq import errors
from orbitmq.actors.actor import CoreActor
from orbitmq.actors.spec import PAGE_REPUT
from orbitmq.actors.tree import Tree
from orbitmq.native._core import ffi, lib
from orbitmq.shm import frames, runtime

STEP_BYTES = 4 << 20


class Reput(CoreActor):
    kind = "reput"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_REPUT)

    def need(self) -> None:
        """The log holds a topic that the table does not: only the coordinator may add it."""
        name, queues = self._missing()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(10.0)
            sock.connect(str(runtime.socket_path(self.tree.settings.name)))
            frames.send(sock, {"op": "hello", "id": 1, **runtime.introduction()})
            frames.send(sock, {"op": "adopt_topic", "id": 2, "name": name, "queues": queues})
            unpacker = frames.Unpacker()
            while True:
                answers = frames.receive(sock, unpacker)
                if answers is None:
                    raise errors.BrokerStopped("cannot have a topic of the log added, the coordinator went away")
                for answer in answers:
                    if "error" in answer:
                        raise frames.error_raised(answer)
                    if answer["id"] == 2:
                        return

    def step(self) -> int:
        return int(lib.reput_step(self.handle, STEP_BYTES))

    def _missing(self) -> tuple[str, int]:
        """The topic, and the number of queues that the log needs it to have."""
        name = ffi.new("uint8_t[128]")
        queues = ffi.new("uint32_t *")
        size = lib.reput_missing(self.handle, name, queues)
        return bytes(ffi.buffer(name, size)).decode(), queues[0]
