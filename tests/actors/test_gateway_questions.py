"""Goal: what an administrator asks a consumer reaches it, and its answer comes back as it is; if none can come, the
administrator hears why, and nobody else waits meanwhile.

Method: clients of the readable model of the protocol at both ends. The real mqadmin and Java's consumer are in
tests/interop/test_mqadmin_commands.py. Of remoting/admin/questions.py and native/remoting/gateway/gateway_forward.c.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import orbitmq
from tests.actors.remoting_client import HEARTBEAT, MAX_OFFSET, Remote, Said
from tests.actors.shared_broker import broker_for
from tests.forged import BODY_AT, forged_at
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed
from tests.waiting import until

RUNNING, PROCESS = 307, 309
SUCCESS, SYSTEM_ERROR, SILENT = 0, 1, 207
FORWARDS = 256  # that are awaited at a time


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 1, listen="127.0.0.1:0") as broker:
        yield broker


def join(remote: Remote, group: str, topic: str) -> None:
    subscription = {"topic": topic, "subString": "*", "expressionType": "TAG"}
    told = {"clientID": "1@a", "consumerDataSet": [{"groupName": group, "subscriptionDataSet": [subscription]}]}
    remote.until(remote.put(HEARTBEAT, json.dumps(told).encode()))


@pytest.fixture
def member(broker: orbitmq.Broker, place: tuple[str, str]) -> Iterator[Remote]:
    with Remote(broker.status().listens) as remote:
        join(remote, *place)
        yield remote


def question(member: Remote, code: int) -> Said:
    """The next one that the member gets; what it is told of the group comes between."""
    while (came := member.next_one()).code != code:
        pass
    return came


@pytest.mark.parametrize("form", [JSON, BINARY])
def test_a_question_and_its_answer(broker: orbitmq.Broker, member: Remote, form: int, group: str) -> None:
    """Code, remark, fields and body are the consumer's; the form of the header is that of who asked."""
    with Remote(broker.status().listens, form) as admin:
        opaque = admin.put(RUNNING, consumerGroup=group, clientId="1@a", jstackEnable="true")
        asked = question(member, RUNNING)
        assert asked.fields == {"consumerGroup": group, "clientId": "1@a", "jstackEnable": "true"}
        member.reply(asked.opaque, 42, b"what it does", b"a remark", more="x")
        said = admin.take()
        assert said == Said(opaque, 42, "a remark", {"more": "x"}, b"what it does", form)


def test_one_message_is_processed(broker: orbitmq.Broker, member: Remote, topic: str, group: str) -> None:
    """Goal: the consumer gets the record that the id names, and the broker's name, which it needs."""
    with broker.producer() as producer, Remote(broker.status().listens) as admin:
        producer.send(topic, b"first")
        receipt = producer.send(topic, b"second", keys="k")
        indexed(broker)
        fields = {"consumerGroup": group, "clientId": "1@a"}
        opaque = admin.put(PROCESS, **fields, msgId=receipt.id)
        asked = question(member, PROCESS)
        assert asked.fields == {**fields, "msgId": receipt.id, "brokerName": broker.name}
        assert b"second" in asked.body and int.from_bytes(asked.body[:4], "big") == len(asked.body)
        member.reply(asked.opaque, SUCCESS, b"done")
        assert (said := admin.take()).opaque == opaque and said.body == b"done"
        place = broker.status().positions.wrote + BODY_AT
        producer.send(topic, forged_at(place, topic, 0, 0))
        indexed(broker)
        for wrong in (f"{receipt.id[:16]}{place:016X}", "00" * 15 + "01", "7F" * 16, "FF" * 16, "xyz", "", "00"):
            assert admin.ask(PROCESS, **fields, msgId=wrong).code == SYSTEM_ERROR


def test_who_cannot_be_asked(broker: orbitmq.Broker, member: Remote, group: str) -> None:
    with Remote(broker.status().listens) as admin:
        for whose, name in ((group, "nobody"), ("h", "1@a")):
            said = admin.ask(RUNNING, consumerGroup=whose, clientId=name)
            assert said.code == SYSTEM_ERROR and "not online" in str(said.remark)
        assert admin.ask(RUNNING, consumerGroup=group).code == SYSTEM_ERROR


def test_a_consumer_that_goes(broker: orbitmq.Broker, member: Remote, group: str) -> None:
    with Remote(broker.status().listens) as admin:
        admin.put(RUNNING, consumerGroup=group, clientId="1@a")
        question(member, RUNNING)
        member.socket.close()
        said = admin.take()
        assert said.code == SYSTEM_ERROR and "closed its connection" in str(said.remark)


def test_a_consumer_that_is_silent(broker: orbitmq.Broker, member: Remote, topic: str, group: str) -> None:
    """Goal: the others are served meanwhile, on the connection that asks too; an answer that comes too late is nobody's."""
    with Remote(broker.status().listens) as admin:
        opaque = admin.put(RUNNING, consumerGroup=group, clientId="1@a")
        assert admin.ask(MAX_OFFSET, topic=topic, queueId=0).code == SUCCESS
        asked = question(member, RUNNING)
        said = admin.take()
        assert (said.opaque, said.code) == (opaque, SILENT)
        member.reply(asked.opaque, SUCCESS, b"late")
        member.until(member.put(MAX_OFFSET, topic=topic, queueId=0))
        assert admin.ask(MAX_OFFSET, topic=topic, queueId=0).code == SUCCESS


def test_an_answer_of_somebody_else(broker: orbitmq.Broker, member: Remote, topic: str, group: str) -> None:
    """Goal: only the consumer that was asked can answer."""
    with Remote(broker.status().listens) as admin, Remote(broker.status().listens) as other:
        opaque = admin.put(RUNNING, consumerGroup=group, clientId="1@a")
        asked = question(member, RUNNING)
        for guess in (asked.opaque, opaque):
            other.reply(guess, SUCCESS, b"forged")
        other.until(other.put(MAX_OFFSET, topic=topic, queueId=0))
        member.reply(asked.opaque + 1, SUCCESS, b"to nothing")
        member.reply(asked.opaque, SUCCESS, b"true")
        assert admin.take().body == b"true"


def test_who_asks_and_goes(broker: orbitmq.Broker, member: Remote, topic: str, group: str) -> None:
    """Goal: the answer goes nowhere, also not to who has got the number of the connection since."""
    with Remote(broker.status().listens) as admin:
        admin.put(RUNNING, consumerGroup=group, clientId="1@a")
        asked = question(member, RUNNING)
    with Remote(broker.status().listens) as other:
        other.until(other.put(MAX_OFFSET, topic=topic, queueId=0))
        member.reply(asked.opaque, SUCCESS, b"for nobody")
        member.until(member.put(MAX_OFFSET, topic=topic, queueId=0))
        other.until(other.put(MAX_OFFSET, topic=topic, queueId=0))
        assert not other.has_come


def test_too_many_questions(broker: orbitmq.Broker, member: Remote) -> None:
    """Goal: what waits for answers is bounded, and there is room again when they have come."""
    with Remote(broker.status().listens) as admin:
        for _ in range(FORWARDS + 1):
            admin.put(RUNNING, consumerGroup="g", clientId="1@a")
        said = admin.take()
        assert said.code == SYSTEM_ERROR and "too many are asked" in str(said.remark)
        for _ in range(FORWARDS):
            member.reply(question(member, RUNNING).opaque, SUCCESS)
        assert {admin.take().code for _ in range(FORWARDS)} == {SUCCESS}
        admin.put(RUNNING, consumerGroup="g", clientId="1@a")
        member.reply(question(member, RUNNING).opaque, SUCCESS, b"again")
        until(lambda: admin.has_come, "the last answer")
        assert admin.take().body == b"again"
