"""Goal: a remote client's message or batch that has an id is stored once, whoever dies in between, and none has an id unawares.
Method: the field dedupId in requests of the readable model, beside local producers that use the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.remoting_batch import SEND_BATCH, Entry, batch_of
from tests.actors.remoting_client import Remote
from tests.actors.shared_broker import OWN_TOPIC
from tests.native.remoting_model import BINARY, JSON
from tests.trees import actors, kill, small_broker, stored
from tests.waiting import until

SUCCESS, BUSY, ILLEGAL = 0, 2, 13
PLACE = ("msgId", "queueId", "queueOffset")
SEND = 10


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def batch(remote: Remote, topic: str, entries: list[Entry], **others: object) -> Any:
    fields = remote.send_fields(topic, 0, b"WAIT\1true\2", **{"m": "true", **others})
    return remote.ask(SEND_BATCH, batch_of(entries), **fields)


def bodies(broker: orbitmq.Broker, topic: str = OWN_TOPIC) -> list[bytes]:
    return [bytes(message) for message in stored(broker, topic)]


def test_one_message(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Its answer names the place of the first, also if it asked for another queue."""
    first = remote.send(topic, b"first", 1, b"colour\1blue\2", dedupId="order-17")
    again = remote.send(topic, b"again", 0, b"", dedupId="order-17")
    assert (first.code, again.code) == (SUCCESS, SUCCESS)
    assert [again.fields[name] for name in PLACE] == [first.fields[name] for name in PLACE]
    assert (first.fields.get("duplicate"), again.fields["duplicate"]) == (None, "true")
    other = f"{topic}-u"
    broker.create_topic(other, 2)
    assert remote.send(other, b"another topic", dedupId="order-17").fields.get("duplicate") is None
    long_form = {"producerGroup": "g", "topic": topic, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0}
    assert remote.ask(SEND, b"long", **long_form, dedupId="order-17").fields["duplicate"] == "true"
    [message] = stored(broker, topic)
    assert (
        bytes(message) == b"first" and message.properties["DEDUP_ID"] == "order-17" and message.properties["colour"] == "blue"
    )
    assert bodies(broker, other) == [b"another topic"]


def test_beside_local_producers(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    with broker.producer() as producer:
        assert remote.send(topic, b"remote", dedupId="a").code == SUCCESS
        assert producer.send(topic, b"local", dedup="a").duplicate
        producer.send(topic, b"local", dedup="b")
        assert remote.send(topic, b"remote", dedupId="b").fields["duplicate"] == "true"
    assert bodies(broker, topic) == [b"remote", b"local"]


def test_one_batch(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Of one message and of several. Another number of messages under the id is refused."""
    for name, count in (("one", 1), ("some", 5)):
        entries = [Entry(b"%s %d" % (name.encode(), each), b"UNIQ_KEY\1u%d\2" % each) for each in range(count)]
        first, again = batch(remote, topic, entries, dedupId=name), batch(remote, topic, entries, dedupId=name)
        assert [again.fields[field] for field in PLACE] == [first.fields[field] for field in PLACE]
        assert (first.fields.get("duplicate"), again.fields["duplicate"]) == (None, "true")
        said = batch(remote, topic, [*entries, Entry(b"more")], dedupId=name)
        assert said.code == ILLEGAL and "another number of messages" in said.remark
    assert bodies(broker, topic) == [b"one 0", *(b"some %d" % each for each in range(5))]
    ids = [message.properties.get("DEDUP_ID") for message in stored(broker, topic)]
    assert ids == ["one", "some", None, None, None, None]


def test_what_was_received_is_sent_on(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Goal: the property, with which messages come, is no id when a client sends it on."""
    for _ in range(2):
        assert remote.send(topic, b"x", 0, b"DEDUP_ID\1order-17\2").code == SUCCESS
        assert batch(remote, topic, [Entry(b"y", b"DEDUP_ID\1order-17\2"), Entry(b"z")]).code == SUCCESS
    assert bodies(broker, topic) == [b"x", b"y", b"z"] * 2


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (b"x" * 256, {}),
        (b"\x03Aname:1", {}),
        (b"a\x01b", {}),
        (b"a\x02b", {}),
        (b"half", {"i": b"TRAN_MSG\1true\2PGROUP\1g\2"}),
        (b"again", {"b": "%RETRY%group", "i": b"RETRY_TOPIC\1t\2"}),
    ],
    ids=["long", "numbered", "name-end", "end", "half", "again"],
)
def test_ids_that_are_refused(
    broker: orbitmq.Broker, remote: Remote, name: bytes, more: dict[str, object], topic: str
) -> None:
    said = remote.send(topic, b"x", **{"dedupId": name, **more})  # type: ignore[arg-type]
    assert said.code == ILLEGAL and "dedupId" in (said.remark or "")
    assert remote.send(topic, b"x", dedupId="x" * 255).code == SUCCESS
    assert bodies(broker, topic) == [b"x"]


def test_no_more_ids(tmp_path: Path) -> None:
    with small_broker(tmp_path, listen="127.0.0.1:0", dedup_ids=3) as broker, Remote(broker.status().listens) as remote:
        broker.create_topic("t", 2)
        codes = [remote.send("t", b"%d" % each, dedupId=f"id {each}").code for each in range(5)]
        assert codes == [SUCCESS] * 3 + [BUSY] * 2
        assert bodies(broker) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("victim", ["gateway", "handler 0", "writer"])
def test_a_client_that_sends_again(tmp_path: Path, victim: str) -> None:
    """Goal: whoever of the broker dies, all is stored once. Method: a client that sends until it has an answer."""
    with small_broker(tmp_path, listen="127.0.0.1:0", placement="spread") as broker:
        broker.create_topic("t", 1)
        listens, sent, turn = broker.status().listens, 0, 0
        entries = [[Entry(b"%d %d" % (number, each)) for each in range(7)] for number in range(60)]
        while sent < len(entries):
            turn += 1
            with suppress(OSError), Remote(listens) as remote:
                remote.socket.settimeout(60)
                while sent < len(entries):
                    opaque = remote.put(SEND_BATCH, batch_of(entries[sent]), **fields_of(remote, f"batch {sent}"))
                    if sent % 12 == 5 and turn <= 10:
                        until(lambda: victim in actors(broker), "the victim")
                        kill(broker, victim)
                        turn += 1
                    said = remote.answered()
                    assert (said.opaque, said.code) == (opaque, SUCCESS)
                    sent += 1
        assert turn > 1
        assert bodies(broker) == [entry.body for some in entries for entry in some]


def fields_of(remote: Remote, name: str) -> dict[str, object]:
    return remote.send_fields("t", 0, **{"m": "true", "dedupId": name})
