"""Goal: RocketMQ's own Java client, unchanged, works at an address of IPv6: it reads the addresses in records, and dials the
one in a message's id.

Method: the judge's clients visit a broker that listens at ::1 alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

import orbitmq
from tests.interop.judge import Judge
from tests.interop.letters import Letter, _for_judge, of_orbitmq, of_rocketmq, random_letters, send_to_rocketmq
from tests.interop.ours import SMALL_FILES, broker_on, visiting
from tests.interop.served import assert_dense, assert_same, pulled, stored
from tests.waiting import until

LOOPBACK = ip_address("::1")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name="judged", listen="[::1]:0") as broker:
        broker.create_topic("orders", queues=4)
        yield broker


def test_sends_pulls_and_looks_up(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Single messages and batches; ids of 56 digits lead to them, locally and by the admin tool, which dials what they name."""
    rng = random.Random(8)
    sent: list[Letter] = []
    send_to_rocketmq(rng, visitor, random_letters(rng, "orders", 200, 4, empty=False, prefix="six"), sent)
    assert_dense(sent)
    assert_same(stored(broker, "orders"), sent)
    assert_same(pulled(visitor, "orders"), sent)
    for shown in visitor.ask("pull", topic="orders"):
        assert ip_address(shown["born_address"]) == ip_address(shown["store_address"]) == LOOPBACK
        assert shown["sys_flag"] & 0x30 == 0x30
    assert {len(letter.id) for letter in sent} == {56}
    for letter in sent:
        assert of_orbitmq(broker.message(letter.id)) == letter
    for letter in (sent[0], sent[-1]):
        told = visitor.mqadmin("queryMsgById", "-n", broker.status().listens, "-i", letter.id)
        assert f"Queue Offset:        {letter.offset}" in told and f"Queue ID:            {letter.queue}" in told


def test_transactions_and_delays(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java finds the half message of a transaction by the offset in its id. What waits keeps its addresses."""
    halves = [Letter("orders", b"half %d" % number) for number in range(4)]
    for number, how in enumerate(("commit", "rollback")):
        visitor.ask("transact", topic="orders", letters=list(map(_for_judge, halves[number::2])), group="shop", end=how)
    visitor.ask("send", topic="orders", batches=[[{**_for_judge(Letter("orders", b"later", queue=0)), "delay": 1}]])
    wanted = {b"half 0", b"half 2", b"later"}
    until(lambda: {letter.body for letter in stored(broker, "orders")} == wanted, "what was committed, and what was delayed")
    assert {letter.body for letter in pulled(visitor, "orders")} == wanted
    for shown in visitor.ask("pull", topic="orders"):
        assert ip_address(shown["born_address"]) == ip_address(shown["store_address"]) == LOOPBACK
    assert broker.open_transactions() == []


def test_check_backs_and_retries(judge: Judge, tmp_path: Path) -> None:
    """The record that Java is asked about, and what it gives back: the retry names the first message by an id of 56 digits."""
    times = {"transaction_timeout_s": 0.1, "transaction_check_interval_s": 0.2, "transaction_check_max": 10_000}
    with broker_on(tmp_path / "store", SMALL_FILES, name="judged", listen="[::1]:0", **times) as broker:
        broker.create_topic("orders", queues=1)
        with visiting(judge, broker):
            judge.ask("transact", topic="orders", letters=[_for_judge(Letter("orders", b"asked"))], group="shop", end="open")
            assert set(judge.ask("check", topic="orders", group="shop", ends={"asked": ["commit"]})) == {"asked"}
            until(lambda: broker.open_transactions() == [], "the end, which comes one-way")
            (sent,) = stored(broker, "orders")
            assert (sent.body, len(sent.id)) == (b"asked", 56)
            came = judge.ask("consume", topic="orders", group="billing", count=2, failing={"asked": 1}, most=1)
            assert [of_rocketmq(each).body for each in came] == [b"asked"] * 2
            until(lambda: "billing" in broker.dead_letter_groups() and stored(broker, "%DLQ%billing"), "the dead letter")
            (letter,) = broker.dead_letters("billing").list()
            assert letter.first_id == sent.id
