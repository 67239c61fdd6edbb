"""Goal: no request, however wrong, ends the gateway, takes memory or descriptors from it for good, or changes what others
stored; and nothing is stored that none asked for.

Method: a generator of requests of every kind (gateway_fuzz.py, which an hour's run takes further), and the readable model of
the protocol, which says what they ask for (gateway_asked.py). The decoders alone are
driven over many more frames, with sanitizers, by native/sanitize/drive_requests.c."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.gateway_asked import Asked
from tests.actors.gateway_fuzz import Generator, resident, run
from tests.actors.remoting_client import HEARTBEAT, Remote
from tests.trees import actors, small_broker
from tests.waiting import until

LOCK, SYSTEM_ERROR = 41, 1
COUNT = 4000  # requests that warm it up, and as many that must not cost more
GROWTH_MAX = 4 << 20  # bytes


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 4)
        broker.create_topic("u", 1)
        yield broker


def test_requests_of_every_kind(broker: orbitmq.Broker, caplog: pytest.LogCaptureFixture) -> None:
    generator, asked = Generator(1), Asked(others=("kept",))
    broker.create_topic("kept", 1)
    with broker.producer() as producer:
        producer.send_batch("kept", [b"%d" % n for n in range(100)])
    told = run(broker, generator, asked, COUNT)
    assert {"answer 0", "answer 1", "answer 3", "answer 17"} <= told.keys(), told
    pid = actors(broker)["gateway"].pid
    descriptors = Path(f"/proc/{pid}/fd")
    before, opened = resident(pid), len(os.listdir(descriptors))  # noqa: PTH208
    told += run(broker, generator, asked, COUNT)
    assert told["stored"] > COUNT // 100, told
    assert resident(pid) - before < GROWTH_MAX
    until(lambda: len(os.listdir(descriptors)) <= opened, "its descriptors to be closed")  # noqa: PTH208
    with broker.consumer(None, topics=["kept"], start="earliest") as consumer:
        assert [bytes(each) for each in consumer.poll_batch(100)] == [b"%d" % n for n in range(100)]
    broker.close()  # everything that it said has come then
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("nested", ["[", '{"a":'], ids=["lists", "maps"])
def test_a_body_that_is_nested_too_deeply(broker: orbitmq.Broker, nested: str) -> None:
    body = nested.encode() * 100_000
    pid = actors(broker)["gateway"].pid
    with Remote(broker.status().listens) as remote:
        said = remote.ask(LOCK, body)
        assert said.code == SYSTEM_ERROR
        assert said.remark == "the request has a field that cannot be read: it is nested too deeply"
        assert remote.ask(HEARTBEAT, body).code in (0, SYSTEM_ERROR) and remote.ask(HEARTBEAT, b"{}").code == 0
    assert actors(broker)["gateway"].pid == pid
