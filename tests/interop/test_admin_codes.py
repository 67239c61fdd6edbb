"""Goal: a tool that speaks RocketMQ's protocol itself gets the code, the words and the fields of RocketMQ's own broker and name
server, also for what it asks wrongly.

Method: the same requests over a socket to both, after the same commits; the answers are compared as they are, except for the
numbers that cannot be the same. Of remoting/admin and remoting/name_server.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orbitmq
from tests.actors.remoting_client import Remote, Said
from tests.interop.judge import Judge
from tests.interop.ours import SMALL_FILES
from tests.interop.test_mqadmin import CLUSTER, NAME, broker  # noqa: F401
from tests.waiting import until

NAMES, BROKER = "name server", "broker"
SPACE = "of these tests alone"  # the judge keeps values for as long as it lives
# Code 14 shows that clones have arrived. 306 and 316 have nothing to do at either.
REQUESTS: tuple[tuple[str, int, dict[str, object]], ...] = (
    (NAMES, 101, {"namespace": SPACE, "key": "k"}),
    (NAMES, 219, {"namespace": SPACE}),
    (NAMES, 100, {"namespace": SPACE, "key": "k", "value": "v"}),
    (NAMES, 101, {"namespace": SPACE, "key": "k"}),
    (NAMES, 219, {"namespace": SPACE}),
    (NAMES, 102, {"namespace": SPACE, "key": "k"}),
    (NAMES, 102, {"namespace": SPACE, "key": "k"}),
    (NAMES, 101, {"namespace": SPACE, "key": "k"}),
    (NAMES, 219, {"namespace": SPACE}),
    (NAMES, 205, {"brokerName": "another"}),
    (NAMES, 327, {"brokerName": "another"}),
    (NAMES, 105, {"topic": "absent"}),
    (NAMES, 224, {"cluster": "another"}),
    (BROKER, 9999, {}),
    (BROKER, 318, {}),
    (BROKER, 25, {}),
    (BROKER, 306, {}),
    (BROKER, 316, {}),
    (BROKER, 321, {"topic": "absent", "queueId": 1, "index": 0, "count": 2}),
    (BROKER, 321, {"topic": "orders", "queueId": 9, "index": 0, "count": 2}),
    (BROKER, 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "absent"}),
    (BROKER, 315, {"statsName": "GROUP_GET_NUMS", "statsKey": "orders@readers"}),
    (BROKER, 307, {"consumerGroup": "readers", "clientId": "nobody"}),
    (BROKER, 314, {"srcGroup": "readers", "destGroup": "others", "topic": "orders", "offline": "true"}),
    (BROKER, 14, {"consumerGroup": "others", "topic": "orders", "queueId": 1}),
    (BROKER, 314, {"srcGroup": "absent", "destGroup": "new", "topic": "absent", "offline": "true"}),
    (BROKER, 202, {"topic": "absent"}),
    (BROKER, 207, {"groupName": "absent"}),
    (BROKER, 215, {"topic": "absent"}),
)  # fmt: skip


def indexed(remote: Remote, count: int) -> bool:
    return remote.ask(30, topic="orders", queueId=1).fields["offset"] == str(count)


def answer(said: Said) -> tuple[object, ...]:
    """What must be the same. RocketMQ's words for a success that says nothing are no words, and behind some of its remarks it
    names the address of its questions and answers."""
    body = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", said.body.decode())
    remark = None if said.remark == "not set any response code" else said.remark
    return said.code, remark and remark.partition("\n")[0], said.fields, body


def test_answers(judge: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:  # noqa: F811
    judge.start(tmp_path / "theirs", SMALL_FILES)
    ours = broker.status().listens
    names, address = judge.addresses
    wrong = []
    with Remote(ours) as mine, Remote(names) as their_names, Remote(address) as theirs:
        for each in (mine, theirs):
            fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
            assert each.ask(17, **fields, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false").code == 0
            for _ in range(3):
                assert each.send("orders", b"body", 1).code == 0
            until(partial(indexed, each, 3), "the queue's units")
            assert each.ask(15, consumerGroup="readers", topic="orders", queueId=1, commitOffset=3).code == 0
        for whom, code, fields in REQUESTS:
            pair = mine.ask(code, **fields), (their_names if whom == NAMES else theirs).ask(code, **fields)
            if answer(pair[0]) != answer(pair[1]):
                wrong.append((code, fields, *pair))
    assert not wrong, "\n".join(map(str, wrong))


def test_units_of_a_queue(judge: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:  # noqa: F811
    """With messages of the same size and tag, those of the queue are the same, and what is beyond is told in the same words."""
    judge.start(tmp_path / "theirs", SMALL_FILES)
    ours = broker.status().listens
    told = []
    for whom in (ours, judge.addresses[1]):
        with Remote(whom) as remote:
            fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
            assert remote.ask(17, **fields, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false").code == 0
            properties = b"TAGS\x01TagA\x02UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF"
            for _ in range(3):
                assert remote.send("orders", b"body", 1, properties).code == 0
            until(partial(indexed, remote, 3), "the queue's units")
            said = []
            for index, count in ((0, 2), (1, 9), (3, 1), (9, 1), (-1, 1), (0, 0)):
                asked = {"topic": "orders", "queueId": 1, "index": index, "count": count}
                said += [remote.ask(321, **asked), remote.ask(321, **asked, consumerGroup="nobody")]
            told.append([units(each) for each in said])
    assert told[0] == told[1]


def units(said: Said) -> tuple[object, ...]:
    """Without places and sizes, which differ because OrbitMQ's records have a checksum."""
    remark = None if said.remark == "not set any response code" else said.remark
    body = json.loads(said.body) if said.body else None
    for unit in body["queueData"] if body is not None else ():
        assert unit.pop("physicSize") > 0 and unit.pop("physicOffset") >= 0
    return said.code, remark, body


def test_what_depends_on_the_broker(judge: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:  # noqa: F811
    """Answers whose numbers are a broker's own have the same keys, one in the other."""
    judge.start(tmp_path / "theirs", SMALL_FILES)
    ours = broker.status().listens
    names, address = judge.addresses

    def keys(remote: Remote, code: int, **fields: object) -> set[str]:
        said = remote.ask(code, **fields)
        assert said.code == 0
        return set(re.findall(r'"(\w+)":', said.body.decode())) | set(said.fields)

    with Remote(ours) as mine, Remote(names) as their_names, Remote(address) as theirs:
        for each in (mine, theirs):
            fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
            assert each.ask(17, **fields, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false").code == 0
            assert each.send("orders", b"body").code == 0
        until(lambda: mine.ask(30, topic="orders", queueId=0).fields["offset"] == "1", "the queue's unit")
        same: tuple[tuple[Callable[[Remote], set[str]], Remote], ...] = (
            (lambda it: keys(it, 205, brokerName=NAME), their_names),
            (lambda it: keys(it, 327, brokerName=NAME), their_names),
            (lambda it: keys(it, 315, statsName="TOPIC_PUT_NUMS", statsKey="orders"), theirs),
        )
        for look, other in same:
            assert look(mine) == look(other) != set()
        wiped = [it.ask(205, brokerName=NAME).fields["wipeTopicCount"] for it in (mine, mine, their_names, their_names)]
        assert wiped[0] == wiped[1] != "0" and wiped[2] == wiped[3] != "0"
        assert CLUSTER in theirs.ask(305).body.decode()
        for code in (21, 317):
            assert keys(mine, code, isOrder="false") & {"dataVersion", "topicConfigTable", "brokerAddr", "totalDiff"} == keys(
                theirs, code, isOrder="false"
            ) & {"dataVersion", "topicConfigTable", "brokerAddr", "totalDiff"}
