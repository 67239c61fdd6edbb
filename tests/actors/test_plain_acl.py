"""Goal: plain_acl.yml means what RocketMQ takes it for, and a mistake in it is named with its line.

Method: the file that RocketMQ ships, and one with each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.remoting.plain_acl import DENY, PUB, SUB, Account, AclError, Rules, parse, read

SHIPPED = """\
# Licensed to the Apache Software Foundation (ASF)
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


def test_what_rocketmq_ships() -> None:
    found = parse(SHIPPED.encode())
    assert [each.least for each in found.addresses] == [(10, 10, 103, 0), (192, 168, 0, 0)]
    first, second = found.accounts
    topics = {(False, "topicA"): DENY, (False, "topicB"): PUB | SUB, (False, "topicC"): SUB}
    groups = {(True, "groupA"): DENY, (True, "groupB"): PUB | SUB, (True, "groupC"): SUB}
    assert first == Account("RocketMQ", "12345678", (), False, DENY, SUB, topics | groups)
    assert (second.access_key, second.secret_key, second.admin, second.topics, second.groups) == (
        "rocketmq2", "12345678", True, DENY, DENY)  # fmt: skip
    assert [(each.least, each.most) for each in second.addresses] == [((192, 168, 1, 0), (192, 168, 1, 255))]
    assert not second.named
    assert "12345678" not in repr(found)


def account(more: str) -> str:
    return f"accounts:\n- accessKey: account1\n  secretKey: secret-1\n{more}"


@pytest.mark.parametrize("text", ["", "# nothing\n", "accounts:\n", "globalWhiteRemoteAddresses:\naccounts: []\n"])
def test_no_rules(text: str) -> None:
    """Nobody may do anything."""
    assert parse(text.encode()) == Rules()


def test_spaces_and_retries() -> None:
    """A topic of retries is its group, as RocketMQ stores it."""
    text = account("  topicPerms: [ 'a = PUB | SUB '.strip, '%RETRY%g=SUB' ]\n").replace("'.strip", "'").replace(" | ", "|")
    (found,) = parse(text.encode()).accounts
    assert found.named == {(False, "a"): PUB | SUB, (True, "g"): SUB}


def test_what_rocketmq_notes_in_it() -> None:
    assert len(parse((SHIPPED + "dataVersion:\n- counter: 1\n  timestamp: 1700000000000\n").encode()).accounts) == 2


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (account("  topicPerms: [a=PUP]\n"), 4, "'PUP' is no permission; write one of PUB, SUB, PUB|SUB, SUB|PUB, DENY"),
        (account("  topicPerms:\n  - a\n"), 5, "is not of the form topic"),
        (account("  groupPerms:\n  - a=b=PUB\n"), 5, "is not of the form group"),
        (account("  topicPerms:\n  - a=PUB\n  - a=SUB\n"), 6, "the topic 'a' occurs a second time"),
        (account("  topicPerms: ['%RETRY%g=SUB']\n  groupPerms: [g=SUB]\n"), 5, "the group 'g' occurs a second time"),
        (account("  defaultTopicPerm: pub\n"), 4, "'pub' is no permission"),
        (account("  defaultGroupPerm: ANY\n"), 4, "'ANY' is no permission"),
        (account("  admin: maybe\n"), 4, "write true or false"),
        (account("  whiteRemoteAddress: 1.2.3\n"), 4, "'1.2.3' is no address: it has 3 parts"),
        (account("  topicPerm: [a=PUB]\n"), 4, "an account has the unknown key 'topicPerm'; perhaps topicPerms"),
        (account("  topicPerms: a=PUB\n"), 4, "topicPerms must be a list"),
        (account("  secretKey: again-1\n"), 4, "has the key secretKey a second time"),
        (account("- accessKey: account1\n  secretKey: secret-2\n"), 4, "the accessKey 'account1' occurs a second time"),
        ("accounts:\n- accessKey: short1\n  secretKey: secret-1\n", 2, "the account's accessKey 'short1' is"),
        ("accounts:\n- accessKey: account1\n  secretKey: short1\n", 3, "the account's secretKey is missing or too short"),
        ("accounts:\n- accessKey: account1\n", 2, "the account's secretKey is missing"),
        ("accounts:\n- justtext\n", 2, "an account must be a mapping"),
        ("accounts:\n  accessKey: account1\n", 2, "accounts must be a list"),
        ("globalWhiteRemoteAddresses:\n- 1.2.3.4\n- [1.2.3.4]\n", 3, "a single value is expected"),
        ("globalWhiteRemoteAddresses:\n- 1.2.3.400\n", 2, "'400' is no part"),
        ("account:\n", 1, "unknown key 'account'; perhaps accounts"),
        ("- a\n", 1, "the file must be a mapping"),
        ("accounts:\n- accessKey: [\n", 3, "it is no YAML"),
        ("a: b: c\n", 1, "it is no YAML"),
        ("accounts: []\n---\naccounts: []\n", 2, "it is no YAML"),
    ],
)
def test_mistakes(text: str, line: int, why: str) -> None:
    with pytest.raises(AclError) as refused:
        parse(text.encode())
    assert str(refused.value).startswith(f"line {line}: ") and why in str(refused.value)
    assert "secret-1" not in str(refused.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(AclError, match="it is no YAML"):
        parse(b"accounts: \xff\xfe\n")
    with pytest.raises(AclError, match="it is no YAML"):
        parse(b"[" * 100_000)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    with pytest.raises(AclError, match="it cannot be read: No such file"):
        read(path)
    path.write_text(SHIPPED)
    assert read(path) == parse(SHIPPED.encode())
