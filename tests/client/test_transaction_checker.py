"""Goal: a transaction that nobody ends is ended as a process of its producer group says, whichever lives; and given up if none
can say (client/transaction/checker.py, client/transaction/due_checks.py, client/transaction/check_function.py,
client/aio/loop_check.py). What is open is listed with its checks (client/transaction/administration.py).

Method: a real broker with short times, and functions that note what they are asked."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.transaction.check_function import CheckAnswer
from orbitmq.client.transaction.due_checks import AT_ONCE, LOOK_S, LOOK_S_MIN, DueChecks
from orbitmq.client.transaction.open_transactions import OpenTransaction
from orbitmq.client.transaction.transaction import Half
from orbitmq.errors import GroupNameError, PropertyError, SettingError, TransactionSettled
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.halves import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, everything, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until

MOST = 3
SHORT: dict[str, Any] = {
    "transaction_timeout_s": 0.05, "transaction_check_interval_s": 0.05, "transaction_check_max": MOST,
    "offsets_interval_s": 0.1,
}  # fmt: skip
LONG: dict[str, Any] = {**SHORT, "transaction_check_interval_s": 3600}
Started = Callable[..., orbitmq.Broker]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts a broker with the topic "t" and these settings."""
    running: list[AbstractContextManager[orbitmq.Broker]] = []

    def start(settings: dict[str, Any], **more: Any) -> orbitmq.Broker:
        running.append(small_broker(tmp_path / "store", **{**settings, **more}))
        broker = running[-1].__enter__()
        broker.create_topic("t", 1)
        return broker

    yield start
    for each in running:
        each.__exit__(None, None, None)


class Asked:
    """A check function that answers by the body, and notes what it was asked."""

    def __init__(self, answer: CheckAnswer = None, **answers: Any) -> None:
        self.answer = answer
        self.answers = answers
        self.notes: list[tuple[str, int]] = []

    def __call__(self, transaction: OpenTransaction) -> CheckAnswer:
        body = transaction.body.decode()
        self.notes.append((body, transaction.checks))
        answer: CheckAnswer = self.answers.get(body, self.answer)
        if answer == "raise":  # type: ignore[comparison-overlap]
            raise ValueError("mine")
        return answer

    @property
    def bodies(self) -> list[str]:
        return [body for body, _ in self.notes]


def bodies(client: orbitmq.Client, topic: str = "t") -> list[str]:
    return sorted(body.decode() for body, *_ in everything(client, topic))


def all_ended(client: orbitmq.Client) -> None:
    until(lambda: client.status().positions.reput == client.status().positions.wrote, "the queues to be complete")
    until(lambda: client.open_transactions() == [], "all transactions to end")


def test_each_answer(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    broker = started(SHORT)
    check = Asked(a="commit", b="rollback", c="unknown", d=None, e="raise", f="yes")
    with broker.producer(group="shop", check=check) as producer:
        for body in "abcdef":
            producer.transaction("t", body, keys="k")
        all_ended(broker)
        until(lambda: caplog.text.count("gave up") == 4, "the checker to say what it gave up")
    assert bodies(broker) == ["a"] and bodies(broker, GIVEN_UP_TOPIC) == ["c", "d", "e", "f"]
    assert sorted(check.notes) == sorted([("a", 1), ("b", 1), *((body, n) for body in "cdef" for n in range(1, MOST + 1))])
    with broker.consumer(None, [GIVEN_UP_TOPIC], start="earliest") as consumer:
        given_up = consumer.poll(WATCHDOG_S)
        assert given_up is not None and given_up.keys == ["k"]
        assert {"REAL_TOPIC": "t", "PGROUP": "shop"}.items() <= given_up.properties.items()
    assert caplog.text.count("ValueError: mine") == caplog.text.count("returned 'yes', which is not") == MOST


def test_what_a_dead_producer_has_begun(started: Started) -> None:
    """By a producer of its group, and by none of another."""
    broker = started(SHORT)
    child = os.fork()
    if child == 0:
        with orbitmq.connect(broker.name) as client, client.producer(group="shop", check=Asked("rollback")) as producer:
            producer.transaction("t", b"kept", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "5"})
            producer.transaction("t", b"dropped", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "5"})
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    others, check = Asked("rollback"), Asked("rollback", kept="commit")
    with broker.producer(group="else", check=others) as other:
        other.transaction("t", b"not theirs")
        until(lambda: others.bodies == ["not theirs"], "the other group's")
        with broker.producer(group="shop", check=check):
            all_ended(broker)
    assert sorted(check.bodies) == ["dropped", "kept"] and others.bodies == ["not theirs"]
    assert bodies(broker) == ["kept"]


def test_a_process_that_only_checks(started: Started) -> None:
    broker = started(SHORT)
    check = Asked("commit")
    with broker.producer(group="shop") as producer, orbitmq.connect(broker.name) as client:
        with client.check_transactions("shop", check) as checker:
            assert (checker.group, checker.closed, checker.wait(0)) == ("shop", False, False)
            producer.transaction("t", b"1")
            all_ended(broker)
        assert checker.closed and checker.wait()
        second = client.check_transactions("shop", check)
    assert second.closed, "it ends with its client"
    assert check.notes == [("1", 1)] and bodies(broker) == ["1"]


def test_a_function_of_one_transaction(started: Started) -> None:
    """It is asked instead of the producer's; one alone is asked for nothing else."""
    broker = started(SHORT)
    usual, own, alone = Asked("rollback"), Asked("commit"), Asked("commit")
    with broker.producer(group="a") as first:
        left = first.transaction("t", b"nobody's")
        first.transaction("t", b"alone", check=alone)
        until(lambda: alone.bodies and len(broker.open_transactions()) == 1, "the one with a function to end")
        left.rollback()
    with broker.producer(group="b", check=usual) as second:
        second.transaction("t", b"own", check=own)
        second.transaction("t", b"usual")
        all_ended(broker)
    assert (alone.bodies, own.bodies, usual.bodies) == (["alone"], ["own"], ["usual"])
    assert bodies(broker) == ["alone", "own"]


def test_what_has_ended_is_not_asked_about(started: Started) -> None:
    broker = started(LONG, transaction_timeout_s=3600)
    check, own = Asked("rollback"), Asked("rollback")
    with broker.producer(group="shop") as producer:
        for number in range(50):
            with producer.transaction("t", b"%d" % number, check=own if number == 0 else None):
                pass
        with broker.check_transactions("shop", check):
            producer.transaction("t", b"last", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "0"})
            all_ended(broker)
        assert producer._checker is not None and not producer._checker._own
    assert check.bodies == ["last"] and own.bodies == [] and len(bodies(broker)) == 50


def test_immunity(started: Started) -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS instead of the usual time; a value that is no number, of a client that does not look, does
    not count."""
    broker = started(LONG, transaction_timeout_s=3600)
    check = Asked("commit")
    with broker.producer(group="shop", check=check) as producer:
        for body, value in (("long", "7200"), ("none", "x"), ("usual", "-1"), ("at once", "0")):
            half = Half("shop", None)
            properties = {**half.properties, "CHECK_IMMUNITY_TIME_IN_SECONDS": value}
            producer.send("t", body, properties=properties, **half.own)
        until(lambda: check.bodies and len(broker.open_transactions()) == 3, "the one without immunity to end")
    assert check.bodies == ["at once"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", " 7", ""])
def test_an_immunity_that_is_no_number_is_refused(started: Started, value: str) -> None:
    with started(LONG).producer(group="shop") as producer, pytest.raises(PropertyError) as caught:
        producer.transaction("t", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": value})
    assert (caught.value.name, caught.value.value) == ("CHECK_IMMUNITY_TIME_IN_SECONDS", value)


def test_a_block_that_was_committed_meanwhile(started: Started) -> None:
    """Ends as if it had committed; one that was ended otherwise says so."""
    broker = started(SHORT)
    with broker.producer(group="shop", check=Asked(a="commit", b="rollback", c="rollback")) as producer:
        with producer.transaction("t", b"a") as first:
            all_ended(broker)
        assert (first.state, first.receipt) == ("committed", None)
        with pytest.raises(TransactionSettled), producer.transaction("t", b"b"):
            all_ended(broker)
        with pytest.raises(ValueError, match="mine") as raised, producer.transaction("t", b"c") as third:
            all_ended(broker)
            raise ValueError("mine")
        assert third.state == "rolled back" and not hasattr(raised.value, "__notes__")


def test_each_is_given_to_one(started: Started) -> None:
    """Of several that could check it. The interval is longer than the test."""
    broker = started(LONG)
    checks = [Asked("commit") for _ in range(3)]
    clients = [orbitmq.connect(broker.name) for _ in checks]
    with broker.producer(group="shop") as producer:
        for number in range(200):
            producer.transaction("t", b"%d" % number)
        for client, check in zip(clients, checks, strict=True):
            client.check_transactions("shop", check)
        all_ended(broker)
    for client in clients:
        client.close()
    asked = Counter(body for check in checks for body in check.bodies)
    assert asked == Counter(str(number) for number in range(200))
    assert bodies(broker) == sorted(asked)


def test_each_half_is_looked_at_once(started: Started) -> None:
    """However often one looks."""
    broker = started(LONG, transaction_timeout_s=3600)
    seen: list[bytes] = []

    def wanted(transaction: OpenTransaction) -> bool:
        seen.append(transaction.body)
        return True

    due = DueChecks(broker.connection, wanted, lambda: False)
    with broker.producer() as producer:
        for number in range(20):
            producer.transaction("t", b"%d" % number)
            until(lambda number=number: due.take() == [] and len(seen) > number, "it to be seen")
    assert seen == [b"%d" % number for number in range(20)] and due.take() == []
    assert LOOK_S_MIN <= due.pause_s <= LOOK_S


def test_what_else_is_due_does_not_wait(started: Started) -> None:
    """When more are due than are given at once, the others follow without a pause."""
    broker = started(LONG, transaction_timeout_s=0)
    with broker.producer() as producer:
        for number in range(2 * AT_ONCE + 3):
            producer.transaction("t", b"%d" % number)
        until(lambda: len(broker.open_transactions()) == 2 * AT_ONCE + 3, "all to be indexed")
    due = DueChecks(broker.connection, lambda transaction: True, lambda: False)
    found = []
    for _ in range(3):
        found.append((len(due.take()), due.pause_s > 0))
    assert found == [(AT_ONCE, False), (AT_ONCE, False), (3, True)]


def test_how_often_it_was_asked_is_listed(started: Started) -> None:
    broker = started(LONG, transaction_timeout_s=1000)
    check = Asked()
    with broker.producer(group="shop", check=check) as producer:
        producer.transaction("t", b"asked", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "0"})
        until(lambda: check.bodies == ["asked"], "the check")
        producer.transaction("t", b"not yet")
        until(lambda: len(broker.open_transactions()) == 2, "the second one to be indexed")
        asked, later = broker.open_transactions()
        assert (asked.body, asked.checks, later.body, later.checks) == (b"asked", 1, b"not yet", 0)
        assert later.begun_ms + 999_000 <= later.check_due_ms <= later.begun_ms + 1001_000
        assert asked.check_due_ms >= asked.begun_ms + 3_599_000
        kill(broker, "coordinator")
        assert [each.checks for each in broker.open_transactions()] == [1, 0]
        for each in (asked, later):
            broker.rollback_transaction(each)


def test_what_rocketmq_has_checked(tmp_path: Path) -> None:
    """The number of checks goes on where RocketMQ was, which makes the topic of what is given up only when it needs it."""
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    topics = {name: TopicConfig(name, 1, 1, perm=6) for name in ("t", HALF_TOPIC, OP_TOPIC)}
    config.store_topics(layout, topics, DataVersion())
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    for body, checks in ((b"2", "2"), (b"0", None), (b"x", "x"), (b"9", "9")):
        names = {"TRAN_MSG": "true", "PGROUP": "shop", "REAL_TOPIC": "t", "REAL_QID": "0", "UNIQ_KEY": f"A{body!r}"}
        names |= {} if checks is None else {"TRANSACTION_CHECK_TIMES": checks}
        log.append(HALF_TOPIC, body=body, properties=names, sealed=False, store_ms=time.time_ns() // 1_000_000)
    check = Asked(x="commit")
    with small_broker(tmp_path, **SHORT) as broker:
        assert [each.checks for each in broker.open_transactions()] == [2, 0, 0, 9]
        with broker.check_transactions("shop", check):
            all_ended(broker)
        assert Counter(check.notes) == Counter([("2", 3), ("0", 1), ("0", 2), ("0", 3), ("x", 1)])
        assert bodies(broker) == ["x"] and bodies(broker, GIVEN_UP_TOPIC) == ["0", "2", "9"]


def test_sends_do_not_hold_up_a_check(started: Started) -> None:
    """Method: as in test_an_end_does_not_wait_for_room."""
    broker = started(SHORT)
    with broker.producer(window=8, group="shop", check=Asked("commit")) as producer:
        done = threading.Event()

        def fill() -> None:
            while not done.is_set():
                producer.send_oneway("t", b"full")

        with stopped(broker, "writer"):
            filling = [threading.Thread(target=fill) for _ in range(2)]
            for each in filling:
                each.start()
            until(lambda: producer.in_flight == 8, "a full window")
        with broker.producer(group="shop") as other:
            other.transaction("t", b"x")
        until(lambda: "x" in bodies(broker), "it to be committed")
        done.set()
        for each in filling:
            each.join()


def test_deaths_of_the_coordinator_do_not_add_checks(started: Started) -> None:
    """Each half is asked about MOST times at most, and then given up, whoever dies."""
    broker = started(SHORT)
    check = Asked()
    with broker.producer(group="shop", check=check) as producer:
        for number in range(10):
            producer.transaction("t", b"%d" % number)
            kill(broker, ("coordinator", "writer", "handler 0", "reput")[number % 4])
        all_ended(broker)
    assert max(Counter(check.bodies).values()) <= MOST and bodies(broker) == []
    assert bodies(broker, GIVEN_UP_TOPIC) == sorted(str(number) for number in range(10))


def test_the_next_broker_goes_on(tmp_path: Path) -> None:
    """A checker outlives its broker; the number of checks does, too."""
    check, told = Asked(), threading.Event()

    def first(transaction: OpenTransaction) -> CheckAnswer:
        check(transaction)
        told.set()
        return None

    with small_broker(tmp_path, name="outlived", **LONG) as broker:
        broker.create_topic("t", 1)
        client = orbitmq.connect("outlived")
        client.check_transactions("shop", first)
        with broker.producer(group="shop") as producer:
            producer.transaction("t", b"1")
        assert told.wait(WATCHDOG_S)
    with small_broker(tmp_path, name="outlived", **SHORT) as broker:
        all_ended(broker)
        assert check.notes == [("1", number) for number in range(1, MOST + 1)]
    client.close()


def test_a_damaged_half_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check = Asked("commit")
    with small_broker(tmp_path, **SHORT) as broker, broker.producer(group="shop") as producer:
        broker.create_topic("t", 1)
        damaged = producer.transaction("t", b"damaged").half
        until(broker.open_transactions, "it to be indexed")
        log = min((tmp_path / "commitlog").iterdir())
        with log.open("r+b") as file:
            file.seek(damaged.physical_offset + 100)
            file.write(b"\xff\xff")
        producer.transaction("t", b"whole")
        with broker.check_transactions("shop", check):
            until(lambda: check.bodies == ["whole"], "the whole one")
            until(lambda: bodies(broker) == ["whole"], "it to be committed")
    assert "cannot check a transaction" in caplog.text


def test_a_forked_child_checks_too(started: Started) -> None:
    """From its first transaction on."""
    broker = started(SHORT)
    with broker.producer(group="shop", check=Asked(None, child="commit")) as producer:
        child = os.fork()
        if child == 0:
            try:
                producer.transaction("t", b"child", check=Asked("commit"))
                all_ended(broker)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert bodies(broker) == ["child"]


def test_its_thread_ends(started: Started) -> None:
    """With its producer, also one that was forgotten."""
    broker, others = started(SHORT), threading.enumerate()

    def threads() -> int:
        return sum(each.name == "orbitmq-checks" and each not in others for each in threading.enumerate())

    with broker.producer(group="shop", check=Asked()):
        assert threads() == 1
    until(lambda: threads() == 0)
    forgotten = broker.producer(group="shop", check=Asked())
    with pytest.warns(ResourceWarning):
        del forgotten
        gc.collect()
    until(lambda: threads() == 0, "the thread to end")


def test_functions_that_cannot_be_called(started: Started) -> None:
    broker = started(SHORT)

    async def later(transaction: OpenTransaction) -> CheckAnswer:
        return None

    for wrong in (5, "commit", later):
        check: Any = wrong
        with pytest.raises(SettingError) as raised:
            broker.producer(group="shop", check=check)
        assert raised.value.setting == "check"
        with pytest.raises(SettingError):
            broker.check_transactions("shop", check)
        with broker.producer() as producer, pytest.raises(SettingError):
            producer.transaction("t", b"x", check=check)
    with pytest.raises(GroupNameError):
        broker.check_transactions("a b", Asked())
    assert broker.open_transactions() == []


def test_asyncio(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    broker = started(SHORT)
    asked: list[str] = []

    async def later(transaction: OpenTransaction) -> CheckAnswer:
        await asyncio.sleep(0)
        asked.append(transaction.body.decode())
        if transaction.body == b"time":
            raise TimeoutError
        return "commit"

    async def run() -> None:
        loop_thread = threading.get_ident()

        def plain(transaction: OpenTransaction) -> CheckAnswer:
            assert threading.get_ident() == loop_thread
            return "commit"

        async with await orbitmq.aio.connect(broker.name) as client:
            wrong: Any = 5
            with pytest.raises(SettingError):
                await client.producer(check=wrong)
            async with await client.producer(group="shop", check=later) as producer:
                for body in ("a", "time"):
                    await producer.transaction("t", body)
                await producer.transaction("t", "own", check=plain)
                await asyncio.to_thread(all_ended, broker)
            async with await client.producer(group="else") as other:
                async with await client.check_transactions("else", later) as checker:
                    assert (checker.group, checker.closed) == ("else", False)
                    await other.transaction("t", "b")
                    await asyncio.to_thread(all_ended, broker)
                assert checker.closed

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(run(), WATCHDOG_S))
    assert sorted(asked) == ["a", "b", *["time"] * MOST] and bodies(broker) == ["a", "b", "own"]
    assert caplog.text.count("the function raised") == MOST


def test_a_loop_that_has_ended(started: Started) -> None:
    """Its functions answer nothing, and nobody waits for them."""
    from orbitmq.client.aio.loop_check import called_in

    broker = started(SHORT)

    async def run() -> Any:
        return called_in(asyncio.get_running_loop(), Asked("commit"))

    ask = asyncio.run(run())
    assert ask(None) is None
    with broker.producer(group="shop", check=ask) as producer:
        producer.transaction("t", b"x")
        all_ended(broker)
    assert bodies(broker, GIVEN_UP_TOPIC) == ["x"]
