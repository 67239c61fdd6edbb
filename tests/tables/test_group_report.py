"""Goal: exports show how far they are as a group's offsets, and depend on nothing of that. Method: whole brokers. Streams:
tests/spark/test_stream_progress_report.py."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import GroupNameError, UnknownGroup
from tests.tables.exporting import export_here
from tests.trees import indexed, kill

LOG = 1 << 26


def lag(broker: orbitmq.Broker, group: str) -> tuple[int, int]:
    """In queues that the group knows, and how many these are."""
    found = broker.group(group)
    assert not found.members and not found.workers
    return found.lag_messages, len(found.queues)


def test_the_lag_of_an_export(tmp_path: Path) -> None:
    """Of all queues of the exported topics, also of those that have had nothing, and over a death of the coordinator."""
    out = tmp_path / "out"
    with orbitmq.Broker(tmp_path / "store", log_file_size=LOG) as broker, broker.producer() as producer:
        for topic in ("orders", "payments", "other"):
            broker.create_topic(topic, queues=2)
        for topic in ("orders", "payments"):
            producer.send(topic, b"x", queue=0)
        export_here(tmp_path / "store", out, "orders", "payments")
        with pytest.raises(UnknownGroup):
            broker.group("warehouse")
        export_here(tmp_path / "store", out, "orders", group="warehouse")  # nothing new, and it is shown
        assert lag(broker, "warehouse") == (0, 4)
        assert [each.name for each in broker.status().groups] == ["warehouse"]
        for queue in (0, 1, 1):
            producer.send("orders", b"x", queue=queue)
        producer.send("payments", b"x", queue=1)
        producer.send("other", b"x")
        indexed(broker)
        assert lag(broker, "warehouse") == (4, 4)
        export_here(tmp_path / "store", out, "orders", group="warehouse")
        assert lag(broker, "warehouse") == (1, 4)
        kill(broker, "coordinator")
        assert lag(broker, "warehouse") == (1, 4)
        export_here(tmp_path / "store", out, group="warehouse")
        assert lag(broker, "warehouse") == (0, 6)
        broker.grow_topic("orders", 3)
        producer.send("orders", b"x", queue=2)
        export_here(tmp_path / "store", out, "payments", group="warehouse")
        assert lag(broker, "warehouse") == (1, 7)
        broker.delete_group("warehouse")  # it is only shown
        assert export_here(tmp_path / "store", out, group="warehouse").rows == 1
        assert lag(broker, "warehouse") == (0, 7)


def test_what_cannot_be_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The messages are exported, and the log says why."""
    out = tmp_path / "out"
    with pytest.raises(GroupNameError, match="a name is a str"):
        export_here(tmp_path / "store", out, group=5)
    with orbitmq.Broker(tmp_path / "store", log_file_size=LOG) as broker, broker.producer() as producer:
        broker.create_topic("orders", queues=1)
        producer.send("orders", b"x")
        with broker.consumer("billing", ["orders"], start="earliest") as consumer:
            consumer.poll()
            consumer.commit()
            producer.send("orders", b"x")
            assert export_here(tmp_path / "store", out, group="billing").rows == 2
            assert "cannot show how far the group 'billing' is" in caplog.text and "member" in caplog.text
            assert broker.group("billing").lag_messages == 1
        caplog.clear()
        producer.send("orders", b"x")
        assert export_here(tmp_path / "store", out, group="no group").rows == 1
        assert "cannot show how far the group 'no group' is" in caplog.text
        producer.send("orders", b"x", durability="flushed")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert export_here(tmp_path / "store", out, group="warehouse").rows == 1
    assert "no broker runs on" in caplog.text
