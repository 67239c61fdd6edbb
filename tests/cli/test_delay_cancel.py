"""Goal: `orbitmq delay cancel` cancels what `send` and `delay list` have shown, asks first, and says by its exit code whether
all was in time. Method: a real broker; times that do not come while the test runs, and one that has come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.cli.exit_codes import FAILED, NOT_RUNNING, WOULD_DELETE
from tests.cli.commands import Terminal, run
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path) as running:
        running.create_topic("t", 1)
        yield running


def sent(broker: orbitmq.Broker, *options: str) -> tuple[str, str]:
    """(place, id) as `orbitmq send` prints them."""
    words = run("send", "t", "hello", *options, "--name", broker.name).stdout.split()
    return words[1], words[-1]


def test_what_was_shown_can_be_cancelled(broker: orbitmq.Broker) -> None:
    """The place and the id in the receipt; the place in the list, of both kinds."""
    name = ("--name", broker.name)
    place, _ = sent(broker, "--delay", "86400")
    _, known = sent(broker, "--delay", "86400")
    sent(broker, "--delay", "86400")
    sent(broker, "--delay", "86400")
    done = run("delay", "cancel", place, known, "--yes", *name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{place}  cancelled", f"{known}  cancelled"]
    until(lambda: len(broker.delayed()) == 2, "both to be indexed")
    shown = [line.split()[-1] for line in run("delay", "list", *name).stdout.splitlines()[1:]]
    (first, second) = (json.loads(line) for line in run("delay", "list", "--json", *name).stdout.splitlines())
    assert shown == [first["place"], second["place"]]
    done = run("delay", "cancel", shown[0], second["id"], "--yes", "--json", *name)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told == [{"handle": shown[0], "cancelled": True}, {"handle": second["id"], "cancelled": True}]
    assert broker.delayed() == []


def test_too_late(broker: orbitmq.Broker) -> None:
    """One of them: the others are cancelled, and the exit code says it."""
    late, _ = sent(broker, "--delay", "0.001")
    with broker.consumer(None, ["t"], start="earliest") as consumer:
        assert consumer.poll(timeout=WATCHDOG_S)
    early, _ = sent(broker, "--delay", "86400")
    done = run("delay", "cancel", late, early, "--yes", "--name", broker.name)
    assert done.returncode == FAILED
    assert done.stdout.splitlines() == [f"{late}  too late: its time has come", f"{early}  cancelled"]
    done = run("delay", "cancel", late, "-y", "--json", "--name", broker.name)
    assert (done.returncode, json.loads(done.stdout)) == (FAILED, {"handle": late, "cancelled": False})


def test_it_asks(broker: orbitmq.Broker) -> None:
    place, _ = sent(broker, "--delay", "86400")
    done = run("delay", "cancel", place, "--name", broker.name)
    assert done.returncode == WOULD_DELETE and "1 delayed message will never come" in done.stderr and "--yes" in done.stderr
    until(broker.delayed, "it to be indexed")
    for answer, code in (("n", WOULD_DELETE), ("y", 0)):
        with Terminal("delay", "cancel", place, "--name", broker.name) as terminal:
            terminal.read_to("Cancel 1 delayed message?")
            terminal.type(f"{answer}\n")
            assert terminal.end() == code
        assert len(broker.delayed()) == (1 if answer == "n" else 0)


def test_what_cannot_be_cancelled(broker: orbitmq.Broker) -> None:
    """Nothing is cancelled if one of the handles is wrong."""
    good, _ = sent(broker, "--delay", "86400")
    level, _ = sent(broker, "--delay-level", "18")
    _, ordinary = sent(broker)
    for handle, why in (
        (level, "waits with a delay level, 18"),
        (ordinary, "in 't' already"),
        ("hello", "neither an id nor a place"),
        ("rmq_sys_wheel_timer/0@99", "the queue ends at offset 1"),
    ):
        done = run("delay", "cancel", good, handle, "--yes", "--name", broker.name)
        assert done.returncode == FAILED and why in done.stderr, done.stderr
    assert len(until(lambda: (found := broker.delayed()) and len(found) == 2 and found)) == 2
    assert run("delay", "cancel", good, "--yes", "--name", "nobody").returncode == NOT_RUNNING
