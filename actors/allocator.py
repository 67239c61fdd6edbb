"""The allocator: prepares the writer's next CommitLog file and its next pages before they are needed
(native/actors/allocator.h)."""

from __future__ import annotations

import errno

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.pages import PAGE_ALLOCATOR
from orbitmq.actors.tree import Tree
from orbitmq.actors.trouble import Trouble
from orbitmq.errors import OrbitError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.store.commit_log.mapped_file import allocate, discard
from orbitmq.store.file_system import LOG_KNOB, disk_error


class Allocator(CoreActor):
    kind = "allocator"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_ALLOCATOR)
        self._trouble = Trouble()

    def need(self) -> None:
        """Makes the next CommitLog file. A lack of room does not make this actor fail: senders get the error, and it tries
        again."""
        start = int(self.tree.positions().allocated)
        size = self.tree.settings.files.log_file_size
        layout = self.tree.settings.layout
        try:
            discard(layout, start)  # made by a predecessor, and perhaps not on disk
            allocate(layout, start, size)
        except (OrbitError, OSError) as failure:
            what = f"the log file {layout.log_file(start)}"
            error = failure if isinstance(failure, OrbitError) else disk_error(failure, layout.root, size, what, LOG_KNOB)
            self._trouble.say(str(error))
            lib.control_set_allocated(self.tree.control, start, error.values.get("errno") or errno.ENOSPC)
        else:
            self._trouble.over()
            crash_point("allocator_made")
            lib.control_set_allocated(self.tree.control, start + size, 0)
            crash_point("allocator_announced")

    def drain(self) -> None:
        """Nothing is left to do: the writer, which would need the next file, has stopped."""
