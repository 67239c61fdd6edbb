"""Goal: a hostile client harms its own messages only. Method: attackers of hostile.py beside honest producers whose every
message is accounted for; afterwards no actor has died, no slot is occupied, and the store is whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.crash import hostile, ledger
from tests.trees import actors, everything, kill, small_broker
from tests.waiting import until

SMALL_LOG = {"log_file_size": 8 << 20, "lane_capacity": 1 << 20}


@contextmanager
def honest_broker(folder: Path, messages: int, seed: int, placement: str = "spread") -> Iterator[orbitmq.Broker]:
    """A broker with two honest producers beside whatever the test does; it checks everything when that is over."""
    store = folder / "store"
    with small_broker(store, placement=placement, **SMALL_LOG) as broker:
        broker.create_topic(ledger.TOPIC, queues=ledger.QUEUES)
        broker.create_topic(hostile.TOPIC, queues=2)
        producers = ledger.start_producers(broker.name, folder, 2, messages, seed)
        yield broker
        for producer in producers:
            until(lambda: not producer.is_alive(), "an honest producer")
            assert producer.exitcode == 0
        until(lambda: broker.status().sessions == (), "every slot to be free")
        account = ledger.settle(ledger.ledgers(folder), everything(broker, ledger.TOPIC))
        assert account.wrong == []
        assert account.acknowledged == account.stored == 2 * messages
        assert {actor.name: actor.epoch for actor in actors(broker).values() if actor.epoch != 1} == {}
    layout = StoreLayout.at(store)
    faults: list[object] = []
    verify(layout, layout.settings(), faults.append)
    assert faults == []


def end(attackers: list[BaseProcess], logs: list[Path]) -> None:
    """Waits until the attackers have done their deeds, or have died in one; then ends them."""
    for attacker, log in zip(attackers, logs, strict=True):
        until(lambda: not attacker.is_alive(), "the attacker")
        deeds = log.read_text().splitlines() if log.exists() else []
        assert attacker.exitcode in (0, -signal.SIGKILL), f"it could do what it must not, at {deeds[-1:]}"


@pytest.mark.parametrize("deed", [deed.__name__ for deed in hostile.DEEDS])
def test_one_kind_of_deed(tmp_path: Path, deed: str) -> None:
    with honest_broker(tmp_path, 400, seed=1) as broker:
        end([hostile.start(broker.name, 1, 8, tmp_path / "deeds", deed)], [tmp_path / "deeds"])


@pytest.mark.parametrize(("seed", "placement"), [(0, "spread"), (1, "spread"), (2, "together")])
def test_all_of_them(tmp_path: Path, seed: int, placement: str) -> None:
    """Three attackers at once, forty deeds each."""
    with honest_broker(tmp_path, 3000, seed, placement) as broker:
        logs = [tmp_path / f"deeds-{each}" for each in range(3)]
        end([hostile.start(broker.name, 100 * seed + each, 40, log) for each, log in enumerate(logs)], logs)


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_actors_are_restarted_on_scribbled_wake_words(tmp_path: Path, placement: str) -> None:
    """Nothing that clients can write is believed, neither by a new actor nor by a new client."""
    names = ["handler 0", "handler 1", "writer", "reput"] if placement == "spread" else ["writer"]
    with small_broker(tmp_path, placement=placement) as broker:
        broker.create_topic("t", 1)
        attacker = hostile.Attacker(broker.name, 1)
        wake = hostile.wake_bytes(attacker)
        for name in (*names, "notifier", "flush", "coordinator"):
            wake[:] = os.urandom(len(wake))
            kill(broker, name)
            until(lambda: actors(broker)[name].epoch == 2 and actors(broker)[name].state == "running", f"a new {name}")
            with orbitmq.connect(broker.name) as client, client.producer() as producer:
                producer.send("t", b"x")
        attacker.client.close()


def test_a_leased_session_holds_nobody_up(tmp_path: Path) -> None:
    """Method: all actors are stopped until the lease is held, so that it is certainly there when they open the session."""
    with small_broker(tmp_path, handlers=1) as broker:
        broker.create_topic(hostile.TOPIC, 1)
        honest = broker.producer()
        attacker = hostile.Attacker(broker.name, 1)
        pids = [actor.pid for actor in actors(broker).values() if actor.name not in ("supervisor", "coordinator")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        hostile.take_a_lease(attacker, certain=True)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        for _ in range(100):  # the handler may well take the first before it looks at the other session
            honest.send(hostile.TOPIC, b"x", timeout=20)
        attacker.client.close()
