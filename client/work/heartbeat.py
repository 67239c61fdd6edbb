"""The thread of a worker that looks after its jobs: it sleeps until something is due, and for ever while there is nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from orbitmq.shm.means import means


class Heartbeat:
    """look: gets the time, by time.monotonic(), does what is due, and returns in how many seconds to look again; None: when
    somebody calls `wake`. It runs in this thread, which starts with the first `wake`."""

    def __init__(self, look: Callable[[float], float | None]) -> None:
        self._look = look
        self._bell = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self.resting = True  # looked at before every job, so that a thread that is awake is not woken

    def wake(self) -> None:
        """There is something to look after. Raises: NoMeans: no thread can be started."""
        if self._thread is None:
            with self._starting:
                if self._thread is None and not self._ended:
                    thread = threading.Thread(target=self._run, name="orbitmq-worker-heartbeat", daemon=True)
                    with means("start the thread that extends jobs"):
                        thread.start()
                    self._thread = thread
        self._bell.set()

    def stop(self, *, wait: bool) -> None:
        """wait: until the thread has ended."""
        self._ended = True
        self._bell.set()
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            self._bell.clear()
            self.resting = True  # from here on `wake` is called; so what begins before this look is seen by it
            left = self._look(time.monotonic())
            if left is not None:
                self.resting = False
            self._bell.wait(left)
