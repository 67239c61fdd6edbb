"""Goal: the error for a missing topic names the topic that is probably meant, and no other one."""

from __future__ import annotations

import pytest

from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.topic_table import Topic


def topics(*names: str) -> list[Topic]:
    return [Topic(name, index, 1, 6, index, 1, 0, durable=False) for index, name in enumerate(names)]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ordesr", "orders"), ("Orders", "orders"), ("payment", "payments"), ("orders-eu", None), ("o", None)],
)
def test_a_similar_name(name: str, meant: str | None) -> None:
    error = missing_topic(topics("letters", "orders", "payments"), name, "send to")
    assert error.message == f"could not send to topic {name!r}: it does not exist"
    start = f"write {meant!r} if that is meant, or " if meant else ""
    assert error.hint == f"{start}create it: orbitmq topic create {name}"


def test_a_topic_that_the_broker_keeps_is_not_meant() -> None:
    error = missing_topic(topics("%RETRY%billing"), "%RETRY%biling", "read")
    assert "is meant" not in str(error)


def test_otherwise() -> None:
    error = missing_topic(topics("orders"), "ordesr", "delete", otherwise="orbitmq topic list shows all")
    assert error.hint == "write 'orders' if that is meant, or orbitmq topic list shows all"
    assert missing_topic((), "ordesr", "delete", otherwise="look").hint == "look"
