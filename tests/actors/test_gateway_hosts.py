"""Goal: a record names the client that has sent it, and the broker, as RocketMQ's does: by address and port, of IPv6 with 16
bytes of address. So does every record that is made of it.

Method: clients of the readable model, at 127.0.0.1 and at ::1, send in every way that there is; the records are read by
OrbitMQ's own consumer, by its commands, and over the socket. Java's client does so in tests/interop/test_ipv6.py. Also of
actors/listener.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.actors.listener import store_host
from orbitmq.cli.web.message_json import alone
from orbitmq.errors import MessageTooLarge
from orbitmq.store.commit_log import record as records_on_disk
from orbitmq.store.halves import HALF_TOPIC, OP_TOPIC
from orbitmq.store.settings.listen_address import ListenAddress
from tests.actors.remoting_batch import SEND_BATCH, Entry, batch_of
from tests.actors.remoting_client import Remote, Said, records
from tests.actors.remoting_kinds import Secure, copied_certificate
from tests.actors.remoting_transaction import COMMIT, END, ROLLBACK, begin, end
from tests.actors.shared_broker import OWN_TOPIC, broker_for
from tests.actors.test_gateway_delays import LEVELS_TOPIC
from tests.actors.test_gateway_look_ups import BY_PLACE, by_key
from tests.actors.test_gateway_requests import PUSH, ask, beat, reply
from tests.actors.test_gateway_sendback import DEAD, RETRY, comes, give_back
from tests.cli.commands import run
from tests.trees import indexed, kill, small_broker, stored

SUCCESS, ILLEGAL = 0, 13
LIMIT = 64 << 10
ADDRESSES = {"127.0.0.1": 0, "::1": 1}


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, listen="127.0.0.1:0;[::1]:0") as broker:
        yield broker


@pytest.fixture(params=ADDRESSES)
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with at(broker, request.param) as remote:
        yield remote


def at(broker: orbitmq.Broker, host: str) -> Remote:
    return Remote(broker.status().addresses[ADDRESSES[host]], host=host)


def named(remote: Remote) -> str:
    """The client, as a record names it."""
    host, port = remote.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def senders(broker: orbitmq.Broker, topic: str = OWN_TOPIC) -> list[str]:
    return [message.born_host for message in stored(broker, topic)]


def hosts(said: Said) -> list[str]:
    """Of the records of an answer."""
    found = []
    for data in records(said.body):
        record = records_on_disk.parse(data)
        assert isinstance(record, records_on_disk.Record)
        host, port = record.born_host
        assert record.sys_flag & 0x10 == 0x10 * (":" in host)
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


def test_who_has_sent(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Each client beside the others, also in a batch; a local one has no address."""
    wanted = []
    with at(broker, "127.0.0.1") as other, at(broker, "::1") as third, broker.producer() as producer:
        for number in range(6):
            client = (remote, other, third)[number % 3]
            assert client.send(topic, b"%d" % number).code == SUCCESS
            producer.send(topic, b"local", queue=0)
            entries = [Entry(b"in a batch"), Entry(b"as well")]
            assert client.ask(SEND_BATCH, batch_of(entries), **client.send_fields(topic, 0, m="true")).code == SUCCESS
            wanted += [named(client), "127.0.0.1:0", named(client), named(client)]
    assert senders(broker, topic) == wanted


def test_where_it_is_shown(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """By the library, in tables, by the commands; and over the socket: to pulls and look-ups by place and by key."""
    sent = remote.send(topic, b"body", properties=b"KEYS\1k\2")
    indexed(broker)
    wanted = named(remote)
    (message,) = stored(broker, topic)
    assert message.born_host == orbitmq.Message.from_record(message.record()).born_host == wanted
    assert (bytes(message), message.id) == (b"body", sent.fields["msgId"])
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        table = consumer.poll_arrow(1, timeout=10, columns=["born_host"])
        assert table.to_pydict() == {"born_host": [wanted]}
    assert hosts(remote.pull(topic, 0, 0)) == hosts(remote.ask(BY_PLACE, offset=message.physical_offset)) == [wanted]
    assert hosts(by_key(remote, "k", topic)) == [wanted]
    shown = run("show", message.id, "--name", broker.name)
    assert f"sent from {wanted}" in " ".join(shown.stdout.split()), shown
    assert json.loads(run("show", message.id, "--json", "--name", broker.name).stdout)["born_host"] == wanted
    assert alone(message)["born_host"] == wanted, "in the web console"


def test_what_is_made_of_it(broker: orbitmq.Broker, remote: Remote) -> None:
    """Messages that wait for their time, halves of transactions, retries and dead letters, and what each of them becomes."""
    wanted = named(remote)
    assert remote.send("t", b"later", properties=b"DELAY\0011\2").code == SUCCESS
    end(remote, begin(remote, "id"), COMMIT)
    first, second = comes(broker, "t", 2)
    assert {first.born_host, second.born_host} == {wanted}
    assert senders(broker, LEVELS_TOPIC) == senders(broker, HALF_TOPIC) == [wanted]
    with at(broker, "127.0.0.1") as other:
        assert give_back(other, first.physical_offset, 1).code == give_back(other, first.physical_offset, -1).code == SUCCESS
        (retry,) = comes(broker, RETRY)
        assert give_back(other, retry.physical_offset, -1).code == SUCCESS
    comes(broker, DEAD, 2)
    assert senders(broker, RETRY) == [wanted] and senders(broker, DEAD) == [wanted] * 2
    assert senders(broker, LEVELS_TOPIC) == [wanted] * 2


def test_what_ends_a_transaction(broker: orbitmq.Broker, remote: Remote) -> None:
    """The broker's note of the end has the broker's address, whoever has ended it, as RocketMQ's has."""
    end(remote, begin(remote, "id"), ROLLBACK)
    with broker.producer(group="shop") as producer:
        producer.transaction("t", b"local", queue=1).commit()
    comes(broker, "t", 1)
    assert senders(broker, OP_TOPIC) == [broker.status().addresses[0]] * 2


def test_who_gives_it_back_with_what_it_was(broker: orbitmq.Broker, remote: Remote) -> None:
    """Then it is a send of its own, as RocketMQ has it."""
    with at(broker, "127.0.0.1") as other:
        first = other.send("t", b"body")
        give_back(other, int(first.fields["msgId"][-16:], 16), -1)
    said = remote.send(RETRY, b"body", properties=b"RETRY_TOPIC\1t\2", j=1)
    assert said.code == SUCCESS, said.remark
    comes(broker, RETRY)
    assert senders(broker, RETRY) == [named(remote)]


def test_work_that_fails(broker: orbitmq.Broker, remote: Remote) -> None:
    """The retry that the broker makes for its own workers."""
    assert remote.send("t", b"body").code == SUCCESS
    with broker.worker("billing", ["t"], max_tries=1) as worker:
        (job,) = worker.take(1)
        job.fail(ValueError("no"))
        worker.flush()
        comes(broker, DEAD)
    assert senders(broker, DEAD) == [named(remote)]


def test_who_replies(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The asker is told, in Java's form."""
    with at(broker, "127.0.0.1") as asker:
        beat(asker, "1@a")
        ask(asker, "1@a", "c1", b"how much?", topic=topic)
        assert reply(remote, "1@a", "c1", b"3.20").code == SUCCESS
        said = asker.asked()
        assert (said.code, said.fields["bornHost"]) == (PUSH, f"/{named(remote)}")
        assert said.fields["storeHost"] == f"/{broker.status().addresses[0]}"


def test_the_largest_message(tmp_path: Path) -> None:
    """A record of IPv6 is 12 bytes larger, and the limit is the record's."""
    with small_broker(tmp_path, listen="127.0.0.1:0;[::1]:0", message_max=LIMIT) as broker:
        broker.create_topic("t", 1)
        for host, more in (("127.0.0.1", 0), ("::1", 12)):
            room = LIMIT - 91 - 20 - 1 - more
            with at(broker, host) as remote:
                assert remote.send("t", bytes(room)).code == SUCCESS
                assert remote.send("t", bytes(room + 1)).code == ILLEGAL
        assert [message.size for message in stored(broker)] == [LIMIT] * 2


def test_ipv4_at_an_address_for_both(tmp_path: Path) -> None:
    """Its address is of IPv4."""
    with small_broker(tmp_path, listen="[::]:0") as broker:
        broker.create_topic("t", 1)
        port = broker.status().addresses[0].rpartition(":")[2]
        with Remote(f"127.0.0.1:{port}") as remote, Remote(f"[::1]:{port}", host="::1") as other:
            assert remote.send("t", b"4").code == other.send("t", b"6").code == SUCCESS
            assert senders(broker) == [named(remote), named(other)]


def test_behind_tls(tmp_path: Path) -> None:
    """The client's address, not that of the process that decrypts."""
    with small_broker(tmp_path / "store", listen="[::1]:0", **copied_certificate(tmp_path)) as broker:
        broker.create_topic("t", 1)
        with Secure(broker.status().listens, host="::1") as remote:
            assert remote.send("t", b"x").code == SUCCESS
            assert senders(broker) == [named(remote)]


# ---- the broker


@pytest.fixture
def six(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    """A broker at an address of IPv6 alone."""
    with small_broker(tmp_path / "store", listen="[::1]:0", message_max=LIMIT) as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.fixture
def visitor(six: orbitmq.Broker) -> Iterator[Remote]:
    with Remote(six.status().listens, host="::1") as remote:
        yield remote


def test_ids_name_the_broker(six: orbitmq.Broker, visitor: Remote) -> None:
    """By 56 digits: in receipts, local and remote, also of batches; they lead to the messages everywhere."""
    sent = [visitor.send("t", b"0").fields["msgId"]]
    batch = visitor.ask(SEND_BATCH, batch_of([Entry(b"1"), Entry(b"2"), Entry(b"3")]), **visitor.send_fields("t", 0, m="true"))
    sent += batch.fields["msgId"].split(",")
    with six.producer() as producer:
        sent.append(producer.send("t", b"4").id)
        sent += [receipt.id for receipt in producer.send_batch("t", [b"5", b"6"])]
    messages = stored(six)
    assert [message.id for message in messages] == sent
    listens = six.status().listens
    port = int(listens.rpartition(":")[2])
    for number, (id, message) in enumerate(zip(sent, messages, strict=True)):
        assert id == f"{1:032X}{port:08X}{message.physical_offset:016X}"
        assert bytes(six.message(id)) == bytes(message) == b"%d" % number
        (data,) = records(visitor.ask(BY_PLACE, offset=int(id[-16:], 16)).body)
        record = records_on_disk.parse(data)
        assert isinstance(record, records_on_disk.Record) and record.store_host == ("::1", port) and record.sys_flag & 0x20
        assert str(record.message_id) == id
    assert json.loads(run("show", sent[0], "--json", "--name", six.name).stdout)["id"] == sent[0]
    with six.consumer(None, topics=["t"], start="earliest") as consumer:
        table = consumer.poll_arrow(7, timeout=10, columns=["store_host", "message_id"])
        assert table.to_pydict() == {"store_host": [listens] * 7, "message_id": sent}


def test_what_the_broker_makes(six: orbitmq.Broker, visitor: Remote) -> None:
    """Also there its address is that of IPv6, and notes name the first message by its id of 56 digits."""
    first = visitor.send("t", b"body").fields["msgId"]
    assert visitor.send("t", b"later", properties=b"DELAY\0011\2").code == SUCCESS
    said = visitor.send("t", b"half", properties=b"TRAN_MSG\1true\2UNIQ_KEY\1id\2PGROUP\1shop\2", f=4)
    half = int(said.fields["msgId"][-16:], 16)
    ending = {"tranStateTableOffset": said.fields["queueOffset"], "commitLogOffset": half, "commitOrRollback": COMMIT}
    visitor.ask(END, producerGroup="shop", fromTransactionCheck="false", msgId="id", transactionId="id", **ending)
    assert give_back(visitor, int(first[-16:], 16), 1).code == give_back(visitor, int(first[-16:], 16), -1).code == SUCCESS
    (settled,) = comes(six, OP_TOPIC)
    assert (settled.born_host, len(settled.id)) == (six.status().addresses[0], 56)
    made = [*comes(six, "t", 3), *comes(six, RETRY), *comes(six, DEAD), *stored(six, LEVELS_TOPIC), *stored(six, HALF_TOPIC)]
    assert {len(message.id) for message in made} == {56} and {message.born_host for message in made} == {named(visitor)}
    notes = [message.properties.get("ORIGIN_MESSAGE_ID") for message in made if message.topic in (RETRY, DEAD)]
    assert notes == [first] * 2
    (letter,) = six.dead_letters("billing").list()
    assert letter.first_id == first


def test_the_largest_local_message(six: orbitmq.Broker) -> None:
    """The client knows by how much a record is larger."""
    room = LIMIT - 91 - 20 - 1 - 12
    with six.producer(message_max=LIMIT) as producer:
        assert producer.send("t", bytes(room)).size == LIMIT
        with pytest.raises(MessageTooLarge) as caught:
            producer.send("t", bytes(room + 1))
        assert (caught.value.size, caught.value.limit) == (LIMIT + 1, LIMIT)


def test_a_store_that_has_had_both(tmp_path: Path) -> None:
    """Messages keep the address under which they were stored, and what finds and checks them reads each of them."""
    ids = []
    for listens in ("[::1]:0", "127.0.0.1:0", "[::1]:0"):
        with small_broker(tmp_path, listen=listens) as broker:
            if not ids:
                broker.create_topic("t", 1)
            if len(ids) == 4:
                kill(broker, "writer")
            host = "::1" if "::1" in listens else "127.0.0.1"
            with broker.producer() as producer, Remote(broker.status().listens, host=host) as remote:
                ids.append(producer.send("t", b"x", keys=["k"]).id)
                ids.append(remote.send("t", b"y", properties=b"KEYS\1k\2").fields["msgId"])
            assert [message.id for message in stored(broker)] == [broker.message(id).id for id in ids] == ids
            assert sorted(message.id for message in broker.find("t", "k")) == sorted(ids)
    assert [len(id) for id in ids] == [56, 56, 32, 32, 56, 56]
    table = orbitmq.dataset(tmp_path, ["t"], columns=["offset", "message_id"]).to_table().sort_by("offset")
    assert table["message_id"].to_pylist() == ids
    checked = run("verify", "--store", str(tmp_path))
    assert checked.returncode == 0, checked


@pytest.mark.parametrize(
    ("listens", "names"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("fd00::5", "fd00::5"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::5%lo", "fe80::5"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "127.0.0.1"),
    ],
)
def test_what_records_name(listens: str, names: str) -> None:
    assert store_host(ListenAddress(listens, 10911)) == (names, 10911)
