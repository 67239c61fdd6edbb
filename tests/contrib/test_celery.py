"""Goal: Celery with OrbitMQ as its broker keeps its tasks, whoever is killed, and has what its users know: results, times,
retries, remote control. Method: a real worker of the application in docs/examples/celery_shop.py. It is killed
with -9 in the middle of a task, and so are processes of its pool and of the broker; at the end it is told to stop."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import orbitmq
from tests.contrib.celery_worker import Worker
from tests.trees import kill
from tests.waiting import WATCHDOG_S, dead, until


def test_a_worker_and_its_broker_are_killed(worker: Worker, tasks: Any, broker: orbitmq.Broker) -> None:
    """Every task is done. Only one that a worker was killed with is begun again."""
    for number in range(10):
        tasks.note.delay(number)
    tasks.hold.delay("first")
    for number in range(10, 20):
        tasks.note.delay(number)
    worker.start()
    ((_, pid),) = until(lambda: worker.lines("begun"), "the task that does not end")
    worker.kill()
    assert dead(int(pid))
    kill(broker, "dispatcher")
    worker.start()
    until(lambda: len(worker.lines("note")) >= 20 and worker.lines("held"), "all tasks")
    kill(broker, "writer")
    assert tasks.charge.delay(7).get(timeout=WATCHDOG_S) == "order 7 is paid"  # also says that the worker goes on
    assert sorted(int(word) for (word,) in worker.lines("note")) == list(range(20))
    assert len(worker.lines("begun")) == 2 and worker.lines("held") == [["first"]]

    # what its users know
    begun = time.time()
    tasks.note.apply_async(("later",), countdown=0.5)
    until(lambda: ["later"] in worker.lines("note"), "the task with a time")
    assert time.time() >= begun + 0.5
    assert tasks.flaky.delay().get(timeout=WATCHDOG_S) == 2
    (answer,) = tasks.app.control.inspect(timeout=WATCHDOG_S, limit=1).active_queues().values()
    assert [queue["name"] for queue in answer] == ["celery"]

    # a stop gives back what was not begun
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(WATCHDOG_S) == 0
    tasks.note.delay("waits")
    # Until the broker has noticed that the worker is gone, it may hand the task to it.
    assert until(tasks.app.control.purge, "what waits to be purged") == 1


def test_processes_of_a_pool_are_killed(worker: Worker, tasks: Any) -> None:
    """Goal: the same with the usual pool, prefork: every task is done, whether a process of the pool is killed or the worker,
    and none is lost that its siblings have. Method: two processes; each is in a task that does not end when one of them, or
    their parent, is killed, and others wait behind these. What a dead worker's process goes on with is done again elsewhere."""
    worker.start("--pool", "prefork", "--concurrency", "2")
    for number in range(10):
        tasks.note.delay(number)
    for word in ("one", "two"):
        tasks.hold.delay(word)
    begun = until(lambda: len(worker.lines("begun")) == 2 and dict(worker.lines("begun")), "both processes at work")
    for number in range(10, 20):
        tasks.note.delay(number)
    os.kill(int(begun["one"]), signal.SIGKILL)
    until(lambda: worker.lines("held") == [["one"]], "the task of a process that was killed")
    assert [word for word, _ in worker.lines("begun")].count("two") == 1, "its sibling has gone on"

    until(lambda: len(worker.children()) == 2, "a process in place of the dead one")
    assert int(begun["two"]) in worker.children(), "its sibling lives"
    worker.kill()
    worker.start("--pool", "prefork", "--concurrency", "2")
    until(lambda: ["two"] in worker.lines("held"), "the task of a worker that was killed")
    until(lambda: {int(word) for (word,) in worker.lines("note")} == set(range(20)), "all tasks")
    assert tasks.charge.delay(7).get(timeout=WATCHDOG_S) == "order 7 is paid"
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(WATCHDOG_S) == 0
    assert tasks.app.control.purge() == 0
