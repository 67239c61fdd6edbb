"""Goal: a child that is forked within the block of a transaction or of an atomic batch ends nothing of its parent's, however it
leaves the block, and may begin its own (client/connection/born_in.py).

Method: a real broker; the child leaves its parent's block in each way, and its exit code says what that raised."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import UsageError
from tests.trees import everything, small_broker
from tests.waiting import until

NOTHING, SAYS_SO, LEFT, OTHER = range(4)  # what leaving the block raised in the child


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as running:
        running.create_topic("t", 1)
        yield running


def bodies(client: orbitmq.Client) -> list[bytes]:
    end = client.status().positions.wrote
    until(lambda: client.status().positions.reput >= end, "the queues to be complete")
    return [body for body, *_ in everything(client, "t")]


def in_child(work: Callable[[], None]) -> int:
    """Forks; what the work raised in the child."""
    pid = os.fork()
    if pid == 0:
        code = OTHER
        try:
            work()
            code = NOTHING
        except UsageError as error:
            code = SAYS_SO if f"the process {os.getppid()}, which this one was forked from" in str(error) else OTHER
        except SystemExit:
            code = LEFT
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_ends_no_transaction(broker: orbitmq.Broker) -> None:
    with broker.producer(group="shop") as producer:
        with producer.transaction("t", b"parent") as tx:
            assert in_child(lambda: tx.__exit__(None, None, None)) == SAYS_SO
            assert in_child(lambda: tx.__exit__(SystemExit, SystemExit(), None)) == NOTHING
            assert in_child(lambda: (tx.commit(), None)[1]) == SAYS_SO
            assert in_child(tx.rollback) == SAYS_SO

            def exits() -> None:
                with tx:
                    sys.exit()

            assert in_child(exits) == LEFT
            until(lambda: [each.id for each in broker.open_transactions()] == [tx.id], "it to be open, and nothing else")
        assert tx.state == "committed"
        assert bodies(broker) == [b"parent"]


def test_a_child_has_transactions_of_its_own(broker: orbitmq.Broker) -> None:
    with broker.producer(group="shop") as producer, producer.transaction("t", b"parent"):

        def begins() -> None:
            with producer.transaction("t", b"child"):
                pass

        assert in_child(begins) == NOTHING
        assert bodies(broker) == [b"child"]
    assert bodies(broker) == [b"child", b"parent"]


def test_a_child_can_end_what_it_finds_open(broker: orbitmq.Broker) -> None:
    """As any other process."""
    with broker.producer(group="shop") as producer:
        tx = producer.transaction("t", b"parent")
        until(lambda: len(broker.open_transactions()) == 1, "it to be indexed")

        def ends() -> None:
            with orbitmq.connect(broker.name) as client:
                client.rollback_transaction(client.open_transactions("shop")[0])

        assert in_child(ends) == NOTHING
        with pytest.raises(orbitmq.errors.TransactionSettled):
            tx.commit()


def test_a_child_does_not_answer_for_its_parents_function(broker: orbitmq.Broker) -> None:
    """A function that belongs to one transaction answers in the process that began it."""
    with broker.producer(group="shop") as producer:
        tx = producer.transaction("t", b"parent", check=lambda open_one: None)
        (checker,) = (each for each in (producer._checker,) if each is not None)
        assert set(checker._own) == {tx.id}

        def begins() -> None:
            with producer.transaction("t", b"child", check=lambda open_one: None) as own:
                if set(checker._own) != {own.id}:
                    raise AssertionError

        assert in_child(begins) == NOTHING
        assert set(checker._own) == {tx.id}
        tx.commit()
    assert sorted(bodies(broker)) == [b"child", b"parent"]


def test_a_child_sends_no_batch(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        with producer.batch() as batch:
            batch.send("t", b"parent")
            assert in_child(lambda: batch.__exit__(None, None, None)) == SAYS_SO
            assert in_child(lambda: batch.__exit__(SystemExit, SystemExit(), None)) == NOTHING
            assert bodies(broker) == []

            def collects() -> None:
                with producer.batch() as own:
                    own.send("t", b"child")

            assert in_child(collects) == NOTHING
        assert len(batch.receipts) == 1
    assert bodies(broker) == [b"child", b"parent"]


def test_a_child_commits_no_offsets(broker: orbitmq.Broker) -> None:
    """Nor steps it back: the parent's batch commits what it read."""
    with broker.producer() as producer, broker.consumer("g", ["t"], start="earliest") as consumer:
        producer.send("t", b"source")
        with producer.batch() as batch:
            until(lambda: (got := consumer.poll(timeout=0)) is not None and bytes(got.body) == b"source", "the source")
            batch.commit(consumer)
            batch.send("t", b"result", tags="result")
            assert in_child(lambda: batch.__exit__(None, None, None)) == SAYS_SO
            assert in_child(lambda: batch.__exit__(SystemExit, SystemExit(), None)) == NOTHING
        assert consumer.position() is not None
    assert bodies(broker) == [b"source", b"result"]
    with broker.consumer("g", ["t"], start="earliest") as again:
        (message,) = again.poll_batch(10, timeout=10)
        assert bytes(message.body) == b"result"


def test_asyncio(broker: orbitmq.Broker) -> None:
    async def main() -> None:
        async with orbitmq.aio.connect(broker.name) as client, await client.producer() as producer:
            tx = await producer.transaction("t", b"parent")
            batch = producer.batch()
            await batch.__aenter__()
            batch.send("t", b"batch")

            def ends(work: Callable[[], object]) -> Callable[[], None]:
                return lambda: asyncio.run(work())  # type: ignore[arg-type]

            assert in_child(ends(lambda: batch.__aexit__(None, None, None))) == SAYS_SO
            assert in_child(ends(lambda: batch.__aexit__(SystemExit, SystemExit(), None))) == NOTHING
            assert in_child(lambda: tx._transaction.__exit__(None, None, None)) == SAYS_SO
            await batch.__aexit__(None, None, None)
            await tx.commit()

    asyncio.run(main())
    assert bodies(broker) == [b"batch", b"parent"]
