"""Goal: workers do on a real broker what docs/workers.md promises, also when a process of theirs is killed in the middle of a
job. Method: one broker for the file, a topic and a group for each test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.work.job import Job
from orbitmq.errors import GroupInUse, GroupNameError, JobLost, SettingError, UnknownTopic, UsageError
from tests.client import work_handlers
from tests.client.awaitable import run_watched
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, dead, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path_factory.mktemp("store"), offsets_interval_s=0.05) as made:
        yield made


@pytest.fixture
def topic(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").replace("]", "")
    return broker.create_topic(name, 2).name


def send(broker: orbitmq.Client, topic: str, *bodies: bytes, **fields: str) -> None:
    with broker.producer() as producer:
        for body in bodies:
            producer.send(topic, body, properties=fields)


def left(broker: orbitmq.Client, group: str, topic: str) -> int:
    """Messages of the topic that are not done."""
    return sum(queue.lag_messages for queue in broker.group(group).queues if queue.topic == topic)


def rest_of(broker: orbitmq.Client, topic: str, count: int) -> dict[int, int]:
    """Works on so many jobs of the group "g"; then there are no others. Returns the delivery of each."""
    seen: dict[int, int] = {}
    with broker.worker("g", [topic], idle=WATCHDOG_S) as worker:
        assert worker.run(lambda job: seen.update({int(job.body): job.delivery}), jobs=count) == count
    until(lambda: left(broker, "g", topic) == 0, "the rest to be done")
    return seen


def test_loops(broker: orbitmq.Broker, topic: str) -> None:
    send(broker, topic, *(b"%d" % n for n in range(50)))
    seen: list[tuple[int, str, int]] = []
    with broker.worker("loops", [topic], idle=WATCHDOG_S) as worker:
        for job in worker:
            seen.append((int(job.body), job.topic, job.delivery))
            if len(seen) == 50:
                worker.stop()
    assert sorted(seen) == [(n, topic, 1) for n in range(50)]
    with broker.worker("loops", [topic], idle=0) as worker:
        assert not list(worker)
    assert broker.group("loops").lag_messages == 0


def test_a_failed_job_comes_again(broker: orbitmq.Broker, topic: str) -> None:
    send(broker, topic, b"a")
    with broker.worker("fails", [topic]) as worker:
        with pytest.raises(ValueError):
            for job in worker:
                job.nack(delay=0.01)
                raise ValueError
        for job in worker:
            assert (job.body, job.delivery) == (b"a", 2)
            worker.stop()
    assert broker.group("fails").lag_messages == 0


def test_batches(broker: orbitmq.Broker, topic: str) -> None:
    with broker.producer() as producer:
        producer.send_batch(topic, [b"%d" % n for n in range(5000)])
    seen: list[int] = []
    with broker.worker("batches", [topic], in_hand=4096, idle=WATCHDOG_S) as worker:
        for jobs in worker.batches(1000):
            seen += [int(job.body) for job in jobs]
            if len(seen) >= 5000:
                worker.stop()
        worker.flush(WATCHDOG_S)
    assert sorted(seen) == list(range(5000)) and left(broker, "batches", topic) == 0


def test_threads_and_tasks(broker: orbitmq.Broker, topic: str) -> None:
    send(broker, topic, *(b"%d" % n for n in range(60)))
    seen: list[int] = []

    @broker.work("many", [topic], concurrency=4, idle=WATCHDOG_S)
    def handle(job: orbitmq.Job) -> None:
        seen.append(int(job.body))

    assert handle.run(jobs=20) == 20
    assert "handle" in repr(handle) and handle.__name__ == "handle"

    async def tasks() -> int:
        async with orbitmq.aio.connect(broker.name) as client:

            @client.work("many", [topic], concurrency=4, idle=WATCHDOG_S)
            async def handle(job: orbitmq.Job) -> None:
                await asyncio.sleep(0)
                seen.append(int(job.body))

            done = await handle.run(jobs=20)
            async with client.worker("many", [topic], idle=WATCHDOG_S) as worker:
                async for job in worker:
                    seen.append(int(job.body))
                    if len(seen) == 60:
                        worker.stop()
            return done

    assert run_watched(tasks()) == 20
    assert sorted(seen) == list(range(60))
    until(lambda: left(broker, "many", topic) == 0, "the last answers")


def test_what_no_worker_can_have(broker: orbitmq.Broker, topic: str) -> None:
    """A consumer neither. Each error says which value, and what would do."""
    for make in (broker.worker, broker.consumer):
        with pytest.raises(UnknownTopic, match=r"could not \w+ topic 'no-such': it does not exist; create it"):
            make("g", ["no-such"])
        for topics in (topic, None, 5):
            with pytest.raises(SettingError, match=f"topics {topics!r}: a list of names is needed; write topics="):
                make("g", topics)  # type: ignore[arg-type]
        with pytest.raises(GroupNameError, match="cannot name a group 5: a name is a str"):
            make(5, [topic])  # type: ignore[arg-type]


def test_other_members(broker: orbitmq.Broker, topic: str) -> None:
    with broker.worker("kinds", [topic]), pytest.raises(GroupInUse):
        broker.consumer("kinds", [topic])
    with pytest.raises(UnknownTopic):
        broker.worker("kinds", ["no-such-topic"])


def test_a_killed_process_of_a_worker(broker: orbitmq.Broker, topic: str, tmp_path: Path) -> None:
    """kill -9 in the middle of a handler: the job comes again at once, its second delivery."""
    send(broker, topic, b"a", file=str(tmp_path / "seen"))
    with broker.worker("dies", [topic], executor="processes", visibility=600) as worker:
        assert worker.run(work_handlers.die_at_first, jobs=2) == 2
        worker.flush(WATCHDOG_S)
    assert broker.group("dies").lag_messages == 0


@pytest.mark.parametrize("kind", ["loop", "run"])
def test_a_killed_worker(broker: orbitmq.Broker, topic: str, tmp_path: Path, kind: str) -> None:
    """kill -9 of the worker itself: what it had begun comes again at once, long before its visibility is over."""
    send(broker, topic, *(b"%d" % n for n in range(6)))
    program = start(kind, broker, topic, tmp_path)
    begun = 2 if kind == "run" else 1
    until(lambda: len(list(tmp_path.glob("*-1"))) == begun)
    program.kill()
    program.wait()
    seen = rest_of(broker, topic, 6)
    first = {int(note.name.partition("-")[0]) for note in tmp_path.glob("*-1")}
    assert {n for n, delivery in seen.items() if delivery == 2} >= first and sorted(seen) == list(range(6))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["loop", "run"])
def test_a_graceful_stop(
    broker: orbitmq.Broker, topic: str, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    """What is begun is finished, and the program goes on behind its worker; the rest goes to others, as a first delivery."""
    send(broker, topic, *(b"%d" % n for n in range(6)))
    program = start(kind, broker, topic, tmp_path)
    begun = 2 if kind == "run" else 1
    until(lambda: len(list(tmp_path.glob("*-1"))) == begun)
    program.send_signal(number)
    (tmp_path / "go").touch()
    said, _ = program.communicate(timeout=WATCHDOG_S)
    first = {int(note.name.partition("-")[0]) for note in tmp_path.glob("*-1")}  # more than at the signal, if it was slow
    assert program.returncode == 0 and said.decode() in ("stopped True\n", f"worked on {len(first)}\n")
    seen = rest_of(broker, topic, 6 - len(first))
    assert set(seen) == set(range(6)) - first and set(seen.values()) <= {1}


@pytest.mark.parametrize("settle", [Job.ack, Job.nack, Job.done, partial(Job.extend, seconds=60)])
def test_a_forked_child_settles_nothing(broker: orbitmq.Broker, topic: str, settle: Callable[[Job], None]) -> None:
    """It is told so, and its parent settles the job."""
    send(broker, topic, b"a")
    with broker.worker("forks", [topic]) as worker:
        (job,) = worker.take(1, WATCHDOG_S)
        pid = os.fork()
        if pid == 0:
            try:
                settle(job)
            except UsageError as error:
                os._exit(0 if "forked" in str(error) else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert job.state == "open"
        job.ack()
        worker.flush(WATCHDOG_S)
    assert broker.group("forks").lag_messages == 0


def test_its_processes_end_with_it(broker: orbitmq.Broker, topic: str, tmp_path: Path) -> None:
    """A killed worker leaves no process that works on what others have got."""
    send(broker, topic, b"a", file=str(tmp_path / "pid"))
    pid = os.fork()
    if pid == 0:
        with orbitmq.connect(broker.name) as client, client.worker("orphans", [topic], executor="processes") as worker:
            worker.run(work_handlers.hang_after_noting)
        os._exit(0)
    child = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: dead(child), "the end of the worker's process")


def test_a_slow_job_holds_nothing_else(broker: orbitmq.Broker, topic: str) -> None:
    """Goal: what one worker has not begun, another one gets at once. Method: a worker that was quick, and so takes many at
    once, has a job that does not end; another one does all the rest, in less time than the first could keep it."""
    with broker.producer() as producer:
        producer.send_batch(topic, [b"%d" % n for n in range(3000)])
    quick: set[int] = set()
    with broker.worker("slow", [topic], visibility=600) as slow, broker.worker("slow", [topic], visibility=600) as other:
        for job in slow:
            quick.add(int(job.body))
            if len(quick) == 1000:
                break
        assert job.state == "open"
        rest: set[int] = set()
        while len(rest) < 2000:
            (each,) = other.take(1, WATCHDOG_S)
            with each:
                assert each.delivery == 1
                rest.add(int(each.body))
    assert not quick & rest


def test_a_late_ack_is_told(broker: orbitmq.Broker, topic: str) -> None:
    send(broker, topic, b"a")
    with broker.worker("late", [topic], visibility=0.1, extend=False) as slow, broker.worker("late", [topic]) as quick:
        (job,) = slow.take(1, WATCHDOG_S)
        (again,) = quick.take(1, WATCHDOG_S)
        job.ack()
        with pytest.raises(JobLost):
            slow.flush(WATCHDOG_S)
        again.ack()
        quick.flush(WATCHDOG_S)


def test_a_killed_dispatcher(broker: orbitmq.Broker, topic: str) -> None:
    send(broker, topic, *(b"%d" % n for n in range(200)))
    seen: list[int] = []
    with broker.worker("struck", [topic], idle=WATCHDOG_S) as worker:
        for job in worker:
            seen.append(int(job.body))
            if len(seen) in (30, 90):
                kill(broker, "dispatcher")
            if len(seen) == 200:
                worker.stop()
    assert sorted(seen) == list(range(200))
    until(lambda: left(broker, "struck", topic) == 0, "the last answers")


def test_a_broker_that_comes_back(tmp_path: Path) -> None:
    """With `wait`, the same worker goes on at the next broker."""
    with small_broker(tmp_path, name="returns") as broker:
        broker.create_topic("t", 1)
        send(broker, "t", b"a", b"b")
        with orbitmq.connect("returns", wait=WATCHDOG_S) as client:
            worker = client.worker("g", ["t"])
            (job,) = worker.take()
            with job:
                pass
            worker.flush(WATCHDOG_S)
            broker.close()
            with small_broker(tmp_path, name="returns"):
                assert [each.body for each in worker.take(5, WATCHDOG_S)] == [b"b"]
                worker.close()


def start(kind: str, broker: orbitmq.Broker, topic: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.client.worker_programs", kind, broker.name, topic, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])
