"""reput: turns the CommitLog into ConsumeQueues and IndexFiles (native/actors/reput/reput.h).

What it cannot index is one of three things. If the table does not know a queue, the coordinator adds it. If a queue cannot
exist, which a damaged or foreign record may name, reput reports the record and passes it. Anything else is an error state: the
tree lives, what is indexed can be read, and nothing more is accepted, because a restart would end at the same record."""

from __future__ import annotations

import errno
import os
import select
from contextlib import closing

from orbitmq.actors import events
from orbitmq.actors.actor import CoreActor
from orbitmq.actors.burial import Burial
from orbitmq.actors.complaints import Complaints
from orbitmq.actors.pages import PAGE_REPUT
from orbitmq.actors.tree import Tree
from orbitmq.errors import BrokerError, Full, StoreError
from orbitmq.native._core import ffi, lib
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import ControlSocket
from orbitmq.shm.topic_name import possible

STEP_BYTES = 4 << 20
ANSWER_S = 10.0  # how long the coordinator may take to answer
ASK_AGAIN_MS = 100


class Reput(CoreActor):
    kind = "reput"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_REPUT)
        self._complaints = Complaints()
        self._burial = None if tree.settings.read_only else Burial(tree, self.handle)

    def run(self, limit_ms: int) -> None:
        super().run(limit_ms)
        self.bury()

    def bury(self) -> None:
        """Called between two runs: removes the files of deleted topics."""
        if self._burial is not None:
            self._burial.look()

    def need(self) -> None:
        topic, queue = self._missing()
        if not possible(topic, queue):
            self._complaints.say(
                f"the record at physical offset {self._position:,} names queue {queue:,} of topic {topic!r}, which cannot "
                "exist; it stays in the log, and no queue leads to it"
            )
            lib.reput_pass(self.handle)
            return
        try:
            self._adopt(topic, queue + 1)
        except (BrokerError, Full, StoreError, OSError) as error:
            if isinstance(error, Full) and error.limit in ("topics", "queues"):
                lib.reput_stop(self.handle, errno.EOVERFLOW)
                self._say_stopped(f"has no place in the topic table ({error})")
                return
            # The coordinator has died, hangs, or lets nobody in; it is asked again.
            self._complaints.say(f"cannot have the topic {topic!r} of the log added yet: {error}")
            select.poll().poll(ASK_AGAIN_MS)

    def fail(self) -> None:
        """The log holds something that is not a record. A successor would find it too."""
        number = self.tree.page_error(self.page)
        self._say_stopped(f"is none ({os.strerror(number)})")

    def step(self) -> int:
        return int(lib.reput_step(self.handle, STEP_BYTES))

    @property
    def _position(self) -> int:
        return int(lib.reput_position(self.handle))

    def _say_stopped(self, why: str) -> None:
        size = self.tree.settings.files.log_file_size
        path = self.tree.settings.layout.log_file(self._position - self._position % size)
        events.error(
            f"the record at physical offset {self._position:,} ({path}) {why}; nothing from there on can be read, and "
            "no message is taken until the broker is started again",
            offset=self._position,
            path=str(path),
        )

    def _adopt(self, topic: str, queues: int) -> None:
        """Only the coordinator may add to the table. Raises: what it answers; OSError: it does not answer."""
        path = runtime.socket_path(self.tree.settings.name)
        with closing(ControlSocket(path, ANSWER_S)) as control:
            control.greet(ANSWER_S)
            control.ask("adopt_topic", ANSWER_S, name=topic, queues=queues)

    def _missing(self) -> tuple[str, int]:
        """The topic and the queue of the current record."""
        name = ffi.new("uint8_t[]", lib.TOPIC_NAME_MAX)
        queue = ffi.new("uint32_t *")
        size = lib.reput_missing(self.handle, name, queue)
        return bytes(ffi.buffer(name, size)).decode(errors="surrogateescape"), queue[0]
