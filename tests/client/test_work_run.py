"""Goal: handlers in threads and processes work on as many jobs at once as was asked for, and whatever ends one, its job is
done or comes again. Method: workers (client/work/process.py, client/work/tasks.py, client/work/stop_signals.py) over a model
of the broker's queue."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.work.hand import ThreadHand
from orbitmq.client.work.job import Job
from orbitmq.client.work.worker import Worker
from orbitmq.errors import CorruptRecord, NoMeans, SettingError, UsageError
from tests.client import work_handlers
from tests.client.work_model import WorkModel
from tests.waiting import WATCHDOG_S, dead, until


@pytest.fixture
def model() -> WorkModel:
    return WorkModel()


def test_threads_work_at_the_same_time(model: WorkModel) -> None:
    model.send(*(b"%d" % n for n in range(8)))
    together = threading.Barrier(4)
    with model.worker(concurrency=4, idle=0) as worker:
        assert worker.run(lambda _: together.wait(WATCHDOG_S)) == 8
    assert len(model.done) == 8


def test_outcomes(model: WorkModel, caplog: pytest.LogCaptureFixture) -> None:
    model.send(b"good", b"bad", b"later", b"early")

    def handle(job: Job) -> None:
        if job.body == b"bad":
            raise ValueError("no such card")
        if job.body == b"later":
            job.nack(delay=60)
        if job.body == b"early":
            job.ack()
            raise ValueError("too late to matter")

    with model.worker(idle=0) as worker, caplog.at_level(logging.ERROR, "orbitmq"):
        worker.run(handle)
    assert model.done == [b"good", b"early"]
    assert model.entry(b"bad").reasons[0][0] == "ValueError: no such card" and model.entry(b"later").reasons == [("", "")]
    assert "ValueError: no such card" in caplog.text and "orders/0@1, delivery 1, nacked" in caplog.text


def test_tries_are_used_up(model: WorkModel) -> None:
    model.max_tries = 3
    model.send(b"a")

    def handle(job: Job) -> None:
        job.nack(delay=0, reason=f"try {job.delivery}")

    with model.worker(idle=0) as worker:
        assert worker.run(handle) == 3
    assert [entry.reasons[-1][0] for entry in model.dead] == ["try 3"]


def test_so_many_jobs(model: WorkModel) -> None:
    model.send(*(b"%d" % n for n in range(10)))
    with model.worker(concurrency=3) as worker:
        assert worker.run(lambda _: None, jobs=7) == 7
    assert len(model.done) == 7 and all(each.done or not each.deliveries for each in model.entries)


def test_a_hung_thread_is_replaced(model: WorkModel) -> None:
    model.send(b"hangs", b"a", b"b")
    go = threading.Event()

    def handle(job: Job) -> None:
        if job.body == b"hangs" and job.delivery == 1:
            go.wait()

    with model.worker(timeout=1.0, idle=0) as worker:
        assert worker.run(handle) == 3
        assert model.done == [b"a", b"b"] and model.entry(b"hangs").reasons[0][0].startswith("TimedOut")
        go.set()
    assert model.done == [b"a", b"b"]


def test_what_take_raises_ends_the_run(model: WorkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with model.worker(concurrency=3) as worker:

        def take(*_: object) -> Any:
            raise ConnectionError("gone")

        monkeypatch.setattr(model.sessions[0], "take", take)
        with pytest.raises(ConnectionError, match="gone"):
            worker.run(lambda _: None)


def test_what_one_thread_raises_ends_all(model: WorkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that wait for messages, of which there are none."""
    model.send(b"a")
    with model.worker(concurrency=3) as worker:
        usual, broken = model.sessions[0].take, iter([True])

        def take(*limits: Any) -> Any:
            if model.done and next(broken, False):
                raise ConnectionError("gone")
            return usual(*limits)

        monkeypatch.setattr(model.sessions[0], "take", take)
        with pytest.raises(ConnectionError, match="gone"):
            worker.run(lambda job: job.ack())


def test_a_job_that_nobody_can_work_on_comes_again(model: WorkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its process has died and none can be started in its place: the run ends, the job is not held until then."""

    def do(hand: ThreadHand, job: Job) -> None:
        raise UsageError("could not start a process for jobs")

    model.send(b"a")
    monkeypatch.setattr(ThreadHand, "do", do)
    with model.worker() as worker:
        with pytest.raises(UsageError):
            worker.run(lambda _: None)
        assert model.entry(b"a").reasons[0][0] == "UsageError: could not start a process for jobs"


def test_an_async_handler_that_exits(model: WorkModel) -> None:
    """It fails its job, as a plain function would, and the loop goes on."""
    model.max_tries = 1
    model.send(b"exits", b"good")

    async def handle(job: Job) -> None:
        if job.body == b"exits":
            sys.exit("no more")

    with model.worker(idle=0) as worker:
        assert worker.run(handle) == 2
    assert [(entry.message.body.tobytes(), entry.reasons[-1][0]) for entry in model.dead] == [(b"exits", "SystemExit: no more")]
    assert b"good" in model.done


def test_a_signal_stops_gracefully(model: WorkModel) -> None:
    """What is begun is finished, what is not is given back; then the handlers of signals are as before."""
    model.send(*(b"%d" % n for n in range(40)))
    begun, go = threading.Semaphore(0), threading.Event()
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    def handle(_: Job) -> None:
        begun.release()
        go.wait(WATCHDOG_S)

    def strike() -> None:
        begun.acquire()
        begun.acquire()
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: worker.stopped)
        go.set()

    worker = model.worker(concurrency=2)
    striker = threading.Thread(target=strike)
    striker.start()
    with worker:
        assert worker.run(handle) == 2
    striker.join()
    assert len(model.done) == 2 and sum(each.deliveries for each in model.entries) == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_signal_ends_a_loop_after_its_job(model: WorkModel) -> None:
    model.send(b"a", b"b")
    with model.worker() as worker:
        for job in worker:
            signal.raise_signal(signal.SIGINT)
            assert job.state == "open"
    assert model.done == [b"a"]


def test_a_second_signal_stops_at_once(model: WorkModel) -> None:
    model.send(b"a")
    with pytest.raises(KeyboardInterrupt), model.worker() as worker:
        for _ in worker:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    assert not model.done and model.entry(b"a").reasons[0][0] == "KeyboardInterrupt"


def test_a_second_signal_ends_a_run_at_once(model: WorkModel) -> None:
    model.send(b"a")
    go = threading.Event()

    def handle(_: Job) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: worker.stopped)
        os.kill(os.getpid(), signal.SIGINT)
        go.wait(WATCHDOG_S)

    with pytest.raises(KeyboardInterrupt), model.worker() as worker:
        worker.run(handle)
    assert not model.done and model.entry(b"a").reasons[0][0] == "KeyboardInterrupt"
    go.set()


def test_the_programs_own_handlers_stay(model: WorkModel) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        model.send(b"a", b"b")
        with model.worker(idle=0) as worker:
            for _ in worker:
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM] * 2 and len(model.done) == 2


# ---- processes


def test_processes(model: WorkModel, tmp_path: Path) -> None:
    model.send(b"body", topic="%RETRY%billing", properties={"file": str(tmp_path / "seen"), "RETRY_TOPIC": "orders"})
    with model.worker(executor="processes", idle=0) as worker:
        assert worker.run(work_handlers.write_pid) == 1
    pid, *rest = (tmp_path / "seen").read_text().split()
    assert rest == ["1", "orders", "body"] and int(pid) != os.getpid() and dead(int(pid))
    assert model.done == [b"body"]


def test_outcomes_in_a_process(model: WorkModel) -> None:
    model.send(b"card")
    with model.worker(executor="processes", idle=0) as worker:
        worker.run(work_handlers.fail_in_a_process)
        reason, digest = model.entry(b"card").reasons.pop()
        assert reason == "ValueError: no card" and len(digest) == 12
        model.entry(b"card").due = 0
        worker.run(work_handlers.nack_in_a_process)
        assert model.entry(b"card").reasons == [("later", "")]
        model.entry(b"card").due = 0
        worker.run(work_handlers.extend_in_a_process)
    assert "extend card" in model.log and model.done == [b"card"]


def test_decorated_functions(model: WorkModel) -> None:
    """A process finds them by their name, as it finds other functions."""
    model.send(b"a", b"b")
    with model.worker(executor="processes", idle=0) as worker:
        worker.run(work_handlers.decorated, jobs=1)
        worker.run(work_handlers.decorated_too, jobs=1)
    (reason,) = model.entry(b"a").reasons
    assert reason[0].startswith("decorated ") and str(os.getpid()) not in reason[0]
    assert model.entry(b"b").reasons == [("awaited", "")]


def test_a_damaged_message_does_not_end_a_run(model: WorkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model.send(b"a")
    with model.worker(idle=0) as worker:
        session = model.sessions[0]
        take, damaged = session.take, iter([True])

        def takes(*arguments: Any) -> Any:
            if next(damaged, None):
                raise CorruptRecord("it is damaged")
            return take(*arguments)

        monkeypatch.setattr(session, "take", takes)
        assert worker.run(lambda _: None) == 1
    assert model.done == [b"a"]


@pytest.mark.parametrize(
    ("handler", "how"),
    [
        (work_handlers.die_at_first, "was killed by SIGKILL"),
        (work_handlers.exit_at_first, "ended with code 7"),
        (work_handlers.hang_at_first, "TimedOut"),
    ],
)
def test_a_dead_process(model: WorkModel, handler: Any, how: str) -> None:
    """Goal: its job comes again at once, and another process does it."""
    model.send(b"a")
    timeout = 5.0 if handler is work_handlers.hang_at_first else None
    with model.worker(executor="processes", timeout=timeout) as worker:
        if timeout:
            worker.run(handler, jobs=1)
            model.entry(b"a").due = 0
            worker.run(handler, jobs=1)
        else:
            worker.run(handler, jobs=2)
    assert model.done == [b"a"] and model.entry(b"a").deliveries == 2
    assert how in model.entry(b"a").reasons[0][0]


@contextmanager
def running(worker: Worker, handler: Any, **how: Any) -> Iterator[Future[int]]:
    """A run in another thread, which the test's end stops."""
    with ThreadPoolExecutor(1) as aside:
        try:
            yield aside.submit(worker.run, handler, **how)
        finally:
            worker.stop()


class Fifo:
    """What reads it goes on when it is closed, at the latest with this process."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDWR)

    def close(self) -> None:
        os.close(self._end)


def test_a_dead_process_whose_child_lives(model: WorkModel, tmp_path: Path) -> None:
    """Goal: its job comes again at once all the same."""
    fifo = Fifo(tmp_path / "fifo")
    model.send(b"a", properties={"fifo": fifo.path})
    with (
        model.worker(executor="processes") as worker,
        running(worker, work_handlers.fork_and_die_at_first, jobs=2) as run,
        closing(fifo),
    ):
        assert run.result(WATCHDOG_S) == 2
    assert model.done == [b"a"] and "was killed by SIGKILL" in model.entry(b"a").reasons[0][0]


def test_a_process_that_died_between_two_jobs(model: WorkModel, tmp_path: Path) -> None:
    """Goal: another one does the next job. Method: the first one's child lives, and the job is larger than a pipe's buffer."""
    note, fifo = tmp_path / "pid", Fifo(tmp_path / "fifo")
    model.send(b"a", properties={"fifo": fifo.path, "file": str(note)})
    with (
        model.worker(executor="processes") as worker,
        running(worker, work_handlers.fork_at_first, jobs=3) as run,
        closing(fifo),
    ):
        until(lambda: model.done == [b"a"] and worker._supply._one_asks.locked(), "the first job, and the wait for the next")
        os.kill(int(note.read_text()), signal.SIGKILL)
        model.send(bytes(1 << 22))
        assert run.result(WATCHDOG_S) == 3
    assert [each.deliveries for each in model.entries] == [1, 2]


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), NoMeans), (ProcessLookupError(), UsageError)],
    ids=["descriptors", "dead"],
)
def test_a_process_that_cannot_be_watched(
    model: WorkModel, monkeypatch: pytest.MonkeyPatch, error: OSError, told: type[Exception]
) -> None:
    """It is not left behind."""

    def refuse(_: int) -> int:
        raise error

    before = set(multiprocessing.active_children())
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with model.worker(executor="processes") as worker, pytest.raises(told, match="could not start a process for jobs"):
        worker.run(work_handlers.write_pid)
    assert set(multiprocessing.active_children()) <= before


def test_a_forked_child_of_a_process_settles_nothing(model: WorkModel) -> None:
    model.send(b"a")
    with model.worker(executor="processes", idle=0) as worker:
        assert worker.run(work_handlers.settle_in_a_forked_child) == 1
    assert model.entry(b"a").reasons == [("its code is 0", "")]


def test_what_processes_cannot_run(model: WorkModel) -> None:
    with model.worker(executor="processes") as worker:
        with pytest.raises(SettingError, match="in processes: they cannot import it") as caught:
            worker.run(lambda _: None)
        assert caught.value.hint == "define it at the top of a module, or run it in threads"
        with pytest.raises(SettingError, match="'fibers'"):
            worker.run(work_handlers.write_pid, executor="fibers")


class Unloadable:
    def __reduce__(self) -> Any:
        return (os._exit, (3,))

    def __call__(self, job: Job) -> None: ...


def test_a_process_that_does_not_start(model: WorkModel) -> None:
    with model.worker(executor="processes", concurrency=2) as worker, pytest.raises(UsageError, match="it ended with code 3"):
        worker.run(Unloadable())
