"""A process that calls a handler: one job at a time, each sent through a pipe as its record.

It is spawned, never forked, so that it starts without the threads and locks of this process. If it dies, its job comes again at
once, and another process takes its place. It ignores SIGTERM and SIGINT, which reach whole groups of processes: the worker
decides when it ends. It ends with the worker's process, whatever ends that."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from orbitmq.client.connection.born_in import BornIn
from orbitmq.client.message import Message
from orbitmq.client.work.failure import Failure
from orbitmq.client.work.hand import call
from orbitmq.client.work.job import Job
from orbitmq.client.work.tasks import is_async
from orbitmq.errors import SettingError, UsageError
from orbitmq.shm.means import means

READY = "ready"
_context = multiprocessing.get_context("spawn")
_logger = logging.getLogger("orbitmq")


def pickled(handler: Any) -> bytes:
    """The handler as a process gets it. Raises: SettingError."""
    try:
        return bytes(ForkingPickler.dumps(handler))
    except Exception as error:  # whatever its __reduce__ raises
        raise SettingError(
            f"could not run {handler!r:.200} in processes: they cannot import it ({error})",
            hint="define it at the top of a module, or run it in threads",
            setting="executor",
            value="processes",
        ) from error


class Child:
    """One process. Raises: UsageError: it ended before it was ready."""

    def __init__(self, handler: bytes) -> None:
        self.pipe, theirs = _context.Pipe()
        self.process = _context.Process(target=_serve, args=(theirs, handler), name="orbitmq-job", daemon=True)
        # Readable when it has died; its sentinel would be so only when all processes that it forked have died too.
        self._death: FileIO | None = None
        with theirs, means("start a process for jobs"):
            self.process.start()
            try:
                self._death = FileIO(os.pidfd_open(int(self.process.pid or 0)))
            except ProcessLookupError:
                pass  # dead, and noticed already: whoever starts a process, in another thread too, waits for dead ones
            except BaseException:
                self.process.kill()
                self.end()
                raise
        if self.told() != READY:
            how = self.end()
            raise UsageError(
                f"could not start a process for jobs: it {how} before it was ready",
                hint="its own error says why; a program that starts processes calls run() under if __name__ == '__main__'",
            )

    def told(self) -> Any:
        """What it says next; None: it is dead."""
        if self._death is not None:
            wait([self.pipe, self._death.fileno()])
        try:
            return self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None

    def end(self) -> str:
        """Returns how it ended, once it has."""
        self.pipe.close()
        if self._death is not None:
            self._death.close()
        self.process.join()
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"


class ProcessHand:
    """The worker's side of a process, and of the next one if it dies. One thread uses it; any thread may call `give_up`."""

    def __init__(self, handler: bytes) -> None:
        self._handler = handler
        self._child: Child | None = Child(handler)

    def do(self, job: Job) -> None:
        child = self._child = self._child or Child(self._handler)
        with suppress(OSError):  # it is dead
            child.pipe.send((job.message.record(), job.delivery, job.deadline))
        while (told := child.told()) is not None:
            match told:
                case ("ack",):
                    job.done()
                case ("nack", delay, reason, digest):
                    job.give_up(delay, Failure(reason, digest))
                case ("extend", seconds) if job.state == "open":
                    job.extend(seconds)
                case ("end",):
                    return
        self._child = None
        how = child.end()
        if job.state == "open":
            job.give_up(0.0, Failure(f"its process {child.process.pid} {how}", ""))
            _logger.error("the process %s, which worked on %r, %s", child.process.pid, job, how)

    def give_up(self) -> bool:
        if (child := self._child) is not None:
            child.process.kill()
        return True

    def close(self) -> None:
        """Returns when the process has ended."""
        if self._child is not None:
            self._child.end()


# ---- in the process


@dataclass(frozen=True, slots=True)
class _Copy:
    """A hand-out of the worker's, in another process."""

    message: Message
    delivery: int
    deadline: float


class _Answer:
    """A Settler that tells the worker's process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._born = BornIn()

    def ack(self, jobs: Sequence[Job]) -> int:
        (job,) = jobs
        if job.state != "open":
            return 0
        job.state = "acked"
        self._tell("ack")
        return 1

    def nack(self, job: Job, delay: float | None, failure: Failure) -> bool:
        if job.state != "open":
            return False
        job.state = "nacked"
        self._tell("nack", delay, *failure)
        return True

    def extend(self, job: Job, seconds: float) -> bool:
        if job.state != "open":
            return False
        self._tell("extend", seconds)
        return True

    def _tell(self, *answer: Any) -> None:
        self._born.check("settle a job", "settle it in that process")
        self._pipe.send(answer)


def _serve(pipe: Connection, content: bytes) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Its own processes must not hold the pipe: once this one is dead, nobody would read what the worker sends.
    os.set_inheritable(pipe.fileno(), False)
    os.register_at_fork(after_in_child=pipe.close)
    threading.Thread(target=_end_with_parent, name="orbitmq-parent", daemon=True).start()
    handler = pickle.loads(content)
    runner = asyncio.Runner() if is_async(handler) else None
    do = handler if runner is None else lambda job: runner.run(handler(job))
    answer = _Answer(pipe)
    with suppress(OSError):  # the worker has closed the pipe
        pipe.send(READY)
        while True:
            try:
                record, delivery, deadline = pipe.recv()
            except EOFError:
                return
            call(do, Job(_Copy(Message.from_record(record), delivery, deadline), answer))
            pipe.send(("end",))


def _end_with_parent() -> None:
    """A handler at work would otherwise go on while its message is handed to another worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
