"""Goal: a group's workers get the messages that they want, and the group passes over the others for good
(actors/work/filters.py, client/work/settings.py, native/actors/dispatcher/dispatcher_filter.c).

Method: sessions of workers on a real broker, a topic and a group for each test. Random histories with deaths are in
tests/actors/test_work_filter_model.py, and a death at each step in tests/crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.work.session import WorkSession
from orbitmq.native._core import lib
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from tests.client.work_takes import collect, lag, number
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, indexed, small_broker
from tests.waiting import WATCHDOG_S, until

ORDERS = [pytest.param({}, id="plain"), pytest.param({"key_ordered": True}, id="key_ordered")]


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


def send(broker: orbitmq.Client, topic: str, tags: str, queues: int = 1) -> None:
    """A message for each letter, which is its tag, with its number as body, and as property `n`. "-": without a tag."""
    broker.create_topic(topic, queues=queues)
    with broker.producer() as producer:
        for at, tag in enumerate(tags):
            how = {} if tag == "-" else {"tags": tag}
            producer.send(topic, b"%d" % at, keys=f"k{at % 3}", properties={"n": str(at)}, **how)
    indexed(broker)


def all_of(worker: WorkSession, count: int) -> list[int]:
    """Takes and acks so many; then there are no others."""
    found: list[int] = []
    while len(found) < count:
        some = collect(worker, 1)
        worker.ack(some)
        found += map(number, some)
    assert worker.settled(WATCHDOG_S) == [] and worker.take(10, 0.05) == []
    return sorted(found)


def left(broker: orbitmq.Client, group: str, count: int = 0) -> None:
    until(lambda: len(broker.group(group).workers) == count, "the worker to leave")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"tags": "a"}, [0, 3, 4, 8]),
        ({"tags": " c ||a"}, [0, 2, 3, 4, 8, 9]),
        ({"tags": "*"}, range(10)),
        ({"sql": "n BETWEEN 3 AND 5"}, [3, 4, 5]),
        ({"sql": "n > 3", "tags": "a"}, [4, 8]),
        ({"sql": "TAGS IS NULL"}, [5, 6]),
        ({"tags": "z"}, []),
        ({"sql": "price > 7"}, []),
    ],
)
def test_what_is_wanted(
    broker: orbitmq.Broker, name: str, order: dict[str, Any], wanted: dict[str, Any], numbers: list[int]
) -> None:
    send(broker, name, "abcaa--bac", queues=3)
    with broker.work_session(name, [name], **order, **wanted) as worker:
        assert all_of(worker, len(numbers)) == list(numbers)
        until(lambda: lag(broker, name) == 0, "the group to pass over the others")
    left(broker, name)
    with broker.work_session(name, [name], **order) as worker:
        assert worker.take(10, 0.05) == []  # they do not come back


@pytest.mark.parametrize("order", ORDERS)
def test_more_unwanted_ones_than_the_window_has(broker: orbitmq.Broker, name: str, order: dict[str, Any]) -> None:
    broker.create_topic(name, queues=1)
    many = lib.WORK_WINDOW + 5000
    with broker.producer() as producer:
        for begin in range(0, many, 1000):
            producer.send_batch(name, [b"-1"] * min(1000, many - begin), tags="BB")
        producer.send(name, b"1", tags="Aa")  # of the same hash
    with broker.work_session(name, [name], tags="Aa", **order) as worker:
        assert all_of(worker, 1) == [1]
        until(lambda: lag(broker, name) == 0, "the end of the lag")


def test_a_worker_with_full_hands_judges_nothing(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the group is not ahead of its work."""
    send(broker, name, "aab")
    with broker.work_session(name, [name], tags="a", in_hand=1) as worker:
        (first,) = collect(worker, 1)
        assert number(first) == 0
        worker.ack([first])
        assert worker.settled(WATCHDOG_S) == []
        assert number(collect(worker, 1)[0]) == 1
        assert lag(broker, name) == 2


def test_what_comes_again_is_not_judged_again(broker: orbitmq.Broker, name: str) -> None:
    """Goal: others may want other messages once the workers have left; what those have begun is finished all the same."""
    send(broker, name, "abab")
    with broker.work_session(name, [name], tags="a", in_hand=1) as worker:
        assert number(collect(worker, 1)[0]) == 0
    left(broker, name)
    with broker.work_session(name, [name], tags="b") as worker:
        assert all_of(worker, 3) == [0, 1, 3]


@pytest.mark.parametrize("order", ORDERS)
def test_a_group_wants_the_same_of_a_topic(broker: orbitmq.Broker, name: str, order: dict[str, Any]) -> None:
    """Goal: who gets a message does not decide whether it is wanted. Topics may differ, and what a topic's workers want may
    change when they have left, also while the group has others."""
    other = f"{name}-other"
    send(broker, name, "aaabbb")
    send(broker, other, "ab")
    with broker.work_session(name, [other], **order) as stays:
        worker = broker.work_session(name, [name], tags="a || c", in_hand=1, **order)
        assert number(collect(worker, 1)[0]) == 0
        broker.work_session(name, [name], tags="c||a", **order).close()
        left(broker, name, 2)
        for wanted in ({}, {"tags": "a"}, {"tags": "a || c", "sql": "n > 0"}):
            with pytest.raises(errors.GroupInUse, match=r"for topic .*: its 1 worker, .* came with tags 'a \|\| c'") as caught:
                broker.work_session(name, [name], **wanted, **order)
            assert caught.value.members == 1
        assert {each.tags for each in broker.group(name).workers} == {(), ("a", "c")}
        worker.close()
        left(broker, name, 1)
        with broker.producer() as producer:
            producer.send(name, b"10", keys="k9", tags="a")
            producer.send(name, b"11", keys="k9", tags="b", properties={"last": "yes"})
        with broker.work_session(name, [name], sql="last IS NOT NULL", **order) as worker:
            assert {each.sql for each in broker.group(name).workers} == {None, "last IS NOT NULL"}
            assert all_of(worker, 2) == [0, 11]  # the first one was handed out before
        assert all_of(stays, 2) == [0, 1]


def test_topics_of_one_worker(broker: orbitmq.Broker, name: str) -> None:
    second = f"{name}-second"
    send(broker, name, "ab")
    send(broker, second, "ab-")
    came: list[tuple[str, int]] = []
    with broker.worker(name, [name, second], tags="b") as worker:

        def passed_over() -> bool:
            assert worker.take(1, 0) == []
            return lag(broker, name) == 0

        while len(came) < 2:
            (job,) = worker.take(1, WATCHDOG_S)
            with job:
                came.append((job.topic, number(job)))
        assert sorted(came) == [(name, 1), (second, 1)]
        until(passed_over, "the group to pass over the others")


def test_a_topic_that_grows(broker: orbitmq.Broker, name: str) -> None:
    send(broker, name, "ab")
    with broker.work_session(name, [name], tags="b") as worker:
        assert all_of(worker, 1) == [1]
        broker.grow_topic(name, 2)
        with broker.producer() as producer:
            producer.send(name, b"2", queue=1, tags="a")
            producer.send(name, b"3", queue=1, tags="b")
        assert all_of(worker, 1) == [3]


@pytest.mark.parametrize("order", ORDERS)
def test_retries_are_not_judged(tmp_path: Path, order: dict[str, Any]) -> None:
    """Goal: what failed comes again, whoever made its retry and with whatever properties. Method: a log with a retry in it."""
    layout = StoreLayout.at(tmp_path / "store")
    layout.make_folders()
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    log.append("T", body=b"0")
    log.append("%RETRY%G", body=b"1", reconsume_times=1)
    config.store_topics(layout, {name: TopicConfig(name, 1, 1, perm=6) for name in ("T", "%RETRY%G")}, DataVersion())
    with small_broker(tmp_path / "store") as broker, broker.work_session("G", ["T"], tags="a", **order) as worker:
        assert all_of(worker, 1) == [1]


@pytest.mark.parametrize("order", ORDERS)
def test_a_message_that_cannot_be_read(tmp_path: Path, order: dict[str, Any]) -> None:
    """Goal: nothing is passed over that may be wanted: its worker says that it is damaged."""
    with small_broker(tmp_path / "store") as broker:
        send(broker, "T", "aab")
        with broker.consumer(None, ["T"]) as consumer:
            place = consumer.poll_batch(1, WATCHDOG_S)[0].physical_offset
        path = StoreLayout.at(tmp_path / "store").commitlog / f"{0:020d}"
        with path.open("r+b") as file:
            file.seek(place + 4)  # its magic code
            file.write(bytes(4))
        with broker.work_session("G", ["T"], sql="TAGS = 'a'", **order) as worker:
            with pytest.raises(errors.CorruptRecord):
                worker.take(1, WATCHDOG_S)
            assert number(collect(worker, 1)[0]) == 1


@pytest.mark.parametrize("make", ["worker", "work_session"])
def test_filters_that_are_none(broker: orbitmq.Broker, name: str, make: str) -> None:
    send(broker, name, "a")
    begin = getattr(broker, make)
    with pytest.raises(errors.FilterError, match="column 7") as caught:
        begin(name, [name], sql="n > 3 5")
    assert caught.value.column == 7 and caught.value.setting == "sql"
    with pytest.raises(errors.FilterError, match="it is not text"):
        begin(name, [name], sql=5)
    with pytest.raises(errors.SettingError, match="a tag is empty"):
        begin(name, [name], tags="a || ")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"tags": "a"}, "it is no list of tags"),
        ({"tags": [1]}, "it is no list of tags"),
        ({"tags": [""]}, "it is no list of tags"),
        ({"tags": ["x" * 70_000]}, "at most 4,096 tags of 65,536 bytes together"),
        ({"tags": [str(n) for n in range(5000)]}, "at most 4,096 tags of 65,536 bytes together"),
        ({"sql": 5}, "it is no text"),
        ({"sql": "n >"}, "column 4: the text ends, expected"),
        ({"sql": "n = 1 " + "OR n = 1 " * 10_000}, "column"),
    ],
    ids=range(8),
)
def test_a_client_that_checks_nothing(broker: orbitmq.Broker, name: str, said: dict[str, Any], why: str) -> None:
    send(broker, name, "a")
    with broker.work_session(f"{name}-mine", [name]) as worker:
        handle = worker._handle
        assert handle is not None
        fields = {"slot": handle.slot, "epoch": handle.epoch, "generation": handle.generation, "topics": [name]}
        with pytest.raises(errors.SettingError, match=why):
            broker.connection.ask("join_work", **fields, group=name, in_hand=10, visibility_ms=30_000, **said)
        assert number(collect(worker, 1)[0]) == 0
