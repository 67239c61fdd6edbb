"""SIGKILL to every process of the tree, under load: one verdict a message, nothing lost, nothing twice, nobody stuck."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.crash import ledger
from tests.trees import everything
from tests.waiting import WATCHDOG_S, until


def life_of(client: orbitmq.Client, actor: str) -> tuple[int, str]:
    """(pid, state) of an actor."""
    found = next(status for status in client.status().actors if status.name == actor)
    return found.pid, found.state


ACTORS = ["handler 0", "handler 1", "writer", "reput", "flush", "allocator", "notifier", "coordinator"]
SPREAD: dict[str, Any] = {"placement": "spread", "handlers": 2, "log_file_size": 64 << 20, "restarts": 1_000_000}
TOGETHER: dict[str, Any] = {**SPREAD, "placement": "together"}


@pytest.mark.parametrize(
    ("actor", "settings"),
    [*((actor, SPREAD) for actor in ACTORS), ("writer", TOGETHER)],
    ids=[*ACTORS, "handler, writer and reput together"],
)
def test_one_actor_again_and_again(tmp_path: Path, actor: str, settings: dict[str, Any]) -> None:
    """Method: two producers send while the actor is killed as soon as it runs again, a dozen times."""
    with orbitmq.Broker(tmp_path / "store", timeout=WATCHDOG_S, **settings) as broker:
        broker.create_topic(ledger.TOPIC, queues=ledger.QUEUES)
        producers = ledger.start_producers(broker.name, tmp_path, 2, 6_000, seed=len(actor))
        for _ in range(8):
            before = broker.status().positions.wrote
            pid = 0

            def runs() -> bool:
                nonlocal pid
                pid, state = life_of(broker, actor)
                return pid > 0 and state == "running"

            until(runs, f"{actor} to run")
            os.kill(pid, signal.SIGKILL)
            until(lambda: life_of(broker, actor)[0] not in (pid, 0), f"a new {actor}")
            busy = [producer for producer in producers if producer.is_alive()]
            until(lambda: broker.status().positions.wrote > before or not any(map(_alive, busy)), "the log to grow")
        for producer in producers:
            producer.join(WATCHDOG_S)
            assert producer.exitcode == 0
        account = ledger.settle(ledger.ledgers(tmp_path), everything(broker, ledger.TOPIC))
        assert account.wrong == []
        assert account.acknowledged == account.stored == 12_000


def _alive(process: object) -> bool:
    return process.is_alive()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("seed", "settings"), [(1, SPREAD), (2, TOGETHER)], ids=["spread", "together"])
def test_actors_at_random(tmp_path: Path, seed: int, settings: dict[str, Any]) -> None:
    """Method: three producers, which send until twelve seeded actors were killed; one dies whenever the log has grown by a
    seeded number of bytes."""
    rng = random.Random(seed)
    with orbitmq.Broker(tmp_path / "store", timeout=WATCHDOG_S, **settings) as broker:
        broker.create_topic(ledger.TOPIC, queues=ledger.QUEUES)
        producers = ledger.start_producers(broker.name, tmp_path, 3, 10**7, seed)
        names = [actor.name for actor in broker.status().actors if actor.name != "supervisor"]
        kills = 0
        while kills < 12:
            mark = broker.status().positions.wrote + rng.randrange(1, 150_000)
            until(lambda: broker.status().positions.wrote >= mark or not all(map(_alive, producers)), "the log to grow")
            assert all(map(_alive, producers)), "a producer ended before it was told to"
            pid, state = life_of(broker, rng.choice(names))
            if pid and state == "running":
                with suppress(ProcessLookupError):  # killed before, and its successor is not known yet
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        ledger.stop(tmp_path)
        for producer in producers:
            producer.join(WATCHDOG_S)
        assert [producer.exitcode for producer in producers] == [0, 0, 0]
        account = ledger.settle(ledger.ledgers(tmp_path), everything(broker, ledger.TOPIC))
        assert account.wrong == []
        assert account.acknowledged == account.stored > 0


@pytest.mark.parametrize("durability", ["appended", "flushed"])
def test_the_whole_tree(tmp_path: Path, durability: str) -> None:
    """Method: the supervisor is killed under load, and with it everything. Senders are told that their message is
    perhaps stored; a new tree recovers the store, which holds every acknowledged message once."""
    broker = orbitmq.Broker(tmp_path / "store", log_file_size=64 << 20)
    broker.create_topic(ledger.TOPIC, queues=ledger.QUEUES)
    producers = ledger.start_producers(broker.name, tmp_path, 2, 10**6, seed=7, durability=durability)
    until(lambda: broker.status().positions.wrote > 500_000, "some load")
    pids = [actor.pid for actor in broker.status().actors]
    os.kill(broker.status().pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}").exists() and not _zombie(pid) for pid in pids), "the tree's end")
    for producer in producers:
        producer.join(WATCHDOG_S)
        assert not producer.is_alive(), "a producer is stuck"
    broker.close()
    with orbitmq.Broker(tmp_path / "store", log_file_size=64 << 20) as again:
        account = ledger.settle(ledger.ledgers(tmp_path), everything(again, ledger.TOPIC))
        assert account.wrong == []
        assert account.stored >= account.acknowledged > 0
        again.producer().send(ledger.TOPIC, ledger.BODY.pack(99, 0))


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_producer_dies_and_others_go_on(tmp_path: Path) -> None:
    """Method: one of three producers is killed in the middle; its session is freed, and the others end as if nothing had
    happened."""
    with orbitmq.Broker(tmp_path / "store", log_file_size=64 << 20) as broker:
        broker.create_topic(ledger.TOPIC, queues=ledger.QUEUES)
        producers = ledger.start_producers(broker.name, tmp_path, 3, 8_000, seed=3)
        until(lambda: broker.status().positions.wrote > 200_000, "some load")
        producers[0].kill()
        for producer in producers[1:]:
            producer.join(WATCHDOG_S)
            assert producer.exitcode == 0
        until(lambda: len(broker.status().sessions) == 0, "the sessions to be freed")
        account = ledger.settle(ledger.ledgers(tmp_path), everything(broker, ledger.TOPIC))
        assert account.wrong == []
