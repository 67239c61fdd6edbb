"""Goal: access rules and TLS hold at each of several gateways, also while one of them has read a file that the other one has
not: what a front answers by itself is judged there, and what it passes on is judged by the lead.

Method: clients that sign or speak TLS, placed at a front (fronts.py). How one gateway judges is in test_gateway_acl.py and
test_gateway_tls.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from tests.actors.fronts import LEAD, connect_to, connect_to_front
from tests.actors.remoting_client import CLUSTER, HEARTBEAT, MAX_OFFSET, PULL, SEND_V2, Remote, records
from tests.actors.remoting_kinds import CERTIFICATES, Secure, SecureSigning, Signing, copied_certificate
from tests.actors.test_gateway_acl import RULES, SECRETS, heartbeat, refused, replace, rules_file, stored
from tests.native.remoting_model import BINARY, JSON
from tests.trees import actors, indexed, kill, small_broker, stopped
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, MEMBERS = 0, 1, 38
WRONG = "Check signature failed for accessKey=producer"


class SigningAtLead(Signing):
    connect = staticmethod(partial(connect_to, LEAD))


@pytest.fixture(autouse=True)
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remote, "connect", staticmethod(connect_to_front))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return rules_file(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return copied_certificate(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, file: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", gateways=2, acl=str(file)) as broker:
        for topic in "t", "other":
            broker.create_topic(topic, 2)
        yield broker


def passed(broker: orbitmq.Broker) -> int:
    """How many frames the front has passed on."""
    return actors(broker)["gateway 1"].counters["passed"]


def client(broker: orbitmq.Broker, access: str, form: int = JSON) -> Signing:
    return Signing(broker.status().listens, access, SECRETS[access], form)


def is_wrong(remote: Remote, code: int) -> bool:
    return refused(remote.ask(code, b"{}", topic="t", queueId=0), WRONG)


# ---- access rules


@pytest.mark.parametrize("form", [JSON, BINARY], ids=["json", "binary"])
def test_what_a_front_answers(broker: orbitmq.Broker, form: int) -> None:
    """It is judged there: nothing of this goes to the lead, which hangs."""
    with client(broker, "producer", form) as producer, client(broker, "consumer", form) as consumer:
        with stopped(broker, "gateway"):
            assert producer.send("t", b"one").code == SUCCESS
            indexed(broker)
            assert len(records(consumer.pull("t", 0, 0).body)) == 1
            assert consumer.ask(MAX_OFFSET, topic="t", queueId=0).fields == {"offset": "1"}
            assert refused(producer.send("other", b"two"), "No default permission for topic:other")
            assert refused(producer.pull("t", 0, 0), "No default permission for topic:t")
            assert refused(consumer.send("t", b"three"), "No default permission for topic:t")
            other = {**consumer.pull_fields("t", 0, 0), "consumerGroup": "others"}
            assert refused(consumer.ask(PULL, **other), "No default permission for group:others")
            right = producer.frame(SEND_V2, b"four", **producer.send_fields("t", 0))
            producer.socket.sendall(right[:-1] + b"!" + right)
            assert refused(producer.take(), WRONG) and producer.take().code == SUCCESS
        assert passed(broker) == 0
    assert stored(broker) == 2


@pytest.mark.parametrize("form", [JSON, BINARY], ids=["json", "binary"])
def test_what_it_passes_on(broker: orbitmq.Broker, form: int) -> None:
    """Signatures still hold: frames go to the lead as they came, also those that the front has read and judged before."""
    with client(broker, "operator", form) as operator, client(broker, "consumer", form) as consumer:
        consumer.until(consumer.put(HEARTBEAT, heartbeat("group", "t")))
        assert consumer.ask(MEMBERS, consumerGroup="group").code == SUCCESS
        assert refused(consumer.ask(HEARTBEAT, heartbeat("others", "t")), "No default permission for group:others")
        assert refused(consumer.ask(MEMBERS, consumerGroup="others"), "No default permission for group:others")
        assert refused(consumer.send("fresh", b"x"), "No default permission for topic:fresh")
        before = passed(broker)
        assert operator.send("fresh", b"makes the topic", properties="ä\1ö\2".encode()).code == SUCCESS
        assert passed(broker) == before + 1
    with Signing(broker.status().listens, "operator", "another-secret", form) as stranger:
        assert refused(stranger.ask(HEARTBEAT, b"{}"), WRONG.replace("producer", "operator"))
        assert refused(stranger.send("newer", b"x"), WRONG.replace("producer", "operator"))
    assert {topic.name for topic in broker.status().topics} >= {"fresh"}
    assert "newer" not in {topic.name for topic in broker.status().topics}


def test_who_has_no_key(broker: orbitmq.Broker) -> None:
    with Remote(broker.status().listens) as remote:
        assert remote.ask(CLUSTER).code == SUCCESS
        for code in SEND_V2, PULL, HEARTBEAT, 999:
            assert refused(remote.ask(code), "No accessKey is configured")
        one_way = remote.put(SEND_V2, b"x", mark=2, **remote.send_fields("t", 0))
        assert remote.ask(CLUSTER).opaque == one_way + 1  # it got no answer
        at_home = {"AccessKey": "at-home"}  # by the address of the client, and not of the relay
        assert remote.ask(SEND_V2, b"one", **remote.send_fields("other", 0), **at_home).code == SUCCESS
        remote.until(remote.put(HEARTBEAT, heartbeat("any", "t"), **at_home))
    with Remote(broker.status().listens, host="127.0.1.1") as abroad:
        for code in SEND_V2, HEARTBEAT:
            assert abroad.ask(code, AccessKey="at-home").code == SYSTEM_ERROR
    assert stored(broker) == 1


def test_changes_of_the_file(broker: orbitmq.Broker, file: Path) -> None:
    """Each process reads it, for connections that are open, too; what is no file of rules changes nothing at either."""
    listens = broker.status().listens

    def serves(kind: type[Signing], secret: str) -> bool:
        with kind(listens, "producer", secret) as remote:
            return remote.send("t", b"x").code == remote.ask(HEARTBEAT, b"{}").code == SUCCESS

    with client(broker, "producer") as front, SigningAtLead(listens, "producer", SECRETS["producer"]) as lead:
        for each in front, lead:
            assert each.send("t", b"x").code == each.ask(HEARTBEAT, b"{}").code == SUCCESS
        replace(file, RULES.replace("of-the-producer", "another-secret"))
        for each in front, lead:
            for code in MAX_OFFSET, HEARTBEAT:  # the one that the front answers, and the one that it passes on
                until(partial(is_wrong, each, code), "the new rules")
    replace(file, "accounts: no list\n")
    kill(broker, "gateway 1")
    until(partial(serves, SigningAtLead, "another-secret"), "the lead's last rules")
    with Signing(listens, "producer", "another-secret") as front:
        assert refused(front.send("t", b"x"), "No acl config for producer"), "a new front has read none"
    replace(file, RULES)
    for kind in Signing, SigningAtLead:
        until(partial(serves, kind, "of-the-producer"), "the rules of the file")


# ---- TLS


def test_both_on_one_port(tmp_path: Path, files: dict[str, str], file: Path) -> None:
    """Clients with TLS and in clear at a front: served there, or by the lead, in the order of their requests."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", gateways=2, acl=str(file), **files) as broker:
        broker.create_topic("t", 2)
        listens = broker.status().listens
        with SecureSigning(listens, "operator", SECRETS["operator"]) as secure, client(broker, "operator") as plain:
            for body in b"", b"x" * 16_385, b"y" * 60_000:
                for each in secure, plain:
                    frames = [each.frame(SEND_V2, body, **each.send_fields("t", 0)), each.frame(HEARTBEAT, b"{}")]
                    each.socket.sendall(b"".join(frames))
                    assert sorted(each.answered().opaque for _ in frames) == [each._opaque - 1, each._opaque]
            indexed(broker)
            pulled = [each.pull("t", 0, 0).body for each in (secure, plain)]
            assert pulled[0] == pulled[1] and len(records(pulled[0])) == 6
            assert passed(broker) == 6
        with SecureSigning(listens, "operator", "another-secret") as wrong:
            assert refused(wrong.send("t", b"x"), WRONG.replace("producer", "operator"))


@pytest.mark.parametrize(("mode", "plain", "secure"), [("enforcing", False, True), ("disabled", True, False)])
def test_modes(tmp_path: Path, files: dict[str, str], mode: str, plain: bool, secure: bool) -> None:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", gateways=2, tls=mode, **files) as broker:
        broker.create_topic("t", 2)

        def serves(kind: type[Remote]) -> bool:
            with suppress(OSError), kind(broker.status().listens) as remote:
                return remote.send("t", b"x").code == remote.ask(HEARTBEAT, b"{}").code == SUCCESS
            return False

        assert (serves(Remote), serves(Secure)) == (plain, secure)
        assert stored(broker) == 1


@pytest.mark.parametrize("victim", ["gateway", "gateway 1"])
def test_deaths(tmp_path: Path, files: dict[str, str], victim: str) -> None:
    """Clients with TLS see the end, too, and are served by the next one."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", gateways=2, **files) as broker:
        broker.create_topic("t", 2)
        with Secure(broker.status().listens) as secure:
            assert secure.send("t", b"x").code == secure.ask(HEARTBEAT, b"{}").code == SUCCESS
            kill(broker, victim)
            with pytest.raises(OSError):
                secure.take()
        with Secure(broker.status().listens) as secure:
            assert secure.send("t", b"x").code == secure.ask(HEARTBEAT, b"{}").code == SUCCESS


def test_another_certificate(tmp_path: Path, files: dict[str, str]) -> None:
    """New connections at a front get it."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", gateways=2, **files) as broker:
        for kind in "pem", "key":
            shutil.copy(CERTIFICATES / f"second.{kind}", files["tls_cert" if kind == "pem" else "tls_key"])

        def serves() -> bool:
            with suppress(OSError), Secure(broker.status().listens, "second") as secure:
                return secure.ask(CLUSTER).code == SUCCESS
            return False

        until(serves, "the new certificate")
