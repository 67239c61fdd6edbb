"""The flush service: the log's fdatasync (native/actors/flush.h), and in a second thread beside it the slow duties.

Every few seconds the second thread syncs what has changed in the ConsumeQueues and the index, writes the checkpoint, and then
removes what has expired. In the first thread these would delay senders that wait for the log. C releases the interpreter's lock
while it syncs, so a second thread is enough."""

from __future__ import annotations

import threading
import time

from orbitmq.actors import events
from orbitmq.actors.actor import CoreActor
from orbitmq.actors.expiry_clock import ExpiryClock
from orbitmq.actors.pages import PAGE_FLUSH
from orbitmq.actors.queue_sync import QueueSync, SyncError
from orbitmq.actors.retention import HOUR_MS, Retention
from orbitmq.actors.tree import Tree
from orbitmq.actors.trouble import Trouble
from orbitmq.errors import OrbitError, StoreFailed
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.store.checkpoint import SIZE
from orbitmq.store.file_system import disk_error
from orbitmq.store.positions import Positions

DUTY_S = 5.0
SYNC_SHARE = 0.1  # largest part of the time: with 10,000 queues one round syncs as many files


class Flush(CoreActor):
    kind = "flush"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_FLUSH)
        self._positions = None if tree.settings.read_only else Positions(tree.settings.layout)
        self._sync = QueueSync(tree)
        self._ended = threading.Event()
        self._clock = ExpiryClock(tree.settings.layout)
        self._believed_ms = int(lib.control_clock_believed(tree.control))
        self._retention = Retention(
            tree,
            clock=self._clock.look,
            held=lambda: self._clock.ahead_ms > 0,
            stopping=self._ended.is_set,
            synced=lambda: self._sync.position,
        )
        self._trouble = Trouble()
        self._duty = threading.Thread(target=self._duties, name="duties", daemon=True)
        if not tree.settings.read_only:
            self._duty.start()

    def run(self, limit_ms: int) -> None:
        super().run(limit_ms)
        if self._positions is not None:
            self._record(self._positions)

    def drain(self) -> None:
        """All others have stopped: nothing more will be written, and what is synced here is what the next start finds."""
        self._ended.set()
        if self._duty.is_alive():
            self._duty.join()
        super().drain()
        if self._positions is not None:
            seen = self.tree.positions()
            try:
                self._sync.run_last()
            except OSError as error:
                # The stop is then not clean, and the next start recovers.
                self._record(self._positions)
                layout = self.tree.settings.layout
                if isinstance(error, SyncError):
                    raise StoreFailed(
                        f"could not sync queues and index of {layout.root}: {error}",
                        hint="look after the disk; the next start makes anew what it may lack",
                        path=str(layout.root),
                        errno=error.errno or 0,
                    ) from error
                raise disk_error(error, layout.root, SIZE, f"the queues and the checkpoint of {layout.root}") from error
            if seen.flushed == seen.wrote and seen.reput == seen.wrote:
                self._positions.record_stop(int(seen.wrote), int(seen.wrote_ms))
                crash_point("flush_stop_recorded")
            else:
                self._record(self._positions)
                self._positions.sync()
            self._positions.close()

    def _record(self, positions: Positions) -> None:
        seen = self.tree.positions()
        positions.record(int(seen.flushed), int(seen.wrote_ms))
        crash_point("flush_recorded")

    def _duties(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self._sync.run()
            except SyncError as error:
                events.error(
                    f"could not sync queues and index: {error}; they are synced no more, and the next start makes anew what "
                    "the disk may lack",
                )
            except OSError as error:
                # The checkpoint stays where it was, so the next start reads more of the log. Nothing is lost.
                events.warn(f"cannot sync the store's queues: {error}")
            # What the removal takes does not count: the more there is to remove, the sooner it has to come again.
            pause = max(DUTY_S, (time.monotonic() - began) / SYNC_SHARE)
            self._expire()

    def _expire(self) -> None:
        try:
            self._look_at_clock()
            self._retention.run()
        except (OSError, OrbitError) as error:
            self._trouble.say(f"cannot remove what has expired: {error}")
        else:
            self._trouble.over()

    def _look_at_clock(self) -> None:
        """Called before retention. Reports when the clock cannot be believed, and when it can be again. Raises: OSError."""
        control, before = self.tree.control, int(lib.control_clock_ahead(self.tree.control))
        believed = int(lib.control_clock_believed(control))
        if believed != self._believed_ms:
            self._believed_ms = believed
            self._clock.believe()
        self._clock.look()
        self._clock.keep()
        ahead = self._clock.ahead_ms
        lib.control_set_clock_ahead(control, ahead)
        crash_point("flush_clock_seen")
        if ahead and not before:
            events.warn(
                f"the clock is {ahead / HOUR_MS:,.1f} hours ahead of the time that has passed: nothing is removed by age until "
                "it comes back, or 'orbitmq clock --believe' says that it is right",
            )
        elif before and not ahead:
            events.info("the clock is believed again: messages expire by age")
