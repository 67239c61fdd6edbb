"""Goal: a batch of a RocketMQ client is stored as its messages, in order and one behind the other, or not at all; and its
answer names the place of each.

Method: the client of the readable model (remoting_client.py) sends batches that are encoded here, beside single sends; what is
stored is compared with what was sent. Then batches that must be refused, and deaths of every process on the way. Java's
producer sends batches in tests/interop/test_remote.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store.commit_log.record import Record, parse
from tests.actors.fronts import serving
from tests.actors.remoting_batch import SEND_BATCH, Entry, batch_of
from tests.actors.remoting_client import ONE_WAY, SEND_V2, Remote, records
from tests.actors.shared_broker import OWN_TOPIC
from tests.native.remoting_model import BINARY, JSON
from tests.trees import actors, everything, indexed, kill, small_broker, stopped, stored
from tests.waiting import dead, until

VIEW = 33
OWN = ("__CRC32#", "ATOMIC")
SUCCESS, SYSTEM_ERROR, ILLEGAL, NO_PERMISSION, NO_TOPIC = 0, 1, 13, 16, 17


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def fields(
    remote: Remote, topic: str, queue: int = 0, properties: bytes = b"WAIT\1true\2", **others: object
) -> dict[str, object]:
    return remote.send_fields(topic, queue, properties, **{"m": "true", **others})


def test_batches_and_single_sends(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Each message with its own body, flag and properties, and those of the request; in one run of offsets, which the answer
    names."""
    rng = random.Random(remote.form)
    sent = []
    for number in range(40):
        queue, count = rng.randrange(2), rng.choice([1, 2, 3, 32, 100])
        entries = []
        for each in range(count):
            properties = f"UNIQ_KEY\1{number}-{each}\2colour\1blue".encode() + rng.choice([b"", b"\2"])
            entries.append(Entry(rng.randbytes(rng.choice([1, 50, 700])), properties, each % 3))
        said = remote.ask(SEND_BATCH, batch_of(entries), **fields(remote, topic, queue, b"WAIT\1true\2shop\1north\2"))
        assert said.code == SUCCESS and said.fields["queueId"] == str(queue) and "transactionId" not in said.fields
        ids, first = said.fields["msgId"].split(","), int(said.fields["queueOffset"])
        assert len(ids) == count
        for each, entry in enumerate(entries):
            own = {"UNIQ_KEY": f"{number}-{each}", "colour": "blue", "shop": "north"}
            sent.append((entry.body, queue, first + each, ids[each], entry.flag, own))
        single = remote.send(topic, b"between", queue, b"UNIQ_KEY\1single\2")
        assert int(single.fields["queueOffset"]) == first + count
        sent.append((b"between", queue, first + count, single.fields["msgId"], 0, {"UNIQ_KEY": "single"}))
    found = []
    for message in stored(broker, topic):
        own = {name: value for name, value in message.properties.items() if name not in OWN}
        found.append((bytes(message), message.queue, message.offset, message.id, message.flag, own))
        assert message.born_ms == 1_700_000_000_123
    assert found == sent


def test_the_mark_of_a_batch_stays_at_home(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """RocketMQ's clients get each record of an atomic batch as it would be without it, by pulls and by its id."""
    entries = [Entry(b"%d" % each, properties) for each in range(12) for properties in (b"", b"UNIQ_KEY\1u\2colour\1blue\2")]
    ids = remote.ask(SEND_BATCH, batch_of(entries), **fields(remote, topic)).fields["msgId"].split(",")
    found = [message for message in stored(broker, topic) if message.queue == 0]
    assert all("ATOMIC" in message.properties for message in found) and len(found) == len(entries)
    pulled = records(remote.pull(topic, 0, 0).body)
    looked_up = [remote.ask(VIEW, offset=int(each[16:], 16)).body for each in ids]
    assert pulled == looked_up
    for record, entry, message in zip(pulled, entries, found, strict=True):
        read = parse(record)
        assert isinstance(read, Record) and read.body == entry.body
        assert read.properties == {name: value for name, value in message.properties.items() if name not in OWN}
        assert int.from_bytes(record[:4], "big") == len(record)


def test_any_queue_and_one_way(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """A batch goes to one queue, whichever it is; and which code it has does not matter, but what its header says."""
    remote.put(SEND_BATCH, batch_of([Entry(b"a"), Entry(b"b")]), mark=ONE_WAY, **fields(remote, topic, -1))
    remote.put(SEND_V2, batch_of([Entry(b"c"), Entry(b"d")]), mark=ONE_WAY, **fields(remote, topic, -1))
    assert remote.ask(SEND_BATCH, b"single", **fields(remote, topic, 1, m="false")).code == SUCCESS
    indexed(broker)
    found = stored(broker, topic)
    assert [bytes(message) for message in found] == [b"a", b"b", b"c", b"d", b"single"]
    assert found[0].queue == found[1].queue and found[2].queue == found[3].queue


GOOD = Entry(b"good")
REFUSED: list[tuple[bytes, dict[str, object], int]] = [
    (b"", {}, ILLEGAL),
    (b"no batch", {}, ILLEGAL),
    (GOOD.encoded[:-1], {}, ILLEGAL),
    (GOOD.encoded + b"\0", {}, ILLEGAL),
    (b"\0\0\0\0" + GOOD.encoded[4:], {}, ILLEGAL),
    (b"\xff\xff\xff\xff" + GOOD.encoded[4:], {}, ILLEGAL),
    (GOOD.encoded[:16] + b"\xff\xff\xff\xff" + GOOD.encoded[20:], {}, ILLEGAL),
    (batch_of([GOOD, Entry(b"x", b"DELAY\0013"), GOOD]), {}, ILLEGAL),
    (batch_of([GOOD, Entry(b"x", b"TRAN_MSG\1true"), GOOD]), {}, ILLEGAL),
    (batch_of([GOOD, GOOD]), {"i": b"DELAY\0013\2"}, ILLEGAL),
    (batch_of([GOOD, Entry(b"x", b"k\1" + b"v" * 32_750), GOOD]), {}, ILLEGAL),
    (batch_of([GOOD] * 20_000), {}, ILLEGAL),
    (batch_of([GOOD, GOOD]), {"e": 2}, SYSTEM_ERROR),
    (batch_of([GOOD, GOOD]), {"f": 4}, ILLEGAL),
    (batch_of([GOOD, GOOD]), {"b": "absent", "c": "none"}, NO_TOPIC),
    (batch_of([GOOD, GOOD]), {"b": "read_only"}, NO_PERMISSION),
]


@pytest.mark.parametrize(("body", "change", "code"), REFUSED, ids=range(len(REFUSED)))
def test_refused_batches(
    broker: orbitmq.Broker, remote: Remote, body: bytes, change: dict[str, object], code: int, topic: str
) -> None:
    """One message that cannot be taken: nothing of the batch is stored, the answer says why, and the connection goes on."""
    broker.create_topic("read_only", 1)
    broker.set_permissions("read_only", read=True, write=False)
    said = remote.ask(SEND_BATCH, body, **fields(remote, topic, **change))
    assert (said.code, bool(said.remark)) == (code, True), said
    assert remote.ask(SEND_BATCH, GOOD.encoded * 2, **fields(remote, topic)).fields["queueOffset"] == "0"
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"good", b"good"]


def decoded(body: bytes) -> list[tuple[bytes, int]] | None:
    """Bodies and flags of a batch, read plainly; None: it is none."""
    found, at = [], 0
    while at < len(body):
        numbers = [int.from_bytes(body[at + n : at + n + 4], "big") for n in range(0, 20, 4)]
        size, flag, length = numbers[0], numbers[3], numbers[4]
        entry = body[at : at + size]
        if size < 22 or len(entry) < size or length > size - 22:
            return None
        if int.from_bytes(entry[20 + length : 22 + length], "big") != size - 22 - length:
            return None
        found.append((entry[20 : 20 + length], flag))
        at += size
    return found or None


@pytest.mark.parametrize("seed", range(3))
def test_damaged_batches(broker: orbitmq.Broker, seed: int, topic: str) -> None:
    """Batches with bytes changed, lost and doubled: what a plain reading finds is stored, or nothing is."""
    rng = random.Random(seed)
    wanted, answers = [], {SUCCESS: 0, ILLEGAL: 0}
    with Remote(broker.status().listens) as remote:
        for number in range(400):
            entries = [Entry(rng.randbytes(rng.randrange(20)), b"a\1b", rng.randrange(9)) for _ in range(rng.randrange(1, 6))]
            body = bytearray(batch_of(entries))
            for _ in range(rng.randrange(3)):
                at = rng.randrange(len(body))
                match rng.randrange(4):
                    case 0:
                        body[at] = rng.randrange(256)
                    case 1:
                        del body[at:]
                    case 2:
                        body[at:at] = body[at : at + rng.randrange(30)]
                    case _:
                        body[at : at + 4] = rng.choice([0, 21, 22, 23, 1 << 31, (1 << 32) - 1]).to_bytes(4, "big")
                if not body:
                    break
            said = remote.ask(SEND_BATCH, bytes(body), **fields(remote, topic, number % 2))
            good = decoded(bytes(body))
            assert said.code == (ILLEGAL if good is None else SUCCESS), (bytes(body), said)
            answers[said.code] += 1
            wanted += [(content, flag, number % 2) for content, flag in good or []]
    assert min(answers.values()) > 50
    indexed(broker)
    assert [(bytes(message), message.flag & 0xFFFFFFFF, message.queue) for message in stored(broker, topic)] == wanted


def test_too_large_a_message_in_the_middle(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The broker's own limit, which is found when part of the batch was judged already; the answer names the message. Of a
    batch that is too large as a whole, it says what to do."""
    most = broker.status().message_max
    said = remote.ask(SEND_BATCH, batch_of([GOOD, GOOD, Entry(bytes(most)), GOOD]), **fields(remote, topic))
    assert said.code == ILLEGAL and "message 3" in (said.remark or "")
    said = remote.ask(SEND_BATCH, batch_of([Entry(bytes(most - 1000))] * 30), **fields(remote, topic))
    assert said.code == ILLEGAL and "send fewer messages in it, or raise" in (said.remark or "")
    said = remote.ask(SEND_BATCH, batch_of([GOOD] * 20_000), **fields(remote, topic))
    assert said.code == ILLEGAL and "more messages than the broker takes at once; send fewer" in (said.remark or "")
    assert remote.send(topic, b"then").fields["queueOffset"] == "0"


def test_a_batch_that_grows(tmp_path: Path) -> None:
    """Each message gets the properties of the request: a small request may ask for 4 GiB in all, and more. It is refused before
    they are put together."""
    with small_broker(tmp_path, listen="127.0.0.1:0", lane_capacity=8 << 20) as broker:
        broker.create_topic("t", 2)
        with Remote(broker.status().listens) as remote:
            for stride, count in ((1 << 19, 8192), (32_000, 8192), (32_000, 300_000), (700_000, 300_000)):
                properties = b"k\1" + b"v" * (stride - 24 - 2)
                said = remote.ask(SEND_BATCH, batch_of([Entry(b"")]) * count, **fields(remote, OWN_TOPIC, 0, properties))
                assert said.code == ILLEGAL and said.remark
            assert remote.send("t", b"then").fields["queueOffset"] == "0"
            assert actors(broker)["gateway"].state == "running"


def busy_ns(pid: int) -> int:
    """Processor time of the process's first thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_properties_of_the_request_are_read_once(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: a batch of many messages does not hold the gateway up because its request has much that is not stored."""
    pid = actors(broker)[serving()].pid
    properties = b"WAIT\1t\2" * 40_000

    def cost(count: int) -> int:
        before = busy_ns(pid)
        for _ in range(5):
            said = remote.ask(SEND_BATCH, batch_of([Entry(b"x")] * count), **fields(remote, OWN_TOPIC, 0, properties))
            assert said.code == SUCCESS
        return busy_ns(pid) - before

    cost(1)
    assert cost(400) < 20 * cost(1)


def test_a_durable_topic(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The answer comes when the last message is on the disk."""
    safe = f"{topic}-safe"
    broker.create_topic(safe, 1, durability="flushed")
    for _ in range(5):
        said = remote.ask(SEND_BATCH, batch_of([Entry(b"x" * 3000)] * 10), **fields(remote, safe))
        assert broker.status().positions.flushed > int(said.fields["msgId"].split(",")[-1][16:], 16)


def test_a_sender_that_does_not_wait(broker: orbitmq.Broker, remote: Remote) -> None:
    """setWaitStoreMsgOK(false) of RocketMQ's clients: the answer comes though nothing reaches the disk, as for a local sender
    who says so; of single messages and of batches. All others wait."""
    broker.create_topic("safe", 1, durability="flushed")
    assert remote.send("safe", b"first").code == SUCCESS
    entries = batch_of([Entry(b"one"), Entry(b"two")])
    with stopped(broker, "flush"):
        for said in (b"WAIT\1false\2", b"TAGS\1a\2WAIT\1no\2"):
            assert remote.send("safe", b"x", 0, said).code == SUCCESS
            assert remote.ask(SEND_BATCH, entries, **remote.send_fields("safe", 0, said, m="true")).code == SUCCESS
        wishes = (b"WAIT\1true\2", b"", b"WAIT\1TRUE")
        waiting = [remote.put(SEND_V2, b"waits", **remote.send_fields("safe", 0, said)) for said in wishes]
        assert remote.ask(VIEW, offset=1 << 40).code == SYSTEM_ERROR, "before they are answered"
    assert [(remote.take().opaque) for _ in waiting] == waiting


@pytest.mark.parametrize("victim", ["gateway", "writer", "handler 0", "handler 1"])
def test_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Whoever dies: a batch is in the log as a whole or not at all, and once, where its answer says, if there was one."""
    rng = random.Random(victim)
    listens, answered, number = broker.status().listens, {}, 0
    for _ in range(5):
        with Remote(listens) as remote:
            names = {}
            for _ in range(rng.randrange(5, 60)):
                number += 1
                count = rng.choice([1, 2, 7, 40])
                entries = [Entry(b"%d %d %d" % (number, each, count)) for each in range(count)]
                names[remote.put(SEND_BATCH, batch_of(entries), **fields(remote, OWN_TOPIC, number % 2))] = number
            try:
                kill(broker, victim)
                for _ in names:
                    said = remote.take()
                    assert said.code == SUCCESS
                    answered[names[said.opaque]] = int(said.fields["queueId"]), int(said.fields["queueOffset"])
            except ConnectionError:
                assert victim == "gateway"
    until(lambda: not any(dead(each.pid) for each in broker.status().sessions), "what the last gateway had taken")
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    for body, queue, offset, _ in everything(broker, "t"):
        name, each, count = map(int, bytes(body).split())
        found.setdefault(name, []).append((each, count, queue, offset))
    for name, messages in found.items():
        _, count, queue, offset = min(messages)
        assert sorted(messages) == [(each, count, queue, offset + each) for each in range(count)]
        assert answered.get(name, (queue, offset)) == (queue, offset)
    assert set(answered) <= set(found)
    assert victim == "gateway" or len(answered) == number


@pytest.mark.parametrize("more", [{}, {"m": "true"}], ids=["message", "batch"])
def test_a_send_that_asks_for_the_disk(tmp_path: Path, more: dict[str, str]) -> None:
    """Whatever its topic says. Nobody else asks for the disk in this minute."""
    slow = small_broker(tmp_path, listen="127.0.0.1:0", flush_interval_ms=60_000)
    with slow as broker, Remote(broker.status().listens) as remote:
        broker.create_topic("t", 1)
        body = batch_of([Entry(b"x")] * 2) if more else b"x"
        assert remote.send("t", body, **more).code == SUCCESS
        before = broker.status().positions
        assert before.flushed < before.wrote
        assert remote.send("t", body, durability="flushed", **more).code == SUCCESS
        after = broker.status().positions
        assert after.flushed == after.wrote > before.wrote
        said = remote.send("t", body, durability="often", **more)
        assert said.code == ILLEGAL and said.remark is not None and "durability" in said.remark
