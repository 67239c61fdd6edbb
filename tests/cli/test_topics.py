"""Goal: the commands `orbitmq topic describe`, `grow`, `permissions`, `purge` and `delete` do what their help says and refuse
with a reason; what destroys asks first. Method: the commands on a broker of the test's; the question at a terminal."""

from __future__ import annotations

import pytest

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import Terminal, run
from tests.cli.test_groups import NAME, begin, records, refused
from tests.waiting import until


def test_topics(flows: Broker) -> None:
    begin(flows, "readers")
    (found,) = records("topic", "describe", "flows")
    assert found["perm"] == 6 and len(found["queues"]) == 4 and found["groups"] == ["readers"]
    shown = run("topic", "describe", "flows", *NAME).stdout
    assert "4 queues  3,000 messages" in shown and "read, write" in shown and "readers" in shown
    assert records("topic", "grow", "flows", "--queues", "6")[0]["queues"] == 6
    assert "has 6 queues" in run("topic", "grow", "flows", "-q", "6", *NAME).stdout
    assert records("topic", "permissions", "flows") == [{"name": "flows", "perm": 6, "read": True, "write": True}]
    assert run("topic", "permissions", "flows", "--no-write", *NAME).stdout == "topic flows: read\n"
    assert "may not be written" in (said := refused(1, "send", "flows", "x"))
    assert "orbitmq topic permissions flows --write" in said
    assert records("topic", "permissions", "flows", "--write", "--no-read")[0]["perm"] == 2
    assert records("topic", "permissions", "flows", "--read")[0]["perm"] == 6
    would = records("topic", "purge", "flows", "--dry-run")
    assert sum(each["messages"] for each in would) == 3000 and flows.topic("flows").queues[0].min_offset == 0
    assert records("topic", "purge", "flows", "--to", "5", "--queue", "0", "--yes") == [
        {"queue": 0, "before": 0, "after": 5, "messages": 5}
    ]
    assert "2,995 messages are gone" in run("topic", "purge", "flows", "--yes", *NAME).stdout
    assert "0 messages are gone" in run("topic", "purge", "flows", *NAME).stdout, "there is nothing to be asked about"


def test_what_is_refused(flows: Broker) -> None:
    for words in (("describe",), ("grow", "--queues", "2"), ("permissions", "--no-read"), ("purge", "--yes")):
        assert "it does not exist" in refused(1, "topic", words[0], "nothing", *words[1:])
    assert "3,000 messages of 'flows' will be gone" in refused(6, "topic", "purge", "flows"), "nobody is there to be asked"
    assert "latest, an offset, or a time" in refused(2, "topic", "purge", "flows", "--to", "soon", "--yes")
    assert "ends at" in refused(1, "topic", "purge", "flows", "--to", "99999", "--yes")
    assert "could not grow the topic 'flows' to 2 queues: it has" in refused(1, "topic", "grow", "flows", "--queues", "2")
    assert "could not delete topic 'nosuch': it does not exist" in refused(1, "topic", "delete", "nosuch", "--yes")
    assert sum(queue.min_offset for queue in flows.topic("flows").queues) == 0


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_a_purge_asks_first(flows: Broker, answer: str) -> None:
    with Terminal("topic", "purge", "flows", *NAME) as terminal:
        terminal.read_to("Purge the topic 'flows'? [y/N]:")
        terminal.type(answer)
        assert terminal.end() == (0 if answer == "y\n" else 6), terminal.shown
    gone = sum(queue.min_offset for queue in flows.topic("flows").queues)
    assert gone == (3000 if answer == "y\n" else 0)


def test_a_purge_removes_what_was_asked_about(flows: Broker) -> None:
    """Goal: what comes while somebody thinks about the question stays."""
    ends = [queue.max_offset for queue in flows.topic("flows").queues]
    with Terminal("topic", "purge", "flows", *NAME) as terminal:
        terminal.read_to("Purge the topic 'flows'? [y/N]:")
        flows.grow_topic("flows", 5)
        with flows.producer() as producer:
            for queue in range(5):
                producer.send("flows", b"new", queue=queue)
        until(lambda: [queue.max_offset for queue in flows.topic("flows").queues] == [*(end + 1 for end in ends), 1], "reput")
        terminal.type("y\n")
        assert terminal.end() == 0 and "3,000 messages are gone" in terminal.shown
    assert [queue.min_offset for queue in flows.topic("flows").queues] == [*ends, 0]


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_a_deletion_asks_first(flows: Broker, answer: str) -> None:
    assert "3,000 messages of 'flows' will be gone, and the topic" in refused(6, "topic", "delete", "flows")
    assert "it does not exist" in refused(1, "topic", "delete", "nothing", "--yes")
    with Terminal("topic", "delete", "flows", *NAME) as terminal:
        terminal.read_to("Delete the topic 'flows'? [y/N]:")
        terminal.type(answer)
        assert terminal.end() == (0 if answer == "y\n" else 6), terminal.shown
    assert [each.name for each in flows.topics()] == ([] if answer == "y\n" else ["flows"])
    if answer == "n\n":
        assert records("topic", "delete", "flows", "--yes") == [{"name": "flows", "deleted": True}]
        assert "it does not exist" in refused(1, "send", "flows", "x") and records("topic", "list") == []
