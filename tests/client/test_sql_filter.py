"""Goal: a consumer with a filter gets the messages that pass, in each form, and no others; and a text that is no filter is
refused with its place. Method: a composed broker, and each call of a consumer. What filters mean is in
tests/native/test_sql.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.sql_filter import checked_sql
from orbitmq.errors import FilterError, SettingError, UsageError
from orbitmq.native._types import Message
from tests.client.composed_broker import ComposedBroker

COUNT = 200
WANTED = [number for number in range(COUNT) if number % 7 == 0 and number > 100]
SQL = "price > 100 AND region IN ('eu')"


@pytest.fixture
def broker(tmp_path: Path) -> ComposedBroker:
    """One topic with a price and a region each; every other message has the tag `odd`."""
    broker = ComposedBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    for number in range(COUNT):
        properties = {"price": str(number), "region": "us" if number % 7 else "eu"}
        broker.append("t", slot, b"%d" % number, properties=properties | ({"TAGS": "odd"} if number % 2 else {}))
    broker.publish()
    return broker


def numbers(messages: list[Message]) -> list[int]:
    return [int(bytes(message)) for message in messages]


def test_every_call_filters(broker: ComposedBroker) -> None:
    with Consumer(broker, None, ["t"], sql=SQL) as consumer:
        assert numbers(consumer.poll_batch(1000, 0)) == WANTED
        assert consumer.position() == {("t", 0): COUNT} and consumer.lag() == {("t", 0): 0}
        for batch in (1, 3):
            consumer.seek("t", 0, 0)
            found: list[bytes] = []
            while more := consumer.poll_bodies(batch, 0):
                found += more
            assert list(map(int, found)) == WANTED
        consumer.seek("t", 0, 0)
        assert numbers([message for _ in WANTED if (message := consumer.poll(0))]) == WANTED
        assert consumer.poll(0) is None
        consumer.seek("t", 0, 0)
        batch_of_arrow = consumer.poll_arrow(1000, 0, columns=["body", "offset"])
        assert batch_of_arrow["offset"].to_pylist() == WANTED
        assert list(map(int, batch_of_arrow["body"].to_pylist())) == WANTED


def test_asyncio_filters(broker: ComposedBroker) -> None:
    async def run() -> list[int]:
        async with AsyncConsumer(Consumer(broker, None, ["t"], sql=SQL)) as consumer:
            found = numbers(await consumer.poll_batch(1000, 0))
            assert await consumer.poll(0) is None
            return found

    assert asyncio.run(run()) == WANTED


def test_tags_and_sql_must_both_pass(broker: ComposedBroker) -> None:
    with Consumer(broker, None, ["t"], tags="odd", sql=SQL) as consumer:
        assert numbers(consumer.poll_batch(1000, 0)) == [number for number in WANTED if number % 2]


def test_a_group_commits_past_what_is_held_back(broker: ComposedBroker) -> None:
    """A member that gets nothing has read everything; the next one begins behind it."""
    with Consumer(broker, "g", ["t"], sql="price > 1000") as consumer:
        assert consumer.poll(0) is None
        consumer.commit()
        assert consumer.committed() == {("t", 0): COUNT}


def test_a_wait_ends_with_its_time(broker: ComposedBroker) -> None:
    """Goal: a run of messages that are held back, however long, does not keep a call. Method: looks that never find anything,
    while the queue is never read to its end."""
    looks = 0

    def take(_: int) -> list[int]:
        nonlocal looks
        looks += 1
        assert looks < 10_000_000, "the call goes on for ever"
        return []

    with Consumer(broker, None, ["t"], sql=SQL) as consumer:
        assert consumer._gathered(take, 1, 0.1) == []
        assert looks > 1


def test_a_task_lets_others_run(broker: ComposedBroker) -> None:
    """Between two looks of one call, other tasks of the event loop run; at the end of the queue the call ends."""
    events: list[str] = []

    async def run() -> None:
        consumer = Consumer(broker, None, ["t"], sql=SQL)
        async with AsyncConsumer(consumer) as waiting:

            def take() -> list[int]:
                events.append("look")
                return [] if len(events) < 9 else consumer.poll_batch(1000, 0) and [1]

            async def other() -> None:
                for _ in range(3):
                    events.append("other")
                    await asyncio.sleep(0)

            assert (await asyncio.gather(waiting._taken(take, 0, bool), other()))[0] == [1]
            assert await waiting.poll_batch(10, 0) == []

    asyncio.run(run())
    assert "other" in events[1:-1]


def test_refused_texts(broker: ComposedBroker) -> None:
    """The error carries the place, and its text shows it; nothing is opened."""
    with pytest.raises(FilterError) as caught:
        Consumer(broker, None, ["t"], sql="price >> 100")
    error = caught.value
    assert isinstance(error, SettingError)
    assert (error.column, error.found, error.value, error.setting) == (8, ">", "price >> 100", "sql")
    assert error.expected and error.expected.startswith("a property, a number")
    assert error.message.endswith("    price >> 100\n           ^")
    with pytest.raises(FilterError, match="IS NULL") as caught:
        checked_sql("a = NULL")
    assert caught.value.hint == "write IS NULL or IS NOT NULL"
    with pytest.raises(FilterError, match="not text"):
        checked_sql(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        checked_sql("a = '\ud800'")
    with pytest.raises(FilterError, match="65536"):
        checked_sql("a" * 70000)


def test_the_picture_shows_the_line_and_what_is_around() -> None:
    with pytest.raises(FilterError) as caught:
        checked_sql("a = 1 AND\n  b = 'ü' AND\t" + "c = 1 OR " * 30 + "d = = 5" + " OR c = 1" * 30)
    line, carets = caught.value.message.splitlines()[1:]
    assert line.startswith("    ...") and line.endswith("...") and "d = = 5" in line
    assert line[carets.index("^")] == "=" and line[: carets.index("^")].endswith("d = ")
