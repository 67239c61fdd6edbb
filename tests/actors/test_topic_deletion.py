"""Goal: a deleted topic is gone for everybody, at once and for good, and no offset of its queues is ever used twice. Method:
real trees, whose coordinator, or all of whose processes, are killed. Reput (actors/reput.py) removes
the files (actors/burial.py)."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import Full, NoPermission, OrbitError, UnknownTopic, UsageError
from orbitmq.store import purged
from orbitmq.store.config import TopicConfig, load_topics, store_topics
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.actors.test_group_changes import EACH, begin, fill, kill_tree, read
from tests.actors.test_topic_changes import held
from tests.trees import SMALL, actors, everything, indexed, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until


def names(broker: orbitmq.Client) -> list[str]:
    return [topic.name for topic in broker.topics()]


def test_a_deleted_topic_is_gone(tmp_path: Path) -> None:
    """For open and new producers and consumers, with and without a group, for searches and lists; other topics stay."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.create_topic("u", 1)
        with broker.producer() as producer, broker.consumer("g", ["t"]) as member, broker.consumer(None, ["t"]) as reader:
            message_id = producer.send("t", b"key", keys="k").id
            read(member, 2 * EACH + 1)
            read(reader, 2 * EACH + 1)
            member.commit()
            broker.delete_topic("t")
            with pytest.raises(UnknownTopic):
                producer.send("t", b"x")
            with pytest.raises(UnknownTopic):
                member.poll(WATCHDOG_S)
            with pytest.raises(UnknownTopic):
                reader.poll(WATCHDOG_S)
            producer.send("u", b"x")
        for call in (
            lambda: broker.topic("t"),
            lambda: broker.delete_topic("t"),
            lambda: broker.purge_topic("t"),
            lambda: broker.consumer("g", ["t"]),
            lambda: broker.find("t", "k"),
        ):
            with pytest.raises(UnknownTopic):
                call()
        with pytest.raises(UsageError):
            broker.message(message_id)
        assert names(broker) == ["u"] and [topic.name for topic in broker.status().topics] == ["u"]
        assert set(load_topics(StoreLayout.at(tmp_path))[0]) == {"u"}
        assert broker.group("g").queues == ()


@pytest.mark.parametrize("end", ["nobody", "coordinator", "tree", "stop", "twice"])
def test_it_does_not_come_back(tmp_path: Path, end: str) -> None:
    """Whoever dies after the deletion, and although the log still holds its messages. Made again, it is empty, and its numbers
    go on."""
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    begin(broker)
    broker.delete_topic("t")
    if end == "coordinator":
        kill(broker, "coordinator")
        broker.groups()
    for _ in range({"tree": 1, "stop": 1, "twice": 2}.get(end, 0)):
        broker.close() if end == "stop" else kill_tree(broker)
        broker = orbitmq.Broker(tmp_path, **SMALL)
    with broker:
        assert names(broker) == []
        with pytest.raises(UnknownTopic):
            broker.topic("t")
        assert broker.create_topic("t", 3).queues == 3
        assert [first == following for first, following in held(broker)] == [True] * 3
        with broker.producer() as producer:
            assert [producer.send("t", b"new", queue=queue).offset for queue in range(3)] == [EACH, EACH, 0]
        assert sorted(everything(broker, "t"))[0][0] == b"new" and len(everything(broker, "t")) == 3
        with broker.consumer("g", ["t"]) as consumer:
            assert read(consumer, 3) == [b"new"] * 3
            consumer.commit()
        kill_tree(broker)
    with small_broker(tmp_path) as broker:
        assert held(broker) == [(EACH, EACH + 1), (EACH, EACH + 1), (0, 1)]
        assert [body for body, *_ in everything(broker, "t")] == [b"new"] * 3
        assert broker.group("g").lag_messages == 0


def test_a_new_topic_under_an_old_name(tmp_path: Path) -> None:
    """It has the settings of a new topic, and so has its file."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 6, retention_hours=1, durability="flushed")
        broker.set_permissions("t", read=True, write=False)
        broker.delete_topic("t")
        made = broker.create_topic("t", 2)
        assert (made.queues, made.perm, made.retention_hours, made.durability) == (2, 6, None, "appended")
        assert broker.topics() == [made] and len(broker.topic("t").queues) == 2
        broker.delete_topic("t")
        with pytest.raises(Full, match="room for"):
            broker.create_topic("t", 200)
        assert broker.topics() == []
    with small_broker(tmp_path) as broker:
        assert broker.create_topic("t", 200).queues == 200


def sound(folder: Path) -> bool:
    found: list[str] = []
    layout = StoreLayout.at(folder)
    verify(layout, layout.settings(), lambda finding: found.append(str(finding)))
    assert found == []
    return True


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_its_files_go(tmp_path: Path, placement: str) -> None:
    """While the broker runs, and under a reader that has them mapped. Made again, the topic has new ones; its numbers go on."""
    queues = tmp_path / "consumequeue"
    with small_broker(tmp_path, placement=placement) as broker:
        fill(broker)
        broker.create_topic("u", 1)
        reader = broker.consumer(None, ["t"])
        message = reader.poll(WATCHDOG_S)
        broker.delete_topic("t")
        until(lambda: not (queues / "t").exists(), "reput to remove the files")
        assert names(broker) == ["u"] and message is not None and message.offset == 0
        with pytest.raises(UnknownTopic):
            for _ in range(2 * EACH + 1):
                reader.poll(WATCHDOG_S)
        reader.close()
        broker.create_topic("t", 2)
        with broker.producer() as producer:
            assert producer.send("t", b"new", queue=0).offset == EACH
        assert [body for body, *_ in everything(broker, "t")] == [b"new"]
        kill_tree(broker)
    with small_broker(tmp_path) as broker:
        assert held(broker) == [(EACH, EACH + 1), (EACH, EACH)]
        broker.delete_topic("t")
        until(lambda: not (queues / "t").exists(), "reput to remove the files")
    assert sound(tmp_path)


def handled(broker: orbitmq.Client) -> int:
    return sum(each.counters["messages"] for each in actors(broker).values() if each.name.startswith("handler"))


@pytest.mark.parametrize("late", ["writer", "reput"])
def test_files_that_are_made_late_go_too(tmp_path: Path, late: str) -> None:
    """Messages that were on their way when the topic was deleted are stored, or indexed, afterwards. Their numbers do not come
    again, also if a start finds neither the log nor the queues that had them."""
    queues = tmp_path / "consumequeue"
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        os.kill(actors(broker)[late].pid, signal.SIGSTOP)
        try:
            pendings = [producer.send_async("t", b"late", queue=0) for _ in range(EACH)]
            if late == "reput":
                assert pendings[-1].result(WATCHDOG_S).offset == EACH - 1
            until(lambda: handled(broker) == EACH, "a handler")
            broker.delete_topic("t")
        finally:
            os.kill(actors(broker)[late].pid, signal.SIGCONT)
        assert pendings[-1].result(WATCHDOG_S).offset == EACH - 1
        indexed(broker)
        until(lambda: purged.load(StoreLayout.at(tmp_path)).ends == {"t": {0: EACH}}, "the coordinator")
        until(lambda: not (queues / "t").exists(), "reput to remove the files")
        broker.create_topic("t", 1)
        assert held(broker) == [(EACH, EACH)]
    assert sound(tmp_path)


@pytest.mark.parametrize("actor", ["coordinator", "reput"])
def test_files_go_although_somebody_dies(tmp_path: Path, actor: str) -> None:
    """Before they have gone."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.delete_topic("t")
        kill(broker, actor)
        until(lambda: not (tmp_path / "consumequeue" / "t").exists(), "reput to remove the files")


def test_a_delayed_message_of_a_deleted_topic(tmp_path: Path) -> None:
    """It comes to nobody, and those behind it come."""
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        with stopped(broker, "scheduler"):  # or the message may be there before its topic is deleted
            for topic in ("t", "u"):
                broker.create_topic(topic, 1)
                producer.send(topic, b"delayed", delay_level=1)
            broker.delete_topic("t")
        with broker.consumer(None, ["u"]) as consumer:
            assert read(consumer, 1) == [b"delayed"]
        indexed(broker)
        broker.create_topic("t", 1)
        assert held(broker) == [(0, 0)]


def test_again_and_again(tmp_path: Path) -> None:
    """In one life, with messages that reput may not have passed when the topic is made again."""
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        for number in range(20):
            broker.create_topic("t", 1)
            receipts = producer.send_batch("t", [b"%d" % number] * 50, queue=0)
            assert receipts[0].offset == number * 50
            if number % 3 == 0:
                with broker.consumer(None, ["t"]) as consumer:
                    assert set(read(consumer, 50)) == {b"%d" % number}
            broker.delete_topic("t")
        assert names(broker) == []


@pytest.mark.parametrize("end", ["coordinator", "tree"])
def test_a_deletion_that_was_cut_short(tmp_path: Path, end: str) -> None:
    """The file says it, and topics.json does not yet: the successor, or the next start, finishes it."""
    layout = StoreLayout.at(tmp_path)
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    purged.store(layout, purged.Purged(deleted={"t": load_topics(layout)[1].counter}, ends={"t": {0: EACH, 1: EACH}}))
    if end == "coordinator":
        kill(broker, "coordinator")
        broker.groups()
    else:
        kill_tree(broker)
        broker = orbitmq.Broker(tmp_path, **SMALL)
    with broker:
        assert names(broker) == [] and load_topics(layout)[0] == {}


def test_another_program_makes_it_again(tmp_path: Path) -> None:
    """As RocketMQ would: in topics.json, with a higher counter. What it made is there."""
    layout = StoreLayout.at(tmp_path)
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.create_topic("u", 1)
        broker.delete_topic("t")
        broker.delete_topic("u")
    topics, version = load_topics(layout)
    store_topics(layout, {**topics, "t": TopicConfig("t", read_queues=2, write_queues=2)}, version.next())
    for number in range(2):
        with small_broker(tmp_path) as broker:
            assert names(broker) == ["t"] and held(broker) == [(0, EACH + number), (0, EACH)]
            with broker.producer() as producer:
                producer.send("t", b"x", queue=0)
            until(lambda number=number: held(broker)[0][1] == EACH + number + 1, "reput")  # type: ignore[misc]
            kill_tree(broker)


def test_queues_that_are_made_anew(tmp_path: Path) -> None:
    """From the log, which holds the messages of both lives of the topic."""
    import shutil

    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    broker.delete_topic("t")
    broker.create_topic("t", 2)
    with broker.producer() as producer:
        producer.send("t", b"new", queue=0)
    until(lambda: held(broker)[0] == (EACH, EACH + 1), "reput")
    kill_tree(broker)
    shutil.rmtree(tmp_path / "consumequeue")
    with small_broker(tmp_path) as broker:
        assert held(broker) == [(EACH, EACH + 1), (EACH, EACH)]
        assert [body for body, *_ in everything(broker, "t")] == [b"new"]


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.create_topic("u", 1)
        broker.delete_topic("u")
    with small_broker(tmp_path, read_only=True) as broker:
        assert names(broker) == ["t"]
        with pytest.raises(NoPermission, match="read-only"):
            broker.delete_topic("t")


def test_reput_stands_when_a_topic_is_made_again(tmp_path: Path) -> None:
    """Goal: as long as reput has not passed the old messages, the topic does not exist, and a coordinator that dies meanwhile
    has a successor."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        reput = actors(broker)["reput"].pid
        os.kill(reput, signal.SIGSTOP)
        try:
            with broker.producer() as producer:
                producer.send_batch("t", [b"old"] * 5)
            broker.delete_topic("t")
            with pytest.raises(Full):
                broker.create_topic("t", 1)
            before = kill(broker, "coordinator").epoch
            broker.create_topic("u", 1)
            assert names(broker) == ["u"] and actors(broker)["coordinator"].epoch == before + 1
        finally:
            os.kill(reput, signal.SIGCONT)
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            assert producer.send("t", b"new").offset == 5
        assert [body for body, *_ in everything(broker, "t")] == [b"new"]


def test_a_topic_that_could_not_be_made_again(tmp_path: Path) -> None:
    """Goal: if topics.json cannot be written, the topic is still deleted, as the caller is told: for this broker and the next,
    which finds its messages in the log. What comes to it meanwhile is hidden when it can be made. Method: a folder stands where
    the file is written."""
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    broker.delete_topic("t")
    (tmp_path / "config" / "topics.json.tmp").mkdir()
    with pytest.raises(OrbitError):
        broker.create_topic("t", 2)
    (tmp_path / "config" / "topics.json.tmp").rmdir()
    for _ in range(2):
        assert names(broker) == []
        kill_tree(broker)
        broker = orbitmq.Broker(tmp_path, **SMALL)
    with broker:
        assert names(broker) == []
        broker.create_topic("t", 2)
        assert held(broker) == [(EACH, EACH)] * 2
        kill_tree(broker)
    with small_broker(tmp_path) as broker:
        assert names(broker) == ["t"] and held(broker) == [(EACH, EACH)] * 2


@pytest.mark.parametrize("end", ["coordinator", "tree"])
@pytest.mark.parametrize("named", [False, True])
def test_making_it_again_that_was_cut_short(tmp_path: Path, named: bool, end: str) -> None:
    """orbitmq/purged says that the topic is made again. It is, if topics.json names it: the successor, or the next start,
    finishes it, and nothing of the old one is in it. Otherwise it is still deleted."""
    layout = StoreLayout.at(tmp_path)
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    broker.delete_topic("t")
    numbers = {"t": {0: EACH, 1: EACH}}
    purged.store(layout, purged.Purged(floors=numbers, deleted={"t": purged.AGAIN}, ends=numbers))
    if named:
        store_topics(layout, {"t": TopicConfig("t", read_queues=2, write_queues=2)}, load_topics(layout)[1].next())
    if end == "coordinator":
        kill(broker, "coordinator")
        broker.groups()
    else:
        kill_tree(broker)
        broker = orbitmq.Broker(tmp_path, **SMALL)
    with broker:
        assert names(broker) == (["t"] if named else []) and ("t" in purged.load(layout).deleted) is not named
        assert broker.create_topic("t", 2).queues == 2 and purged.load(layout).deleted == {}
        assert held(broker) == [(EACH, EACH)] * 2
        with broker.producer() as producer:
            assert producer.send("t", b"new", queue=0).offset == EACH
        assert [body for body, *_ in everything(broker, "t")] == [b"new"]


def test_others_are_answered_while_a_topic_waits(tmp_path: Path) -> None:
    """Goal: whoever makes a topic again waits for reput, and nobody else does. Method: reput stands; the coordinator's answer
    to the bare question comes at once, although the call of another thread waits."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        reput = actors(broker)["reput"].pid
        os.kill(reput, signal.SIGSTOP)
        try:
            with broker.producer() as producer:
                producer.send_batch("t", [b"old"] * 5)
            broker.delete_topic("t")
            before = (tmp_path / "orbitmq" / "purged").read_bytes()
            with orbitmq.connect(broker.name, timeout=WATCHDOG_S) as other, ThreadPoolExecutor(1) as pool:
                making = pool.submit(other.create_topic, "t", 1)
                with pytest.raises(Full, match="reput has not passed") as caught:
                    broker.connection.ask("create_topic", name="t", queues=1)
                assert caught.value.limit == "reput" and (tmp_path / "orbitmq" / "purged").read_bytes() == before
                assert broker.create_topic("u", 1).queues == 1 and not making.done()
                os.kill(reput, signal.SIGCONT)
                assert making.result(WATCHDOG_S).queues == 1
        finally:
            os.kill(reput, signal.SIGCONT)
        assert held(broker) == [(5, 5)]
