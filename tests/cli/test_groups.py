"""Goal: `orbitmq group` and `orbitmq clients` do what their help says, refuse with a reason, and ask before they destroy.
Method: the commands (cli/group.py, cli/clients.py) on a broker of the test's, whose groups have and have no members; questions
at a terminal."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from rich.console import Console

from orbitmq.cli.group import delete
from orbitmq.cli.panels import groups_table
from orbitmq.client.admin.status import GroupStatus, MemberStatus
from orbitmq.client.broker.broker import Broker
from orbitmq.client.client import Client
from orbitmq.errors import GroupInUse
from tests.cli.commands import Terminal, run
from tests.waiting import until

NAME = ("--name", "flows")


def records(*arguments: str) -> list[dict[str, Any]]:
    done = run(*arguments, *NAME, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(code: int, *arguments: str) -> str:
    done = run(*arguments, *NAME)
    assert done.returncode == code, done
    return done.stderr


def begin(flows: Broker, group: str) -> None:
    """A group without members that has read 10 messages."""
    with flows.consumer(group, ["flows"]) as consumer:
        assert len(consumer.poll_batch(10, 20)) == 10
        consumer.commit()
    until(lambda: not flows.group(group).members, "the member to leave")


def test_groups_and_clients(flows: Broker) -> None:
    """Everything but questions."""
    assert "no groups" in run("group", "list", *NAME).stdout and records("group", "list") == []
    begin(flows, "idle")
    with flows.consumer("busy", ["flows"]) as consumer, flows.producer():
        assert consumer.poll(20) is not None
        idle, busy = sorted(records("group", "list"), key=lambda each: str(each["name"]), reverse=True)
        assert (idle["name"], busy["name"]) == ("idle", "busy") and idle["lag_messages"] == 3000 - 10
        assert busy["members"][0]["pid"] == os.getpid() and "committed_per_s" in busy
        assert records("group", "describe", "busy")[0]["members"] == busy["members"]
        shown = run("group", "describe", "busy", *NAME).stdout
        assert "1 member" in shown and "lag 3,000" in shown and f"{os.getpid()}" in shown and "flows/3" in shown
        table = run("group", "list", *NAME).stdout
        assert "none now" in table and "3,000" in table
        (us, them) = sorted(records("clients"), key=lambda each: each["pid"] != os.getpid())
        assert us["groups"] == ["busy"] and (us["producers"], us["consumers"]) == (1, 1) and us["user"]
        assert them["command"] and not them["sessions"]
        assert "busy" in run("clients", *NAME).stdout
        told = refused(1, "group", "delete", "busy", "--yes")
        assert f"it has 1 member, of process {os.getpid()}" in told and "close its consumers" in told
    move = records("group", "reset", "idle", "--to", "-10")
    assert {each["after"] for each in move} == {0} and sum(each["before"] for each in move) == 10
    (one,) = records("group", "reset", "idle", "--to", "+5", "--topic", "flows", "--queue", "0")
    assert one == {"topic": "flows", "queue": 0, "before": 0, "after": 5}
    would = run("group", "reset", "idle", "--to", "latest", "--dry-run", *NAME).stdout
    assert "would go on in 4 queues" in would and "messages skipped" in would
    assert "5 messages again" in run("group", "reset", "idle", "--to", "2020-01-01", *NAME).stdout
    assert "is paused" in run("group", "pause", "idle", *NAME).stdout and "paused" in run("group", "list", *NAME).stdout
    assert records("group", "resume", "idle") == [{"name": "idle", "paused": False}]


def test_a_narrow_terminal(flows: Broker) -> None:
    """In 80 columns, names take several lines, and lag and pause are still there."""
    long = "whose-name-takes-more-than-half-of-a-line"
    begin(flows, f"a-group-{long}")
    flows.create_topic(f"a-topic-{long}", 1)
    flows.reset_group(f"a-group-{long}", "latest", topic=f"a-topic-{long}")
    flows.pause_group(f"a-group-{long}")
    console = Console(width=80, soft_wrap=True)
    with console.capture() as capture:
        console.print(groups_table(flows.groups(), lambda _: 0.0))
    heading, first, *_ = lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert heading.split() == ["group", "members", "topics", "lag", "committed/s", "missed"]
    assert first.split()[-2:] == ["2,990", "paused"]


def test_what_is_refused(flows: Broker) -> None:
    begin(flows, "g")
    assert "there is no such group" in refused(1, "group", "describe", "h")
    for change in (("reset", "h", "--to", "latest"), ("delete", "h", "--yes"), ("pause", "h"), ("resume", "h")):
        assert "there is no such group" in refused(1, "group", *change)
    assert "earliest, latest" in refused(2, "group", "reset", "g", "--to", "soon")
    assert "holds 0 to" in refused(1, "group", "reset", "g", "--to", "99999")
    assert "Missing option" in refused(2, "group", "reset", "g")
    assert "does not exist" in refused(1, "group", "reset", "g", "--to", "latest", "--topic", "nothing")
    assert "--yes" in refused(6, "group", "delete", "g"), "nobody is there to be asked"
    assert flows.group("g").queues


@pytest.mark.parametrize("answer", ["n\n", "\n", "y\n"])
def test_a_deletion_asks_first(flows: Broker, answer: str) -> None:
    begin(flows, "g")
    with Terminal("group", "delete", "g", *NAME) as terminal:
        terminal.read_to("Delete the group 'g'? [y/N]:")
        assert [each.name for each in flows.groups()] == ["g"]
        terminal.type(answer)
        assert terminal.end() == (0 if answer == "y\n" else 6), terminal.shown
    assert [each.name for each in flows.groups()] == ([] if answer == "y\n" else ["g"])


def test_a_deletion_while_the_last_member_leaves(flows: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that had members a moment ago is not deleted without a question."""
    begin(flows, "g")
    member = MemberStatus(1, 0, ("flows",), (), ())
    monkeypatch.setattr(Client, "group", lambda self, name: GroupStatus(name, 1, (member,), ()))
    with pytest.raises(GroupInUse, match="it has 1 member, of process 1"):
        delete("g", yes=False, name="flows")
    assert [each.name for each in flows.groups()] == ["g"]


def test_a_deletion_that_is_not_asked_about(flows: Broker) -> None:
    begin(flows, "g")
    assert records("group", "delete", "g", "--yes") == [{"name": "g", "deleted": True}]
    assert flows.groups() == []
