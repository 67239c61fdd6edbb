"""Goal: administrators see and change the accounts of plain_acl.yml, and nobody else does; what would not be read back is
refused and changes nothing. Of remoting/acl_file.py and remoting/admin/accounts.py.

Method: clients that sign by the readable model, and the file as it is afterwards; RocketMQ's own broker and tool judge in
tests/interop/test_acl.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.remoting.acl_file import AclFile
from orbitmq.remoting.plain_acl import parse
from tests.actors.remoting_client import Remote
from tests.actors.remoting_kinds import Signing
from tests.actors.test_gateway_acl import SECRETS, refused, replace
from tests.trees import small_broker
from tests.waiting import until

PUT, DELETE, VERSION, PUT_ADDRESSES, LIST = 50, 51, 52, 53, 54
SUCCESS, SYSTEM_ERROR, PUT_FAILED, DELETE_FAILED, ADDRESSES_FAILED = 0, 1, 209, 210, 211
RULES = """\
# who may do what
globalWhiteRemoteAddresses:
accounts:
- accessKey: operator
  secretKey: 12345678
  admin: yes
- accessKey: producer
  secretKey: of-the-producer
  whiteRemoteAddress:
  topicPerms: [t=PUB]
- {accessKey: octal123, secretKey: 012345670}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A link to it."""
    (tmp_path / "real.yml").write_text(RULES)
    (tmp_path / "real.yml").chmod(0o640)
    (tmp_path / "plain_acl.yml").symlink_to(tmp_path / "real.yml")
    return tmp_path / "plain_acl.yml"


@pytest.fixture
def broker(tmp_path: Path, file: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", acl=str(file)) as broker:
        broker.create_topic("t", 2)
        yield broker


@pytest.fixture
def operator(broker: orbitmq.Broker) -> Iterator[Remote]:
    with Signing(broker.status().listens, "operator", SECRETS["operator"]) as operator:
        yield operator


def account(access: str, **others: str) -> dict[str, str]:
    return {"accessKey": access, "secretKey": f"of-the-{access}", "admin": "false", **others}


def test_an_account_comes_and_goes(broker: orbitmq.Broker, operator: Remote, file: Path) -> None:
    """It counts as soon as the file is read again; and the file keeps its place, its permissions, and what is not changed."""

    def sends() -> int:
        with Signing(broker.status().listens, "newcomer", "of-the-newcomer") as newcomer:
            return newcomer.send("t", b"x").code

    before = parse(file.read_bytes())
    assert sends() == SYSTEM_ERROR
    assert operator.ask(PUT, **account("newcomer", topicPerms="t=PUB,other=SUB")).code == SUCCESS
    until(lambda: sends() == SUCCESS, "the new rules")
    assert operator.ask(PUT, **account("newcomer", topicPerms="t=DENY", defaultGroupPerm="SUB")).code == SUCCESS
    until(lambda: sends() == SYSTEM_ERROR, "the new rules")
    (*others, newest) = parse(file.read_bytes()).accounts
    assert others == list(before.accounts) and newest.groups and newest.named
    assert operator.ask(DELETE, accessKey="newcomer").code == SUCCESS
    assert parse(file.read_bytes()) == before
    assert file.is_symlink() and file.stat().st_mode & 0o777 == 0o640
    assert not list(file.parent.glob("*.tmp"))
    said = operator.ask(VERSION).fields
    assert json.loads(said["version"])["counter"] == 3
    assert json.loads(said["allAclFileVersion"]) == {str(file.resolve()): json.loads(said["version"])}
    assert (said["brokerName"], said["brokerAddr"]) == (broker.name, broker.status().listens)


def test_what_is_shown(operator: Remote) -> None:
    shown = json.loads(operator.ask(LIST).body)
    assert shown == {
        "globalWhiteAddrs": [],
        "plainAccessConfigs": [
            {"accessKey": "operator", "admin": True, "secretKey": "12345678"},
            {"accessKey": "producer", "admin": False, "secretKey": "of-the-producer", "topicPerms": ["t=PUB"]},
            {"accessKey": "octal123", "admin": False, "secretKey": "012345670"},
        ],
    }


def test_addresses(broker: orbitmq.Broker, operator: Remote) -> None:
    with Remote(broker.status().listens) as remote:
        assert remote.send("t", b"x").code == SYSTEM_ERROR
        assert operator.ask(PUT_ADDRESSES, globalWhiteAddrs="10.0.0.1,127.0.0.*").code == SUCCESS
        until(lambda: remote.send("t", b"x").code == SUCCESS, "the new rules")
        until(lambda: remote.ask(LIST).code == SUCCESS, "the new rules also where changes are made")
        assert json.loads(remote.ask(LIST).body)["globalWhiteAddrs"] == ["10.0.0.1", "127.0.0.*"]


def test_what_is_refused(operator: Remote, file: Path) -> None:
    """With the words of RocketMQ, or the reason for which the file would not be read."""
    short = "cannot be null and length should longer than 6"
    wrong: list[tuple[int, dict[str, str], int, str]] = [
        (PUT, {"accessKey": "short", "secretKey": "x"}, PUT_FAILED, f"The accessKey=short and secretKey=x {short}"),
        (PUT, {"accessKey": "newcomer"}, PUT_FAILED, f"The accessKey=newcomer and secretKey=null {short}"),
        (PUT, {}, PUT_FAILED, f"The accessKey=null and secretKey=null {short}"),
        (PUT, account("newcomer", topicPerms="t"), PUT_FAILED, "Parse Resource format error for t."),
        (PUT, account("newcomer", groupPerms="g=ALL"), PUT_FAILED, "Parse resource permission error for g=ALL."),
        (PUT, account("newcomer", topicPerms="t=PUB,t=SUB"), PUT_FAILED, "the topic 't' occurs a second time"),
        (PUT, account("newcomer", defaultTopicPerm="ALL"), PUT_FAILED, "'ALL' is no permission"),
        (PUT, account("newcomer", whiteRemoteAddress="10.0.0.x"), PUT_FAILED, "write an address such as"),
        (
            DELETE,
            {"accessKey": "nobody"},
            DELETE_FAILED,
            "The accesskey[nobody] corresponding to accessConfig has been deleted failed.",
        ),
        (DELETE, {}, DELETE_FAILED, "The accesskey[null] corresponding to accessConfig has been deleted failed."),
        (PUT_ADDRESSES, {}, ADDRESSES_FAILED, "The globalWhiteAddresses[null] has been updated failed."),
        (PUT_ADDRESSES, {"globalWhiteAddrs": "nonsense"}, ADDRESSES_FAILED, "write an address such as"),
    ]
    for code, fields, failed, why in wrong:
        said = operator.ask(code, **fields)
        assert said.code == failed and why in (said.remark or ""), (code, fields, said)
    assert file.read_text() == RULES


def test_a_file_that_cannot_be_changed(operator: Remote, file: Path) -> None:
    """What is wrong in it is said, and nothing is written."""
    broken = RULES + "- oh\n"
    replace(file.resolve(), broken)  # as a whole: the gateway may read it at any time
    for code, failed in ((PUT, PUT_FAILED), (DELETE, DELETE_FAILED), (VERSION, SYSTEM_ERROR), (LIST, SYSTEM_ERROR)):
        said = operator.ask(code, **account("newcomer"))
        assert said.code == failed and "line 12" in (said.remark or "")
    assert file.read_text() == broken
    file.unlink()
    said = operator.ask(PUT, **account("newcomer"))
    assert said.code == PUT_FAILED and "No such file" in (said.remark or "")


def test_who_is_no_administrator(broker: orbitmq.Broker, file: Path) -> None:
    with Signing(broker.status().listens, "producer", SECRETS["producer"]) as producer:
        for code in (PUT, DELETE, VERSION, PUT_ADDRESSES, LIST):
            why = f"Need admin permission for request code={code}, but accessKey=producer is not"
            assert refused(producer.ask(code, **account("newcomer")), why)
    assert file.read_text() == RULES


def test_without_accounts(tmp_path: Path) -> None:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, Remote(broker.status().listens) as remote:
        for code, failed in (
            (PUT, PUT_FAILED),
            (DELETE, DELETE_FAILED),
            (PUT_ADDRESSES, ADDRESSES_FAILED),
            (LIST, SYSTEM_ERROR),
        ):
            said = remote.ask(code, **account("newcomer"), globalWhiteAddrs="127.0.0.1")
            assert (said.code, said.remark) == (failed, "the broker uses no file of accounts; start it with --acl FILE")


@pytest.mark.parametrize("text", ["", "accounts:\n", "dataVersion: x\n", "dataVersion:\n- x\n", "dataVersion:\n- counter: x\n"])
def test_a_file_that_says_little(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    file = AclFile(path)
    assert (file.accounts, file.addresses, file.version["counter"]) == ([], [], 0)
    file.put(account("newcomer", admin="true", topicPerms="ü=PUB"))
    (made,) = parse(path.read_bytes()).accounts
    assert made.admin and made.named == {(False, "ü"): parse(path.read_bytes()).accounts[0].named[False, "ü"]}
    assert AclFile(path).version["counter"] == 1
