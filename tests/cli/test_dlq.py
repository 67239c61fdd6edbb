"""Goal: `orbitmq dlq` shows, sends again and removes dead letters, refuses with a reason, and asks before it destroys. Method:
the commands on a broker with dead letters of RocketMQ's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import Terminal, run
from tests.client.dead_stores import store_with_letters
from tests.trees import everything, small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    path = tmp_path_factory.mktemp("dead")
    store_with_letters(path, 5)
    with small_broker(path, name="dead", retention_hours=0) as broker:
        yield broker


def dlq(*arguments: str) -> str:
    done = run("dlq", *arguments, "--name", "dead")
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dlq(*arguments, "--json").splitlines()]


def test_all_of_it(broker: Broker) -> None:
    assert dlq("list").split()[-3:] == ["billing", "5", "5"]
    table = dlq("list", "billing")
    assert "orders" in table and "k-3" in table and " 16 " in table
    shown = dlq("show", "billing", "2")
    assert "group billing gave it up after 16 tries; not sent again" in shown and "property RETRY_TOPIC" in shown
    (letter,) = records("show", "billing", "2")
    assert (letter["offset"], letter["original_topic"], letter["body"], letter["redriven"]) == (2, "orders", "2", None)
    missing = run("dlq", "show", "billing", "7", "--name", "dead")
    assert missing.returncode == 1 and "could not find dead letter 7" in missing.stderr

    (sent,) = records("redrive", "billing", "2")
    assert sent["redriven"] and records("list", "billing", "--all")[2]["redriven"] == sent["redriven"]
    assert "sent 4 dead letters again, to orders" in dlq("redrive", "billing", "--yes")
    assert "sent 0 dead letters again" in dlq("redrive", "billing")
    assert sorted(body for body, *_ in everything(broker, "orders")) == [b"%d" % n for n in range(5)]
    assert records("list", "billing") == [] and records("list") == [{"group": "billing", "letters": 0, "with_redriven": 5}]
    assert sent["redriven"] in dlq("list", "billing", "--all")


def test_purge(broker: Broker) -> None:
    refused = run("dlq", "purge", "billing", "--to", "3", "--name", "dead")
    assert refused.returncode == 6 and "add --yes" in refused.stderr
    assert "purged 3 dead letters" in dlq("purge", "billing", "--to", "3", "--yes")
    assert [each["offset"] for each in records("list", "billing", "-a")] == [3, 4]
    with Terminal("dlq", "purge", "billing", "--name", "dead") as terminal:
        terminal.read_to("Purge the dead letters of the group 'billing'?")
        terminal.type("n\r")
        assert terminal.end() == 6
    assert records("purge", "billing", "--yes") == [{"group": "billing", "purged": 2}]
    assert records("purge", "billing") == [{"group": "billing", "purged": 0}]
    assert records("list", "billing", "-a") == []


def test_a_group_without_letters_and_a_mistyped_one(broker: Broker) -> None:
    with broker.consumer("alive", ["orders"]):
        assert "group alive has no dead letters" in dlq("list", "alive")
        assert "sent 0 dead letters again" in dlq("redrive", "alive")
        assert records("purge", "alive") == [{"group": "alive", "purged": 0}]
    for asked in (["list"], ["redrive"], ["purge", "--yes"], ["redrive", "--json"]):
        done = run("dlq", asked[0], "biling", *asked[1:], "--name", "dead")
        assert done.returncode == 1 and not done.stdout, asked
        assert "the group 'biling': there is no such group" in done.stderr and "orbitmq group list" in done.stderr


def test_a_purge_removes_what_was_asked_about(tmp_path: Path) -> None:
    """Goal: a message that dies while somebody thinks about the question stays."""
    store_with_letters(tmp_path, 3)
    with small_broker(tmp_path, name="asked", retention_hours=0) as broker:
        letters = broker.dead_letters("billing")
        with Terminal("dlq", "purge", "billing", "--name", "asked") as terminal:
            terminal.read_to("Purge the dead letters of the group 'billing'?")
            with broker.producer() as producer, broker.work_session("billing", ["orders"], max_tries=1) as worker:
                producer.send("orders", b"new")
                worker.nack(worker.take(1, WATCHDOG_S)[0])
                until(lambda: letters.bounds.maximum == 4, "the new letter")
            terminal.type("y\r")
            assert terminal.end() == 0 and "purged 3 dead letters" in terminal.shown
        assert [each.offset for each in letters.list()] == [3]
