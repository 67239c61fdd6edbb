"""Goal: a job is settled by how its body is left, once, never before. Method: workers (client/work/worker_settings.py,
client/work/loop.py) over a model of the broker's queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from orbitmq.client.work.job import Job
from orbitmq.client.work.worker import Worker
from orbitmq.errors import Closed, JobLost, SettingError, UsageError
from tests.client.work_model import WorkModel
from tests.waiting import WATCHDOG_S


@pytest.fixture
def model() -> WorkModel:
    return WorkModel()


def bodies(jobs: list[Job]) -> list[bytes]:
    return [job.body for job in jobs]


def test_leaving_the_body_acks(model: WorkModel) -> None:
    model.send(b"a", b"b", b"c")
    seen = []
    with model.worker(idle=0) as worker:
        for job in worker:
            seen.append((job.body, job.topic, job.delivery, model.done))
            if job.body == b"b":
                continue
    assert seen == [(b"a", "orders", 1, []), (b"b", "orders", 1, [b"a"]), (b"c", "orders", 1, [b"a", b"b"])]
    assert model.done == [b"a", b"b", b"c"] and model.sessions[0].closed


def test_an_exception_nacks_at_once_and_propagates(model: WorkModel) -> None:
    """Also if the program catches it outside of the loop and stays in the block."""
    model.send(b"a", b"b")
    with model.worker(idle=0) as worker:
        with pytest.raises(ValueError, match="no such card"):
            for job in worker:
                if job.body == b"b":
                    raise ValueError("no such card")
        assert model.done == [b"a"]
        (reason,) = model.entry(b"b").reasons
        assert reason[0] == "ValueError: no such card" and len(reason[1]) == 12
        assert job.state == "nacked"
        model.entry(b"b").due = 0
        assert [(job.body, job.delivery) for job in worker] == [(b"b", 2)]
    assert model.done == [b"a", b"b"]


def test_the_digest_is_of_the_place(model: WorkModel) -> None:
    def fail(text: str, depth: int) -> None:
        if depth:
            fail(text, depth - 1)
        raise ValueError(text)

    def other() -> None:
        raise ValueError("a")

    model.send(b"a", b"b", b"c")
    digests = []
    with model.worker() as worker:
        for body, do in ((b"a", lambda: fail("x", 0)), (b"b", lambda: fail("y", 7)), (b"c", other)):
            with pytest.raises(ValueError):
                for _ in worker:
                    do()
            digests.append(model.entry(body).reasons[0][1])
    assert digests[0] == digests[1] != digests[2]


def test_an_exception_that_leaves_the_block(model: WorkModel) -> None:
    model.send(b"a", b"b")
    with pytest.raises(KeyError), model.worker() as worker:
        for _ in worker:
            raise KeyError("x")
    assert model.entry(b"a").reasons[0][0] == "KeyError: 'x'" and not model.done
    assert model.entry(b"b").deliveries == 0


def test_ctrl_c_gives_the_job_to_the_next_at_once(model: WorkModel) -> None:
    model.send(b"a")
    with pytest.raises(KeyboardInterrupt), model.worker() as worker:
        for _ in worker:
            raise KeyboardInterrupt
    with model.worker(idle=0) as worker:
        assert [job.delivery for job in worker] == [2]


def test_break_acks(model: WorkModel) -> None:
    """With the end of the block, or with the next loop."""
    model.send(b"a", b"b", b"c")

    def first(worker: Worker) -> bytes:
        for job in worker:
            return job.body
        raise AssertionError

    with model.worker(idle=0) as worker:
        assert first(worker) == b"a"
        assert not model.done
        assert first(worker) == b"b"
        assert model.done == [b"a"]
    assert model.done == [b"a", b"b"]
    assert model.entry(b"c").deliveries == 0


def test_a_generator_between_never_acks_what_failed(model: WorkModel) -> None:
    model.send(b"a")

    def chosen(worker: Worker) -> Iterator[Job]:
        for job in worker:
            if job.delivery:
                yield job

    with model.worker() as worker, pytest.raises(ValueError):
        for _ in chosen(worker):
            raise ValueError
    assert not model.done and model.entry(b"a").deliveries == 1


def test_iter_of_iter(model: WorkModel) -> None:
    """enumerate drops the loop while the error is on its way."""
    model.send(b"a")
    with model.worker() as worker, pytest.raises(ValueError):
        for _ in enumerate(worker):
            raise ValueError("here")
    assert model.entry(b"a").reasons[0][0] == "ValueError: here"


def test_a_settled_job_is_left_alone(model: WorkModel) -> None:
    model.send(b"a", b"b", b"c")
    with model.worker(idle=0) as worker:
        for job in worker:
            if job.body == b"a":
                job.nack(delay=5, reason="busy\nnow")
                with pytest.raises(UsageError, match="could not ack the job orders/0@0: it was nacked"):
                    job.ack()
                job.nack()
            elif job.body == b"b":
                job.ack()
                job.ack()
                with pytest.raises(UsageError, match="it was acked"):
                    job.extend(3)
                with pytest.raises(UsageError, match="it was acked"):
                    job.nack()
    assert model.done == [b"b", b"c"]
    assert model.entry(b"a").reasons == [("busy now", "")]
    assert [line for line in model.log if line[0] != "g"] == ["nack a", "ack b", "ack c"]


def test_with_job(model: WorkModel) -> None:
    model.send(b"a", b"b", b"c")
    with model.worker() as worker:
        one, two, three = worker.take(10)
        with one:
            with pytest.raises(ValueError), two:
                raise ValueError("x")
            assert not model.done
        assert model.done == [b"a"] and model.entry(b"b").reasons
        assert three.state == "open"
    assert model.entry(b"c").reasons == [("its worker was closed", "")]
    assert worker.closed
    with pytest.raises(Closed):
        worker.take()


def test_batches(model: WorkModel) -> None:
    model.send(*(b"%d" % n for n in range(25)))
    sizes = []
    with model.worker(idle=0) as worker:
        for jobs in worker.batches(10):
            sizes.append(len(jobs))
            jobs[0].nack(delay=60)
            jobs.clear()
    assert sizes == [10, 10, 5] and len(model.done) == 22
    assert [line.split()[0] for line in model.log] == ["nack", "ack", "nack", "ack", "nack", "ack"]


def test_a_batch_that_fails(model: WorkModel) -> None:
    model.send(b"a", b"b", b"c")
    with model.worker(idle=0) as worker, pytest.raises(ValueError):
        for jobs in worker.batches(2):
            jobs[0].ack()
            raise ValueError("x")
    assert model.done == [b"a"] and model.entry(b"b").reasons[0][0] == "ValueError: x"


def test_a_loop_is_stopped_after_its_job(model: WorkModel) -> None:
    model.send(b"a", b"b")
    with model.worker() as worker:
        for job in worker:
            worker.stop()
            assert job.state == "open"
        assert worker.stopped
    assert model.done == [b"a"] and model.entry(b"b").deliveries == 0


def test_slow_jobs_are_not_hoarded(model: WorkModel) -> None:
    """Goal: what one worker has not begun, another one gets. Method: quick jobs make a worker take many; the first slow one
    gives the rest back."""
    model.send(*(b"%d" % n for n in range(2000)))
    with model.worker(visibility=600) as worker:
        for n, _ in enumerate(worker):
            if n == 1000:
                break
        assert max(model.sessions[0].asked) > 4
        held = lambda: [each for each in model.entries if each.owner is not None and not each.done]  # noqa: E731
        with model.changed:
            assert model.changed.wait_for(lambda: len(held()) == 1, 60)
    assert all(each.deliveries <= 1 for each in model.entries)


def kept(visibility: float) -> bool:
    """A job that ends after several extensions is its worker's all the time. False: the worker stood still for too long."""
    looks: list[float] = []

    def clock() -> float:
        looks.append(time.monotonic())
        return looks[-1]

    model = WorkModel(clock)
    model.send(b"a")
    with model.worker(visibility=visibility) as worker:
        (job,) = worker.take()
        first = job.deadline
        with model.changed:
            assert model.changed.wait_for(lambda: model.log.count("extend a") > 3, WATCHDOG_S)
        extended = job.deadline > first
        job.ack()
    if any(later - before >= visibility for before, later in pairwise(looks)):
        return False
    assert extended and model.done == [b"a"] and model.entry(b"a").deliveries == 1
    return True


def test_a_long_job_is_extended() -> None:
    """Goal: as long as the process lives and works, nobody else gets its job. Method: a short visibility, and a
    job that ends after several of them; a longer one if the machine is too slow for it."""
    visibility = 0.2
    while not kept(visibility):
        assert visibility < WATCHDOG_S / 10
        visibility *= 2


def test_without_extension_it_goes_to_another(model: WorkModel) -> None:
    """And what the first one answers then counts no more, which it is told."""
    model.send(b"a")
    with model.worker(visibility=0.05, extend=False) as slow, model.worker() as quick:
        (job,) = slow.take()
        (again,) = quick.take(timeout=60)
        assert (again.body, again.delivery) == (b"a", 2)
        job.ack()
        with pytest.raises(JobLost) as caught:
            slow.flush()
        assert caught.value.ids == [job.message.id]
        assert not model.done
        again.ack()
        slow.flush()
    assert model.done == [b"a"]


def test_a_hung_loop_body_loses_its_job(model: WorkModel) -> None:
    model.send(b"a")
    lost = threading.Event()
    with model.worker(timeout=0.05) as worker:
        for job in worker:
            with model.changed:
                assert model.changed.wait_for(lambda: model.entry(b"a").reasons, 60)
            lost.set()
            ways = "raise visibility= of worker.*, or raise timeout= of worker.*a reset of the group takes jobs back too"
            with pytest.raises(JobLost, match=f"its time was over.*{ways}"):
                while job.state != "lost":
                    pass
                job.ack()
            break
    ((reason, digest),) = model.entry(b"a").reasons
    assert lost.is_set() and reason == "TimedOut: not done after 0.05 s" and digest
    assert not model.done


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"concurrency": 0}, "with 0 as concurrency: it is a number from 1 to 4,096"),
        ({"concurrency": 8, "in_hand": 4}, "the worker may have only 4 in hand; raise in_hand=, or lower concurrency="),
        ({"visibility": 0}, "visibility=0: it is a number of seconds, above 0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"idle": "x"}, "idle='x'"),
        ({"executor": "fibers"}, "'fibers': it is 'threads' or 'processes'"),
        ({"in_hand": 1 << 20}, "to 65,536"),
    ],
)
def test_wrong_settings(model: WorkModel, settings: dict[str, object], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        model.worker(**settings)
    assert not model.sessions


def test_wrong_calls(model: WorkModel) -> None:
    model.send(b"a")
    with model.worker(in_hand=5) as worker:
        for most in (0, 6, "x", None, 1.5):
            text = f"could not take {most!r} jobs at once: it is a number from 1 to in_hand, 5"
            with pytest.raises(SettingError, match=text):
                worker.take(most)  # type: ignore[arg-type]
        for handler in (None, "charge"):
            with pytest.raises(SettingError, match=f"could not run {handler!r}: it cannot be called"):
                worker.run(handler)  # type: ignore[arg-type]
        with worker.take()[0] as job:
            with pytest.raises(SettingError, match="delay=-1"):
                job.nack(delay=-1)
            with pytest.raises(SettingError, match="seconds=0"):
                job.extend(0)
            for call in (job.nack, job.extend):
                with pytest.raises(SettingError, match=r"43201: it is a number of seconds, .*, and 43,200 at most"):
                    call(43201)
            with pytest.raises(SettingError, match="the reason 5: it is no text"):
                job.nack(reason=5)  # type: ignore[arg-type]
            assert job.state == "open"
            assert "orders/0@0, delivery 1, open" in repr(job) and "group 'billing'" in repr(worker)


def test_an_unclosed_worker_warns(model: WorkModel) -> None:
    worker = model.worker()
    with pytest.warns(ResourceWarning, match="unclosed <Worker of the group 'billing'"):
        del worker
