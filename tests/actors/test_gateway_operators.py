"""Goal: what an operator does now and then with RocketMQ's tools works: looks at queues and at all groups, changes settings,
takes the broker out of the routes, keeps values in the name server.

Method: the requests of mqadmin over the socket, beside OrbitMQ's own client on the same broker. The real mqadmin runs in
tests/interop/test_mqadmin_commands.py. Of remoting/admin/broker_changes.py,
remoting/admin/name_server_values.py, remoting/admin/queue_units.py, remoting/admin/properties_text.py and
store/name_server_values.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.remoting.admin.properties_text import properties_text, read_properties
from orbitmq.store import name_server_values
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings_file import read as settings_of
from tests.actors.remoting_client import HEARTBEAT, QUERY_OFFSET, ROUTE, Remote, Said
from tests.actors.test_gateway_admin import indexed, queue_map
from tests.trees import kill, small_broker
from tests.waiting import until

UPDATE_CONFIG, ALL_TOPICS, CLEAN_QUEUES, CLEAN_TOPICS = 25, 21, 306, 316
PUT, GET, DELETE, LIST, NAMES_CONFIG = 100, 101, 102, 219, 319
WIPE, ADD, CLONE, STATISTICS, PROGRESS_OF_ALL, UNITS = 205, 327, 314, 315, 317, 321
MAKE_GROUP, ALL_GROUPS, ONE_TOPIC, ONE_GROUP = 200, 201, 351, 352
COMMIT = 15
SUCCESS, SYSTEM_ERROR, NOT_SUPPORTED, NO_TOPIC, NOT_FOUND, NO_GROUP = 0, 1, 3, 17, 22, 26


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def broker(store: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(store, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 2)
        yield broker


def content(said: Said) -> Any:
    assert said.code == SUCCESS, said
    return json.loads(said.body)


def fill(broker: orbitmq.Broker, *counts: int) -> None:
    """So many messages to queues 0, 1, ... of topic t, with the tag that RocketMQ's documents show."""
    with broker.producer() as producer:
        for queue, count in enumerate(counts):
            for _ in range(count):
                producer.send("t", b"body", queue=queue, tags="TagA")
    indexed(broker)


def test_the_units_of_a_queue(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: they are those of the ConsumeQueue, from the index on, and no more than were asked for."""
    fill(broker, 0, 5)
    asked = {"topic": "t", "queueId": 1, "consumerGroup": "g"}
    told = content(remote.ask(UNITS, **asked, index=2, count=2))
    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 5)
    with broker.consumer("g", ["t"], start="earliest") as consumer:
        places = [message.physical_offset for message in consumer.poll_batch(5, timeout=10)]
    sizes = {unit["physicSize"] for unit in told["queueData"]}
    assert [unit["physicOffset"] for unit in told["queueData"]] == places[2:4] and sizes == {places[1] - places[0]}
    assert {unit["tagsCode"] for unit in told["queueData"]} == {2598919}, "Java's hash of TagA"
    for index, count, wanted in ((4, 10, 1), (0, -1, 0), (0, 1 << 40, 5)):
        assert len(content(remote.ask(UNITS, **asked, index=index, count=count))["queueData"]) == wanted
    for index in (5, 90, -7):
        said = remote.ask(UNITS, **asked, index=index, count=1)
        assert (said.code, said.remark, said.body) == (SUCCESS, f"Index {index} of 1@t is not exist!", b"")
    for wrong in ({"topic": "none"}, {"queueId": 2}, {"queueId": -1}, {"queueId": "x"}):
        assert remote.ask(UNITS, **{**asked, **wrong}, index=0, count=1).code == SYSTEM_ERROR


def test_how_fast_a_topic_grows(broker: orbitmq.Broker, remote: Remote) -> None:
    fill(broker, 3, 4)
    told = content(remote.ask(STATISTICS, statsName="TOPIC_PUT_NUMS", statsKey="t"))
    assert {window: seen["sum"] for window, seen in told.items()} == {"statsMinute": 7, "statsHour": 7, "statsDay": 7}
    assert told["statsMinute"]["tps"] == pytest.approx(7 / 60, abs=1e-4)
    for kind, key in (("TOPIC_PUT_NUMS", "none"), ("GROUP_GET_NUMS", "t@g"), ("x", "t")):
        assert remote.ask(STATISTICS, statsName=kind, statsKey=key).code == SYSTEM_ERROR


def test_the_progress_of_all_groups(broker: orbitmq.Broker, remote: Remote) -> None:
    fill(broker, 4, 2)
    with broker.consumer("done", ["t"], start="earliest") as consumer:
        assert sum(len(consumer.poll_batch(6, timeout=10)) for _ in range(1)) == 6
        consumer.commit()
    with broker.consumer("half", ["t"], start="earliest") as consumer:
        assert len(consumer.poll_batch(3, timeout=10)) == 3
        consumer.commit()
    text = remote.ask(PROGRESS_OF_ALL, isOrder="false").body.decode()
    assert re.match(r'\{"brokerAddr":"127\.0\.0\.1:\d+","consumeStatsList":\[\{"done":\[', text)
    done, _, half = text.partition('"half"')
    of_done, of_half = (queue_map(part) for part in (done, half))
    assert all({seen[offset] for seen in of_done.values()} == {4, 2} for offset in ("consumerOffset", "brokerOffset"))
    behind = sum(seen["brokerOffset"] - seen["consumerOffset"] for seen in of_half.values())
    assert text.endswith(f'"totalDiff":{behind}}}') and behind <= 3
    assert content(remote.ask(PROGRESS_OF_ALL, isOrder="true"))["consumeStatsList"] == [{"done": []}, {"half": []}]


def test_a_broker_is_taken_out_of_the_routes(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: producers find no queue to write to, until it is taken back. A topic that may not be written stays so."""
    broker.create_topic("sealed", 1)
    broker.set_permissions("sealed", read=True, write=False)

    def perm(topic: str) -> int:
        return int(content(remote.ask(ROUTE, topic=topic))["queueDatas"][0]["perm"])

    count = len(broker.status().topics) + 1  # that after which others are made
    assert remote.ask(WIPE, brokerName="another").fields == {"wipeTopicCount": "0"}
    assert (perm("t"), perm("sealed")) == (6, 4)
    for _ in range(2):
        assert remote.ask(WIPE, brokerName=broker.name).fields == {"wipeTopicCount": str(count)}
        assert (perm("t"), perm("sealed"), perm("TBW102")) == (4, 4, 5)
    with broker.producer() as producer:
        producer.send("t", b"local programs ask nobody for a route")
    assert remote.ask(ADD, brokerName="another").fields == {"addTopicCount": "0"}
    assert perm("t") == 4
    assert remote.ask(ADD, brokerName=broker.name).fields == {"addTopicCount": str(count)}
    assert (perm("t"), perm("sealed"), perm("TBW102")) == (6, 4, 7)


def test_a_topic_that_is_changed_is_in_the_routes_again(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: as with RocketMQ, where the broker registers it anew; and so is one that is made later."""

    def perm(topic: str) -> int:
        return int(content(remote.ask(ROUTE, topic=topic))["queueDatas"][0]["perm"])

    broker.create_topic("other", 1)
    remote.ask(WIPE, brokerName=broker.name)
    broker.create_topic("t", 3)
    broker.create_topic("late", 1)
    assert (perm("t"), perm("late"), perm("other")) == (6, 6, 4)


def test_a_group_goes_on_where_another_one_is(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: in all topics, or in one; a topic that the members do not subscribe to only if it may be offline."""
    broker.create_topic("u", 1)
    fill(broker, 3, 1)
    with broker.producer() as producer:
        for _ in range(2):
            producer.send("u", b"body")
    indexed(broker)
    for topic, queue, offset in (("t", 0, 3), ("t", 1, 1), ("u", 0, 2)):
        assert remote.ask(COMMIT, consumerGroup="g", topic=topic, queueId=queue, commitOffset=offset).code == SUCCESS

    def committed(group: str) -> dict[tuple[str, int], int]:
        return {
            (topic, queue): int(said.fields["offset"])
            for topic, queue in (("t", 0), ("t", 1), ("u", 0))
            if (said := remote.ask(QUERY_OFFSET, consumerGroup=group, topic=topic, queueId=queue)).fields["offset"] != "0"
        }

    all_of_g = {("t", 0): 3, ("t", 1): 1, ("u", 0): 2}
    assert remote.ask(CLONE, srcGroup="g", destGroup="one", topic="u", offline="true").code == SUCCESS
    assert remote.ask(CLONE, srcGroup="g", destGroup="all", offline="false").code == SUCCESS
    assert (committed("one"), committed("all")) == ({("u", 0): 2}, all_of_g)
    subscriptions = [{"topic": "u", "subString": "*", "expressionType": "TAG"}]
    consumer = {"groupName": "g", "messageModel": "CLUSTERING", "subscriptionDataSet": subscriptions}
    with Remote(broker.status().listens) as member:
        member.until(member.put(HEARTBEAT, json.dumps({"clientID": "1@a", "consumerDataSet": [consumer]}).encode()))
        assert remote.ask(CLONE, srcGroup="g", destGroup="online", offline="false").code == SUCCESS
        assert remote.ask(CLONE, srcGroup="g", destGroup="offline", offline="true").code == SUCCESS
    assert (committed("online"), committed("offline")) == ({("u", 0): 2}, all_of_g)
    assert remote.ask(CLONE, srcGroup="nobody", destGroup="new", offline="true").code == SUCCESS
    assert remote.ask(CLONE, destGroup="new").code == SYSTEM_ERROR


def test_what_is_not_supported_is_counted(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Goal: the client gets RocketMQ's answer, and the operator hears how often that happened."""
    told = "got 10 requests that it does not support, the last one with code 9999 from 127.0.0.1:"
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, Remote(broker.status().listens) as remote:
        for _ in range(10):
            said = remote.ask(9999)
            assert (said.code, said.remark) == (NOT_SUPPORTED, " request type 9999 not supported")
        until(lambda: told in caplog.text, "the line about ten requests")
    assert caplog.text.count("that it does not support") == 2


def test_values_in_the_name_server(broker: orbitmq.Broker, remote: Remote, store: Path) -> None:
    """Goal: they outlive the gateway, as they outlive RocketMQ's name server."""
    assert remote.ask(GET, namespace="n", key="k").code == NOT_FOUND == remote.ask(LIST, namespace="n").code
    for key, value in (("k", "first"), ("k", "second"), ("l", "ü=\n")):
        assert remote.ask(PUT, namespace="n", key=key, value=value).code == SUCCESS
    kill(broker, "gateway")
    with Remote(broker.status().listens) as again:
        assert again.ask(GET, namespace="n", key="k").fields == {"value": "second"}
        assert content(again.ask(LIST, namespace="n")) == {"table": {"k": "second", "l": "ü=\n"}}
        assert again.ask(GET, namespace="m", key="k").code == NOT_FOUND
        for key in ("k", "l", "l"):
            assert again.ask(DELETE, namespace="n", key=key).code == SUCCESS
        assert content(again.ask(LIST, namespace="n")) == {"table": {}}
        assert again.ask(LIST, namespace="m").code == NOT_FOUND
        layout = StoreLayout.at(store)
        assert name_server_values.load(layout) == {"n": {}}
        layout.name_server_values.write_bytes(b'{"configTable": [')
        said = again.ask(GET, namespace="n", key="k")
        assert said.code == SYSTEM_ERROR and "name-server-values.json" in str(said.remark)
        settings = read_properties(again.ask(NAMES_CONFIG).body)
        assert settings["listenPort"] == broker.status().listens.rpartition(":")[2]
        assert settings["kvConfigPath"] == str(layout.name_server_values)


def test_settings_of_the_broker(broker: orbitmq.Broker, remote: Remote, store: Path) -> None:
    """Goal: they are put where `orbitmq config` puts them, all or none; what cannot be changed is refused with the reason."""
    good = {"transactionTimeOut": "7000", "autoCreateTopicEnable": "false", "flushDiskType": "SYNC_FLUSH"}
    assert remote.ask(UPDATE_CONFIG, body=properties_text(good)).code == SUCCESS
    values = settings_of(StoreLayout.at(store)).values
    assert (values["transaction_timeout_s"], values["auto_create_topics"], values["flush"]) == (7, False, "batch")
    for name, value, why in (
        ("listenPort", "1", "listenPort cannot be changed here"),
        ("flushDiskType", "NEVER", "neither SYNC_FLUSH nor ASYNC_FLUSH"),
        ("autoCreateTopicEnable", "yes", "neither true nor false"),
        ("transactionCheckMax", "many", "many"),
        ("fileReservedTime", "-3", "retention_hours"),
    ):
        said = remote.ask(UPDATE_CONFIG, body=properties_text({"transactionTimeOut": "9000", name: value}))
        assert said.code == SYSTEM_ERROR and why in str(said.remark), said
    assert settings_of(StoreLayout.at(store)).values["transaction_timeout_s"] == 7


def test_all_topics(broker: orbitmq.Broker, remote: Remote) -> None:
    table = content(remote.ask(ALL_TOPICS))["topicConfigTable"]
    shape = {"topicName": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    assert shape.items() <= table["t"].items()


@pytest.mark.parametrize("code", [CLEAN_QUEUES, CLEAN_TOPICS])
def test_there_is_nothing_to_clean(broker: orbitmq.Broker, remote: Remote, store: Path, code: int) -> None:
    """Goal: the answer is true: a deleted topic's queues go without it."""
    fill(broker, 1, 1)
    broker.delete_topic("t")
    assert remote.ask(code).code == SUCCESS
    folder = StoreLayout.at(store).root / "consumequeue" / "t"
    until(lambda: not folder.exists(), "the files of the queues to go")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"a=1\nb = x=y \n# c=3\n\n!d=4\n", {"a": "1", "b": "x=y"}),
        (b"path=C:\\\\x\r\n", {"path": "C:\\x"}),
        (b"", {}),
        (b"alone", {"alone": ""}),
    ],
)
def test_properties(text: bytes, values: dict[str, str]) -> None:
    assert read_properties(text) == values
    assert read_properties(properties_text(values)) == values


def test_a_property_without_a_name() -> None:
    with pytest.raises(ValueError, match="no name"):
        read_properties(b"=1\n")


def test_settings_of_one_topic_and_of_one_group(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: RocketMQ 5's tools and its dashboard see one alone, as among all."""
    assert remote.ask(MAKE_GROUP, b'{"groupName":"g","retryMaxTimes":3}').code == SUCCESS
    assert content(remote.ask(ONE_TOPIC, topic="t")) == content(remote.ask(ALL_TOPICS))["topicConfigTable"]["t"]
    assert content(remote.ask(ONE_GROUP, group="g")) == content(remote.ask(ALL_GROUPS))["subscriptionGroupTable"]["g"]
    said = remote.ask(ONE_TOPIC, topic="absent")
    assert (said.code, said.remark) == (NO_TOPIC, "No topic in this broker. topic: absent")
    said = remote.ask(ONE_GROUP, group="absent")
    assert (said.code, said.remark) == (NO_GROUP, "No group in this broker")
