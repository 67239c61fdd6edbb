"""Goal: a body that a RocketMQ client has compressed, by zlib, lz4 or zstd, is stored as it came, whichever way it takes, and
is plain for local readers.

Method: the Python client of the protocol, with each way by which a body comes into the log; what compresses is Arrow's."""

from __future__ import annotations

import pytest

import orbitmq
from tests.actors.remoting_batch import SEND_BATCH, Entry, batch_of
from tests.actors.remoting_client import Remote, body_of, records
from tests.actors.remoting_transaction import begin, end
from tests.native.test_reader import COMPRESSIONS, packed
from tests.trees import indexed, stored
from tests.waiting import until

SUCCESS, ILLEGAL = 0, 13
COMPRESSED, TYPE = 0x1, 0x700
HALF, COMMIT = 4, 8


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_it_is_stored_as_it_came(broker: orbitmq.Broker, remote: Remote, kind: str, topic: str, group: str) -> None:
    flag, body = COMPRESSIONS[kind], packed(b"plain" * 1000, kind.split(maxsplit=1)[0])
    assert remote.send(topic, body, 1, f=flag).code == SUCCESS
    fields = remote.send_fields(topic, 1, f=flag) | {"m": "true"}
    assert remote.ask(SEND_BATCH, batch_of([Entry(body), Entry(body)]), **fields).code == SUCCESS
    half = begin(remote, "id-1", body, f=flag | HALF, topic=topic)
    assert end(remote, half, COMMIT).code == SUCCESS
    assert remote.send(topic, body, 1, b"DELAY\0011\2", f=flag).code == SUCCESS
    assert remote.send(f"%RETRY%{group}", body, 0, b"RETRY_TOPIC\1t\2", f=flag).code == SUCCESS
    until(lambda: len(stored(broker, topic)) == 5, "the one that is delayed")
    messages = stored(broker, topic) + stored(broker, f"%RETRY%{group}")
    assert [each.sys_flag & (COMPRESSED | TYPE) for each in messages] == [flag] * 6
    assert [bytes(each) for each in messages] == [b"plain" * 1000] * 6
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        assert consumer.poll_arrow(10).column("body").to_pylist() == [b"plain" * 1000] * 5
    said = remote.pull(topic, 1, 0)
    assert [body_of(record) for record in records(said.body)] == [body] * 5, "remote consumers decompress by themselves"


def test_a_body_that_is_not_what_it_says(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Stored and served as it came, as RocketMQ's broker does it; and local consumers of every kind get it so, and go on behind
    it."""
    for flag in COMPRESSIONS.values():
        assert remote.send(topic, b"plain", 1, f=flag).code == SUCCESS
    assert remote.send(topic, b"behind", 1).code == SUCCESS
    sent = [b"plain"] * len(COMPRESSIONS) + [b"behind"]
    assert [bytes(each) for each in stored(broker, topic)] == sent
    with broker.consumer(f"a-{topic}", topics=[topic], start="earliest") as consumer:
        assert consumer.poll_bodies(10) == sent
    with broker.consumer(f"b-{topic}", topics=[topic], start="earliest") as consumer:
        assert consumer.poll_arrow(10).column("body").to_pylist() == sent
    with broker.worker(f"c-{topic}", [topic]) as worker:
        for job, body in zip(worker, sent, strict=False):
            assert bytes(job.body) == body
            if body == b"behind":
                break
    said = remote.pull(topic, 1, 0)
    assert [body_of(record) for record in records(said.body)] == sent


@pytest.mark.parametrize("flag", [0x401, 0x701])
def test_what_nobody_knows_is_refused(broker: orbitmq.Broker, remote: Remote, flag: int, topic: str) -> None:
    said = remote.send(topic, b"x", 1, f=flag)
    assert (said.code, said.remark) == (ILLEGAL, "its body is compressed with something else than zlib, lz4 and zstd")
    assert remote.send(topic, b"plain", 1, f=0x200).code == SUCCESS, "a type without compression says nothing"
    indexed(broker)
    assert [(bytes(each), each.sys_flag) for each in stored(broker, topic)] == [(b"plain", 0)]
