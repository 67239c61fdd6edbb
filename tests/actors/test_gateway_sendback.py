"""Goal: a message that a RocketMQ client gives back comes to its group again after its delay, and is a dead letter in the end,
as RocketMQ's broker does it.

Method: the client of the readable model gives messages back as Java's does, and the records that come of it are read by
OrbitMQ's own consumer. Then what must be refused: places in the log that are no message's, and what is not for a group to have.
Also of remoting/send_backs.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import orbitmq
from orbitmq.errors import UnknownTopic
from tests.actors.remoting_client import ONE_WAY, ROUTE, SEND, Remote, Said
from tests.actors.shared_broker import OWN_TOPIC
from tests.forged import foreseen, forged_at
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed, kill, small_broker, stored
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, ILLEGAL, NO_PERMISSION, NO_GROUP = 0, 1, 13, 16, 26
BACK = 36
RETRY, DEAD, LEVELS_TOPIC = "%RETRY%billing", "%DLQ%billing", "SCHEDULE_TOPIC_XXXX"


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


class Group(NamedTuple):
    """A group that gives back messages of a topic. fields: by which a client says so."""

    name: str
    topic: str

    @property
    def retry(self) -> str:
        return f"%RETRY%{self.name}"

    @property
    def dead(self) -> str:
        return f"%DLQ%{self.name}"

    @property
    def fields(self) -> dict[str, Any]:
        return {"group": self.name, "originTopic": self.topic}


@pytest.fixture
def billing(place: tuple[str, str]) -> Group:
    return Group(*place)


def back_fields(offset: int, level: int = 0, **others: object) -> dict[str, object]:
    """As Java's client fills them."""
    told = {"group": "billing", "offset": offset, "delayLevel": level, "originMsgId": "id", "originTopic": "t"}
    return {**told, "unitMode": "false", "maxReconsumeTimes": 16, **others}


def give_back(remote: Remote, offset: int, level: int = 0, **others: object) -> Said:
    return remote.ask(BACK, **back_fields(offset, level, **others))


def own(message: Any) -> dict[str, str]:
    """Properties without the checksum."""
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


def send(broker: orbitmq.Broker, body: bytes = b"body", *, topic: str = OWN_TOPIC, **how: Any) -> Any:
    """The message, as it is stored."""
    with broker.producer() as producer:
        sent = producer.send(topic, body, queue=1, **how)
    indexed(broker)
    return broker.message(sent.id)


def comes(broker: orbitmq.Broker, topic: str, count: int = 1) -> list[Any]:
    """Messages of one of the group's topics, once there are so many."""
    until(lambda: count_in(broker, topic) >= count, f"{count} messages in {topic}")
    return stored(broker, topic)


def count_in(broker: orbitmq.Broker, topic: str) -> int:
    try:
        return sum(queue.max_offset for queue in broker.topic(topic).queues)
    except UnknownTopic:
        return 0


def test_it_comes_again_and_again(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """Each retry is made of the one before. It names the first message and topic; the rest stays as it was sent."""
    first = send(broker, tags="a", keys=["k"], properties={"UNIQ_KEY": "id", "colour": "blue"}, flag=7, topic=topic)
    given: Any = first
    for times in (1, 2, 3):
        said = give_back(remote, given.physical_offset, 1, **billing.fields)
        assert (said.code, said.fields, said.body) == (SUCCESS, {}, b"")
        retry = comes(broker, billing.retry, times)[-1]
        assert retry.reconsume_times == times
        assert own(retry) == {
            **own(first),
            **{"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": str(first.id), "WAIT": "false"},
            **{"DELAY": "1", "REAL_TOPIC": billing.retry, "REAL_QID": "0"},
        }
        assert (bytes(retry), retry.tags, retry.keys, retry.flag) == (b"body", "a", first.keys, 7)
        assert (retry.queue, retry.born_ms) == (0, first.born_ms)
        assert retry.stored_ms >= given.stored_ms + 1000, "after its delay"
        given = retry
    assert count_in(broker, billing.dead) == 0


def test_delays(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """The level that the client names, at most the last one; for 0 the next one of the message's own, from the third on."""
    message = send(broker, topic=topic)
    levels = []
    for level in (17, 18, 19, 2**31 - 1, 2**40, 0):  # none of these comes before the retry below
        assert give_back(remote, message.physical_offset, level, **billing.fields).code == SUCCESS
        indexed(broker)
        waiting = stored(broker, LEVELS_TOPIC)[-1]
        levels.append(waiting.queue + 1)
        assert waiting.properties["DELAY"] == str(waiting.queue + 1) and waiting.reconsume_times == 1
    assert levels == [17, 18, 18, 18, 18, 3]
    assert give_back(remote, message.physical_offset, 1, **billing.fields).code == SUCCESS
    (retry,) = comes(broker, billing.retry)
    assert give_back(remote, retry.physical_offset, 0, **billing.fields).code == SUCCESS
    indexed(broker)
    assert stored(broker, LEVELS_TOPIC)[-1].queue + 1 == 4


def test_dead_letters(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """At once, or when it was tried as often as the client says: a message with so many reconsume times is not tried again.
    A letter can be given back too: it stays one, and a copy comes."""
    message = send(broker, properties={"colour": "blue"}, topic=topic)
    waiting = count_in(broker, LEVELS_TOPIC)
    for case in ({"level": -1}, {"level": -(2**40)}, {"maxReconsumeTimes": 0}, {"maxReconsumeTimes": -1, "level": 5}):
        before = count_in(broker, billing.dead)
        assert give_back(remote, message.physical_offset, **case, **billing.fields).code == SUCCESS  # type: ignore[arg-type]
        letter = comes(broker, billing.dead, before + 1)[-1]
        notes = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": str(message.id), "WAIT": "false"}
        assert own(letter) == {**own(message), **notes} and letter.reconsume_times == 1 and letter.queue == 0
    assert count_in(broker, LEVELS_TOPIC) == waiting
    assert [letter.topic for letter in broker.dead_letters(billing.name)] == [topic] * 4
    assert give_back(remote, message.physical_offset, 1, maxReconsumeTimes=1, **billing.fields).code == SUCCESS
    (retry,) = comes(broker, billing.retry)
    assert give_back(remote, retry.physical_offset, 1, maxReconsumeTimes=1, **billing.fields).code == SUCCESS
    (*_, last) = comes(broker, billing.dead, 5)
    assert last.reconsume_times == 2 and "DELAY" not in last.properties, "one try more than the client says, as in RocketMQ"
    assert give_back(remote, last.physical_offset, 1, **billing.fields).code == SUCCESS
    assert comes(broker, billing.retry, 2)[-1].reconsume_times == 3


def test_old_clients_do_not_say_how_often(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    message = send(broker, topic=topic)
    fields = back_fields(message.physical_offset, 1, **billing.fields)
    del fields["maxReconsumeTimes"]
    assert remote.ask(BACK, **fields).code == SUCCESS
    assert comes(broker, billing.retry)[0].reconsume_times == 1


def test_one_way(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    message = send(broker, topic=topic)
    remote.put(BACK, mark=ONE_WAY, **back_fields(message.physical_offset, -1, **billing.fields))
    assert len(comes(broker, billing.dead)) == 1


def test_places_that_are_no_message_s(broker: orbitmq.Broker, remote: Remote) -> None:
    """Beside one, behind the log, no number, purged; and a record within a body, which a sender can write."""
    message = send(broker, b"x" * 500)
    raw = bytes(message.record())
    forged = send(broker, b"y" * 300 + raw)
    ends = broker.status().positions.wrote
    inside = forged.physical_offset + bytes(forged.record()).index(raw)
    beside = [message.physical_offset + 1, message.physical_offset - 1, inside, ends, ends + 1]
    places: list[Any] = [*beside, 1 << 40, 2**63 - 1, -1, "", "x", 2**64]
    for place in [*places, *(random.Random(1).randrange(ends) for _ in range(300))]:
        if place not in (message.physical_offset, forged.physical_offset):
            said = give_back(remote, place)
            assert (said.code, bool(said.remark)) == (SYSTEM_ERROR, True), place
    for field in ("offset", "delayLevel"):
        fields = back_fields(message.physical_offset)
        del fields[field]
        assert remote.ask(BACK, **fields).code == SYSTEM_ERROR
    broker.purge_topic("t", "latest")
    assert give_back(remote, message.physical_offset).code == SYSTEM_ERROR
    assert count_in(broker, LEVELS_TOPIC) == count_in(broker, DEAD) == 0


def test_a_body_that_is_a_record(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """With the right place and checksums, whichever message of the queue it claims to be: nobody stored it."""
    for offset in (0, 1, 2, 1 << 40):
        message = send(broker, topic=topic)
        place, holder = foreseen(broker, lambda place: send(broker, forged_at(place, topic, 1, offset), topic=topic))
        assert give_back(remote, place, -1, **billing.fields).code == SYSTEM_ERROR, offset
    assert count_in(broker, billing.dead) == 0
    for true in (message, holder):
        assert give_back(remote, true.physical_offset, -1, **billing.fields).code == SUCCESS


def test_a_topic_that_was_deleted_in_between(broker: orbitmq.Broker, remote: Remote, tmp_path: Path) -> None:
    """The file of its queue is another one then."""
    for _ in range(3):
        message = send(broker)
        assert give_back(remote, message.physical_offset, -1).code == SUCCESS
        broker.delete_topic("t")
        until(lambda: not (tmp_path / "consumequeue" / "t").exists(), "reput to remove the files")
        assert give_back(remote, message.physical_offset, -1).code == SYSTEM_ERROR
        broker.create_topic("t", 2)
    indexed(broker)
    assert count_in(broker, DEAD) == 3


def test_what_is_for_no_group(broker: orbitmq.Broker, remote: Remote) -> None:
    """A half message, one that waits, and a note of the broker's."""
    with broker.producer(group="shop") as producer:
        producer.transaction("t", b"half")
        producer.transaction("t", b"gone").rollback()
        producer.send("t", b"later", delay_level=18)
        producer.send("t", b"later", delay=3600)
    indexed(broker)
    topics = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", LEVELS_TOPIC, "rmq_sys_wheel_timer")
    for topic in topics:
        for message in stored(broker, topic):
            assert give_back(remote, message.physical_offset, -1).code == SYSTEM_ERROR, topic
    assert all(count_in(broker, topic) for topic in topics) and count_in(broker, DEAD) == 0


def test_groups(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """A group begins with its first request; a name that is none has no topics."""
    message = send(broker, topic=topic)
    assert give_back(remote, message.physical_offset, -1, **{**billing.fields, "group": f"fresh-{topic}"}).code == SUCCESS
    assert len(comes(broker, f"%DLQ%fresh-{topic}")) == 1
    for name in ("a b", "x" * 256, "\1", "x" * 121):
        assert give_back(remote, message.physical_offset, **{**billing.fields, "group": name}).code == NO_GROUP, name
    fields = back_fields(message.physical_offset, **billing.fields)
    del fields["group"]
    assert remote.ask(BACK, **fields).code == SYSTEM_ERROR


def test_a_message_that_leaves_no_room(tmp_path: Path) -> None:
    """The notes do not fit into the largest record. It is refused, and the client keeps the message."""
    with small_broker(tmp_path, listen="127.0.0.1:0", message_max=4096) as broker, Remote(broker.status().listens) as remote:
        broker.create_topic("t", 2)
        message = send(broker, b"x" * 3900)
        assert give_back(remote, message.physical_offset, 1).code == ILLEGAL
        assert count_in(broker, LEVELS_TOPIC) == 0
        assert give_back(remote, send(broker, b"x" * 3000).physical_offset, 1).code == SUCCESS


def test_a_committed_transaction_s_message(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    with broker.producer(group="shop") as producer:
        producer.transaction(topic, b"half").commit()
    indexed(broker)
    (message,) = stored(broker, topic)
    assert give_back(remote, message.physical_offset, 1, **billing.fields).code == SUCCESS
    (retry,) = comes(broker, billing.retry)
    assert bytes(retry) == b"half" and retry.properties["RETRY_TOPIC"] == topic
    assert topic not in [each.topic for each in broker.open_transactions()]


def again(remote: Remote, billing: Group, properties: str, **others: object) -> Said:
    """As Java's client sends it instead, in the short form."""
    first = f"RETRY_TOPIC\1{billing.topic}\2ORIGIN_MESSAGE_ID\1first\2"
    told: dict[str, object] = {"j": 2, "l": 16, "h": 7, **others}
    return remote.send(billing.retry, b"body", 0, f"{first}{properties}".encode(), **told)


def test_with_what_it_was(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """Java's consumers send the message itself if 36 fails, and if it was tried often enough in its order. What a broker has
    noted on it stays behind."""
    notes = "MIN_OFFSET\0010\2TRAN_MSG\1true\2PGROUP\1p\2REAL_TOPIC\1x\2REAL_QID\0019\2CLUSTER\1c\2WAIT\1true\2"
    first = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": "first"}
    kept = {"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "id", "colour": "blue", **first}
    opened = broker.open_transactions()
    own_text = "TAGS\1a\2KEYS\1k\2UNIQ_KEY\1id\2colour\1blue\2"
    said = again(remote, billing, f"{notes}{own_text}DELAY\0011\2")
    assert (said.code, said.fields["queueId"], said.fields["transactionId"]) == (SUCCESS, "0", "id")
    indexed(broker)
    (waiting,) = (each for each in stored(broker, LEVELS_TOPIC) if each.properties["REAL_TOPIC"] == billing.retry)
    assert said.fields["msgId"] == waiting.id
    (retry,) = comes(broker, billing.retry)
    place = {"DELAY": "1", "REAL_TOPIC": billing.retry, "REAL_QID": "0", "WAIT": "false"}
    assert own(retry) == {**kept, **place} and (retry.reconsume_times, retry.flag, bytes(retry)) == (2, 7, b"body")
    assert retry.born_ms == 1_700_000_000_123 and retry.stored_ms >= waiting.stored_ms + 1000
    for fields in ({"j": 16}, {"j": 3, "l": 3}, {"l": -1}):
        before = count_in(broker, billing.dead)
        assert again(remote, billing, f"{notes}{own_text}DELAY\0015\2", **fields).code == SUCCESS
        letter = comes(broker, billing.dead, before + 1)[-1]
        assert own(letter) == {**kept, "WAIT": "false"} and letter.reconsume_times == fields.get("j", 2)
    assert again(remote, billing, "").code == SUCCESS, "at once"
    assert own(comes(broker, billing.retry, 2)[-1]) == {**first, "WAIT": "false"}
    assert remote.send(billing.retry, b"body", 0, f"RETRY_TOPIC\1{topic}".encode()).code == SUCCESS
    third = comes(broker, billing.retry, 3)[-1]
    assert own(third) == {"RETRY_TOPIC": topic, "WAIT": "false"}, "Java's client need not know the id"
    long = {"producerGroup": "g", "topic": billing.retry, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0}
    more = {"reconsumeTimes": 9, "maxReconsumeTimes": 9, "properties": f"RETRY_TOPIC\1{topic}\2ORIGIN_MESSAGE_ID\1first"}
    assert remote.ask(SEND, b"long", **long, **more).code == SUCCESS
    assert comes(broker, billing.dead, 4)[-1].reconsume_times == 9
    assert broker.open_transactions() == opened


def test_routes(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    """Java's client sends only to a topic whose route says that it may be written."""
    assert give_back(remote, send(broker, topic=topic).physical_offset, -1, **billing.fields).code == SUCCESS
    names = (billing.retry, billing.dead, topic)
    perms = {name: json.loads(remote.ask(ROUTE, topic=name).body)["queueDatas"][0]["perm"] for name in names}
    assert perms == {billing.retry: 6, billing.dead: 4, topic: 6}


def test_what_is_no_message_that_comes_again(broker: orbitmq.Broker, remote: Remote, topic: str, billing: Group) -> None:
    indexed(broker)
    waiting = count_in(broker, LEVELS_TOPIC)
    for properties in (b"", b"ORIGIN_MESSAGE_ID\1first\2", b"RETRY_TOPIC\1\2ORIGIN_MESSAGE_ID\1x\2"):
        assert remote.send(billing.retry, b"x", 0, properties).code == ILLEGAL
    for fields, code in (({"j": -1}, ILLEGAL), ({"e": 1}, SYSTEM_ERROR), ({"f": 0x401}, ILLEGAL), ({"h": 2**40}, ILLEGAL)):
        assert again(remote, billing, "", **fields).code == code, fields
    assert again(remote, billing, "DELAY\1x\2").code == ILLEGAL
    first = f"RETRY_TOPIC\1{topic}\2ORIGIN_MESSAGE_ID\1first\2".encode()
    assert remote.send(billing.dead, b"x", 0, first).code == NO_PERMISSION, "nobody sends to dead letters"
    assert remote.send("%RETRY%a b", b"x", 0, first).code == NO_GROUP
    assert remote.ask(320, b"", **remote.send_fields(billing.retry, 0, first, m="true")).code == NO_PERMISSION
    assert count_in(broker, billing.retry) == count_in(broker, billing.dead) == count_in(broker, LEVELS_TOPIC) - waiting == 0


def test_deaths(broker: orbitmq.Broker) -> None:
    """Whatever dies: a message that was given back with an answer has its letter. Without one, it is given back again."""
    messages = [send(broker, b"%d" % number) for number in range(40)]
    victims = random.Random(2)
    for message in messages:
        if victims.random() < 0.3:
            kill(broker, victims.choice(["gateway", "handler 0", "handler 1", "writer"]))

        def given(place: int = message.physical_offset) -> bool:
            try:
                with Remote(broker.status().listens) as remote:
                    return give_back(remote, place, -1).code == SUCCESS
            except OSError:
                return False

        until(given, "the answer")
    indexed(broker)
    assert {bytes(letter) for letter in stored(broker, DEAD)} == {bytes(message) for message in messages}
