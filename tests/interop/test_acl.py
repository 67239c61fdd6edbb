"""Goal: access rules mean the same as with RocketMQ: whoever signs, and whatever is asked, OrbitMQ allows and refuses the
same, in the same words.

Method: the same plain_acl.yml for a real broker and for OrbitMQ; RocketMQ's own signatures on requests of many codes, by each
account, with right and wrong keys; its producers and consumers with AclClientRPCHook.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.remoting.plain_acl import parse
from tests.actors.remoting_client import Remote
from tests.interop.judge import TRIES, UNANSWERED, Judge
from tests.interop.ours import SMALL_FILES, broker_on
from tests.trees import indexed
from tests.waiting import until

NAME = "judged"
OPERATOR = "operator", "12345678"
RULES = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.1-9
accounts:
- accessKey: operator
  secretKey: 12345678
  admin: true
- accessKey: publisher
  secretKey: of-the-publisher
  whiteRemoteAddress: 192.168.0.*
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB
  - news=DENY
  - both=PUB|SUB
- accessKey: subscriber
  secretKey: of-the-subscriber
  defaultTopicPerm: SUB
  defaultGroupPerm: DENY
  topicPerms:
  - news=DENY
  groupPerms:
  - readers=SUB
  - writers=PUB
- accessKey: limited
  secretKey: of-the-limited
  admin: true
  topicPerms:
  - orders=SUB
- accessKey: nothing
  secretKey: of-the-nothing
- accessKey: at-home
  secretKey: of-the-home
  whiteRemoteAddress: 127.0.0.1
"""
SECRETS = {
    "operator": "12345678",
    "publisher": "of-the-publisher",
    "subscriber": "of-the-subscriber",
    "limited": "of-the-limited",
    "nothing": "of-the-nothing",
}
TOPICS = ("orders", "news", "both", "else")
GROUPS = ("readers", "writers", "others")
PREFIX = "org.apache.rocketmq.acl.common.AclException: "


def requests() -> Iterator[dict[str, Any]]:
    """What is asked by every account: incomplete, so that nothing is done where it is allowed."""
    for topic in TOPICS:
        yield {"code": 10, "fields": {"topic": topic}}
        yield {"code": 310, "fields": {"b": topic}}
        yield {"code": 12, "fields": {"topic": topic}}
        for group in GROUPS:
            yield {"code": 11, "fields": {"topic": topic, "consumerGroup": group}}
            yield {"code": 15, "fields": {"topic": topic, "consumerGroup": group}}
            subscription = {"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 0}
            member = {"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription]}
            beat = {"clientID": "one", "consumerDataSet": [member], "producerDataSet": []}
            yield {"code": 34, "fields": {"x": "y"}, "body": json.dumps(beat)}
    for group in GROUPS:
        for code in 35, 38:
            yield {"code": code, "fields": {"consumerGroup": group, "clientID": "one"}}
        yield {"code": 11, "fields": {"topic": f"%RETRY%{group}", "consumerGroup": group}}
        yield {"code": 12, "fields": {"topic": f"%RETRY%{group}"}}
    for code in 17, 25, 200, 207, 215, 14, 30, 31, 41, 42, 999:
        yield {"code": code, "fields": {"日本": "é\u0001", "Z": "1", "a": "2"}}


def signers() -> Iterator[dict[str, str]]:
    """Every account, and some who are none."""
    yield from ({"key": key, "secret": secret} for key, secret in SECRETS.items())
    yield {"key": "publisher", "secret": "of-somebody-else"}
    yield {"key": "at-home", "secret": "of-somebody-else"}
    yield {"key": "nobody1", "secret": "12345678"}
    yield {}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    (tmp_path / "plain_acl.yml").write_text(RULES)
    settings = {"name": NAME, "listen": "127.0.0.1:0", "acl": str(tmp_path / "plain_acl.yml")}
    with broker_on(tmp_path / "store", SMALL_FILES, **settings) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, queues=2)
        yield broker


def refusals(judge: Judge, address: str, asked: list[dict[str, Any]]) -> list[str]:
    """For each request the words with which the rules refuse it; empty: they allow it."""
    answers = judge.ask("askSigned", address=address, requests=[{"body": "", **each} for each in asked])
    found = [each.get("remark", "") for each in answers]
    # RocketMQ goes on with the place in its sources.
    reasons = [text.removeprefix(PREFIX).partition(", org.apache")[0] if text.startswith(PREFIX) else "" for text in found]
    assert all(each["code"] == 1 for each, reason in zip(answers, reasons, strict=True) if reason)
    # Of several names that are not permitted, RocketMQ tells any.
    several = [each["code"] in (11, 15, 34) for each in asked]
    return [reason.partition(" for ")[0] if any_of else reason for reason, any_of in zip(reasons, several, strict=True)]


def test_as_with_rocketmq(judge: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:
    asked = [{**request, **signer} for signer in signers() for request in requests()]
    ours = refusals(judge, broker.status().listens, asked)
    judge.start(tmp_path / "theirs", SMALL_FILES, rules=RULES, operator=OPERATOR)
    theirs = refusals(judge, judge.addresses[1], asked)
    differ = [(each, one, other) for each, one, other in zip(asked, ours, theirs, strict=True) if one != other]
    assert not differ, f"{len(differ)} of {len(asked)}: {differ[:10]}"
    assert {reason.partition(" ")[0] for reason in ours} == {"", "No", "Need", "Check"}
    assert 100 < sum(map(bool, ours)) < len(asked) - 100


def signed(access: str, secret: str | None = None) -> dict[str, str]:
    return {"key": access, "secret": secret or SECRETS[access]}


def test_producers(visitor: Judge, broker: orbitmq.Broker) -> None:
    def send(topic: str, batch: bool = False, **key: str) -> str:
        return str(visitor.ask("sendSigned", topic=topic, body="one", batch=batch, **key))

    refused = f"1 {PREFIX}"
    for batch in False, True:
        assert send("orders", batch, **signed("publisher")) == "SEND_OK"
        assert send("else", batch, **signed("publisher")).startswith(f"{refused}No default permission for topic:else")
        assert send("orders", batch, **signed("publisher", "of-somebody-else")).startswith(f"{refused}Check signature failed")
        assert send("orders", batch).startswith(f"{refused}No accessKey is configured")
    indexed(broker)
    counts = {topic.name: sum(queue.max_offset for queue in topic.queues) for topic in broker.status().topics}
    assert (counts["orders"], counts["else"]) == (2, 0)


def test_consumers(visitor: Judge, broker: orbitmq.Broker) -> None:
    """A push consumer gets everything, and what it gives back a second time; its retries are its group's."""
    with broker.producer() as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number)
    came = visitor.ask("consumeSigned", topic="orders", group="readers", count=20, **signed("subscriber"))
    assert sorted(came) == sorted(f"{times} {number}" for times in (0, 1) for number in range(10))


def test_new_rules(visitor: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:
    def send() -> str:
        return str(visitor.ask("sendSigned", topic="else", body="one", **signed("publisher")))

    assert send().startswith(f"1 {PREFIX}No default permission")
    (tmp_path / "new.yml").write_text(RULES.replace("- orders=PUB\n", "- else=PUB\n"))
    (tmp_path / "new.yml").replace(tmp_path / "plain_acl.yml")
    until(lambda: send() == "SEND_OK", "the new rules")


def test_mqadmin(judge: Judge, broker: orbitmq.Broker) -> None:
    """It signs with the key of its tools.yml. Administrators may change topics; others may look."""
    names = broker.status().listens

    def run(command: str, *words: str, key: tuple[str, str] | None = None) -> str:
        return judge.mqadmin(command, "-n", names, *words, key=key)

    make = "updateTopic", "-b", names, "-t", "made"
    refused = {None: "No accessKey is configured", ("subscriber", SECRETS["subscriber"]): "Need admin permission"}
    for key, why in refused.items():
        assert why in run(*make, key=key)
    assert "made" not in {topic.name for topic in broker.status().topics}
    assert "success" in run(*make, key=OPERATOR)
    assert "made" in {topic.name for topic in broker.status().topics}
    assert "#Broker" in run("topicStatus", "-t", "made", key=OPERATOR)


# Of accounts, one after the other: codes 50 to 54.
ACCOUNTS: tuple[tuple[int, dict[str, str]], ...] = (
    (54, {}),
    (50, {"accessKey": "newcomer", "secretKey": "of-the-newcomer", "admin": "false", "topicPerms": "a=PUB,b=SUB"}),
    (54, {}),
    (50, {"accessKey": "publisher", "secretKey": "a-new-one", "admin": "true", "whiteRemoteAddress": "10.0.0.1"}),
    (50, {"accessKey": "newcomer", "secretKey": "another-one", "admin": "true", "groupPerms": "g=DENY"}),
    (54, {}),
    (50, {"accessKey": "short", "secretKey": "x", "admin": "false"}),
    (50, {"accessKey": "newcomer", "admin": "true"}),
    (50, {"accessKey": "newcomer", "secretKey": "of-the-newcomer", "admin": "false", "topicPerms": "a"}),
    (50, {"accessKey": "newcomer", "secretKey": "of-the-newcomer", "admin": "false", "groupPerms": "a=NONE"}),
    (51, {"accessKey": "absent-key"}),
    (51, {"accessKey": "newcomer"}),
    (51, {"accessKey": "newcomer"}),
    (51, {"x": "y"}),
    (53, {"globalWhiteAddrs": "127.0.0.1,10.1.1.*"}),
    (53, {"x": "y"}),
    (54, {}),
    (52, {}),
)
AT_HOME = RULES.replace("- 10.10.103.*", "- 127.0.0.1").replace("12345678", "'12345678'")


def test_accounts_as_with_rocketmq(judge: Judge, tmp_path: Path) -> None:
    """The same requests to both, which let everybody at home in: the same codes, words and lists, and files that mean the
    same."""
    (ours := tmp_path / "plain_acl.yml").write_text(AT_HOME)
    judge.start(tmp_path / "theirs", SMALL_FILES, rules=AT_HOME, operator=OPERATOR)
    settings = {"name": NAME, "listen": "127.0.0.1:0", "acl": str(ours)}
    with (
        broker_on(tmp_path / "store", SMALL_FILES, **settings) as broker,  # type: ignore[arg-type]
        Remote(broker.status().listens) as mine,
        Remote(judge.addresses[1]) as theirs,
    ):
        for code, fields in ACCOUNTS[:-1]:
            said, wanted = mine.ask(code, **fields), theirs.ask(code, **fields)
            assert (said.code, said.remark, said.fields) == (wanted.code, wanted.remark, wanted.fields), (code, fields)
            assert json.loads(said.body or b"0") == json.loads(wanted.body or b"0"), (code, fields)
        said, wanted = mine.ask(52), theirs.ask(52)
        assert said.fields.keys() == wanted.fields.keys() and said.fields["brokerName"] == wanted.fields["brokerName"]
        versions = [next(iter(json.loads(each.fields["allAclFileVersion"]).values())) for each in (said, wanted)]
        assert versions[0]["counter"] == versions[1]["counter"] and versions[0].keys() == versions[1].keys()
        (file,) = map(Path, json.loads(wanted.fields["allAclFileVersion"]))
        assert parse(ours.read_bytes()) == parse(file.read_bytes())


def test_mqadmin_and_accounts(judge: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """An account is made, shown, used and deleted, by an administrator."""
    names = broker.status().listens

    def run(command: str, *words: str, tries: int = TRIES) -> str:
        return judge.mqadmin(command, "-n", names, "-b", names, *words, key=OPERATOR, tries=tries)

    assert "success" in run("updateAclConfig", "-a", "newcomer", "-s", "of-the-newcomer", "-t", "orders=PUB,news=SUB")
    shown = run("getAccessConfigSubCommand")
    assert "topicPerms        : [orders=PUB, news=SUB]" in shown and shown.count("accessKey ") == len(SECRETS) + 2
    assert "success" in run("updateGlobalWhiteAddr", "-g", "10.1.1.1,10.1.1.2")
    assert "[10.1.1.1, 10.1.1.2]" in run("getAccessConfigSubCommand")
    assert str(tmp_path / "plain_acl.yml") in run("clusterAclConfigVersion")
    deleted = run("deleteAccessConfig", "-a", "newcomer", tries=1)
    if UNANSWERED.search(deleted):  # it may be deleted all the same, and then the next one is refused
        run("deleteAccessConfig", "-a", "newcomer")
    else:
        assert "success" in deleted
    left = run("getAccessConfigSubCommand")
    assert left.count("accessKey ") == len(SECRETS) + 1 and "newcomer" not in left
    assert "has been deleted failed" in run("deleteAccessConfig", "-a", "newcomer")
    assert parse((tmp_path / "plain_acl.yml").read_bytes()).accounts == parse(RULES.encode()).accounts
