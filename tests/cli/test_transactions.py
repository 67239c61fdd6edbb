"""Goal: `orbitmq transactions` shows what is open, ends what its list has shown, asks first, and says by its exit code whether
all ended so. Method: a real broker, on which a producer leaves transactions open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.cli.exit_codes import FAILED, NOT_RUNNING, WOULD_DELETE
from orbitmq.client.transaction.transaction import Transaction
from tests.cli.commands import Terminal, run
from tests.trees import everything, small_broker
from tests.waiting import until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path) as running:
        running.create_topic("t", 1)
        yield running


@pytest.fixture
def begun(broker: orbitmq.Broker) -> Iterator[list[Transaction]]:
    """Four: three of the group shop, and one of another."""
    with broker.producer(group="shop") as shop, broker.producer(group="else") as other:
        made = [shop.transaction("t", b"%d" % number, keys=f"k-{number}") for number in range(3)]
        made.append(other.transaction("t", b"x" * 2000))
        until(lambda: len(broker.open_transactions()) == 4, "them to be indexed")
        yield made


def listed(broker: orbitmq.Broker, *options: str) -> list[dict[str, Any]]:
    done = run("transactions", "list", "--json", *options, "--name", broker.name)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def left(broker: orbitmq.Broker) -> list[str]:
    return [each.id for each in broker.open_transactions()]


def test_it_lists_what_is_open(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    begun[1].rollback()
    heads, *rows = (line.split() for line in run("transactions", "list", "--name", broker.name).stdout.splitlines())
    assert heads == ["begun", "age", "group", "topic", "keys", "bytes", "checks", "next", "place", "id"]
    place = "RMQ_SYS_TRANS_HALF_TOPIC/0@"
    # Between the number of checks and the place is the time until the next one, with its unit.
    shown = [[*row[4 : row.index("0", 5) + 1], *row[-2:]] for row in rows]
    assert shown == [
        ["shop", "t", "k-0", "1", "0", f"{place}0", begun[0].id],
        ["shop", "t", "k-2", "1", "0", f"{place}2", begun[2].id],
        ["else", "t", "2,000", "0", f"{place}3", begun[3].id],
    ]
    assert all(row[-3] == "due" or row[-3] in ("s", "ms") for row in rows)
    first, last = listed(broker, "--group", "shop")
    about = [first[key] for key in ("transaction", "place", "group", "for_topic", "for_queue", "body", "keys")]
    assert about == [begun[0].id, f"{place}0", "shop", "t", 0, "0", ["k-0"]]
    assert first["age_s"] >= last["age_s"] >= 0 and first["begun_ms"] == first["stored_ms"] <= last["begun_ms"]


def test_nothing_is_open(broker: orbitmq.Broker) -> None:
    assert run("transactions", "list", "--name", broker.name).stdout == "no transaction is open\n"
    of_group = run("transactions", "list", "-g", "shop", "--name", broker.name)
    assert of_group.stdout == "no transaction of the producer group shop is open\n"
    assert listed(broker) == []


def test_what_was_shown_can_be_ended(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    """By its id and by its place."""
    first, second, third, fourth = listed(broker)
    done = run("transactions", "commit", first["transaction"], third["place"], "--yes", "--name", broker.name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{first['transaction']}  committed", f"{third['place']}  committed"]
    done = run("transactions", "rollback", second["place"], "-y", "--json", "--name", broker.name)
    told = {"handle": second["place"], "transaction": begun[1].id, "ended": "rolled back", "why": None}
    assert (done.returncode, json.loads(done.stdout)) == (0, told)
    assert left(broker) == [fourth["transaction"]]
    until(lambda: len(everything(broker, "t")) == 2, "the committed ones to be indexed")
    assert sorted(body for body, *_ in everything(broker, "t")) == [b"0", b"2"]


def test_it_asks(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    for command, loses in (("commit", "cannot be taken back"), ("rollback", "1 message will never be sent")):
        done = run("transactions", command, begun[0].id, "--name", broker.name)
        assert done.returncode == WOULD_DELETE and loses in done.stderr and "--yes" in done.stderr
    for answer, code in (("n", WOULD_DELETE), ("y", 0)):
        with Terminal("transactions", "rollback", begun[0].id, "--name", broker.name) as terminal:
            terminal.read_to("Roll back 1 transaction?")
            terminal.type(f"{answer}\n")
            assert terminal.end() == code
        assert (begun[0].id in left(broker)) == (answer == "n")


def test_others_end_while_somebody_thinks(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    """What ended meanwhile is said, with the exit code; the others end all the same."""
    with Terminal("transactions", "commit", begun[0].id, begun[1].id, "--name", broker.name) as terminal:
        terminal.read_to("Commit 2 transactions?")
        begun[0].rollback()
        terminal.type("y\n")
        assert terminal.end() == FAILED
        assert "not committed: it was rolled back before" in terminal.shown and f"{begun[1].id}  committed" in terminal.shown


def test_a_topic_that_is_gone(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    broker.delete_topic("t")
    done = run("transactions", "commit", begun[0].id, "--yes", "--json", "--name", broker.name)
    told = json.loads(done.stdout)
    assert (done.returncode, told["ended"]) == (FAILED, None) and "no such topic" in told["why"]
    assert run("transactions", "rollback", begun[0].id, "--yes", "--name", broker.name).returncode == 0


def test_handles_that_name_nothing(broker: orbitmq.Broker, begun: list[Transaction]) -> None:
    """Then nothing ends."""
    begun[1].commit()
    with broker.producer() as producer:
        twice = [producer.transaction("t", b"same", properties={"UNIQ_KEY": "same"}) for _ in range(2)]
        until(lambda: len(broker.open_transactions()) == 5, "them to be indexed")
        for handle, why in (
            ("nobody", "'nobody': no open transaction has this id or place"),
            (begun[1].id, "it may have ended"),
            ("same", "2 open transactions have this id"),
        ):
            done = run("transactions", "rollback", begun[0].id, handle, "--yes", "--name", broker.name)
            assert done.returncode == FAILED and why in done.stderr, done.stderr
        assert begun[0].id in left(broker)
        for each in twice:
            each.rollback()
    assert run("transactions", "list", "--name", "nobody").returncode == NOT_RUNNING
