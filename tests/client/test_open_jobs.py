"""Goal: what takes long is extended, what hangs is given up, what was not begun is given back, each at its time. Method: the
heartbeat's look (client/work/heartbeat.py calls it) with a clock of the test's."""

from __future__ import annotations

import pytest

from orbitmq.client.work.heartbeat import Heartbeat
from orbitmq.client.work.job import Job
from orbitmq.client.work.open_jobs import OpenJobs
from orbitmq.client.work.supply import AHEAD_S, STALE_S, Supply
from orbitmq.client.work.worker_settings import WorkerSettings
from orbitmq.errors import BrokerStopped
from tests.client.work_model import WorkModel


class Rig:
    """A worker's inside without its thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: float | bool | None) -> None:
        self.now = 1000.0
        monkeypatch.setattr(Heartbeat, "wake", lambda _: None)
        self.model = WorkModel(lambda: self.now)
        self.session = self.model.open(WorkerSettings("g", ["t"]))
        self.supply = Supply(self.session, in_hand=100, clock=lambda: self.now)
        options = {"visibility": 30.0, "extend": True, "timeout": None, **settings}
        self.jobs = OpenJobs(self.session, self.supply, clock=lambda: self.now, **options)  # type: ignore[arg-type]

    def begin(self, *bodies: bytes) -> list[Job]:
        self.model.send(*bodies)
        return self.jobs.begin(self.supply.some(len(bodies), 0))

    def look(self, passed: float) -> float | None:
        self.now += passed
        return self.jobs.look(self.now)


def test_a_failure_concerns_those_that_were_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an ack of several jobs that cannot be sent says nothing about those that were settled before."""
    rig = Rig(monkeypatch)
    jobs = rig.begin(b"a", b"b", b"c")
    jobs[0].ack()
    jobs[1].nack()

    def ack(_: object) -> None:
        raise BrokerStopped("could not answer: the broker stopped")

    monkeypatch.setattr(rig.session, "ack", ack)
    with pytest.raises(BrokerStopped):
        rig.jobs.ack(jobs)
    assert [job.state for job in jobs] == ["acked", "nacked", "lost"]


def test_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    (job,) = rig.begin(b"a")
    rig.look(STALE_S)  # after a take it looks twice for what waits
    rig.look(STALE_S)
    for _ in range(20):
        wait = rig.look(7.5)
        assert wait == 7.5 and job.deadline > rig.now + 7.5 and job.state == "open"
    job.ack()
    assert rig.look(7.5) is None and rig.model.done == [b"a"]


def test_without_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, extend=False)
    (job,) = rig.begin(b"a")
    rig.look(29)
    assert job.deadline == 1030.0 and "extend a" not in rig.model.log


def test_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, timeout=2.0)
    given_up: list[Job] = []
    rig.jobs.on_timeout = given_up.append
    (job,) = rig.begin(b"a")
    rig.look(STALE_S)
    rig.look(STALE_S)
    assert rig.look(1.1) == pytest.approx(0.4)
    assert rig.look(0.4) is None
    assert given_up == [job] and job.state == "lost"
    assert rig.model.entry(b"a").reasons == [("TimedOut: not done after 2 s", "")]


def test_what_is_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as is done in 10 ms; after a quarter of a second it goes back."""
    rig = Rig(monkeypatch)
    rig.model.send(*(b"%d" % n for n in range(400)))
    for _ in range(60):
        hand_out = rig.supply.one(0)
        assert hand_out is not None
        (job,) = rig.jobs.begin([hand_out])
        rig.now += 0.001
        job.ack()
    asked = rig.model.sessions[0].asked
    assert asked[0] == 1 and 8 <= asked[-1] <= AHEAD_S / 0.001 + 1
    assert rig.supply.waiting
    rig.look(STALE_S)
    assert not rig.supply.waiting and sum(each.owner is not None for each in rig.model.entries) == 0
    assert rig.look(STALE_S) is None
