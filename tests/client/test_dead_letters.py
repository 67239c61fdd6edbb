"""Goal: what a group has given up can be read and sent again once, on any store that has it. Method: a real tree on a
store with dead letters as RocketMQ writes them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.dead_letter.dead_letter import DeadLetter
from orbitmq.client.dead_letter.dead_letters import DeadLetters
from orbitmq.client.message import Message
from orbitmq.errors import (
    GroupInUse,
    GroupNameError,
    NoPermission,
    OffsetOutOfRange,
    PropertiesTooLarge,
    Retry,
    SettingError,
    TimedOut,
    TopicNameError,
    UnknownGroup,
    UnknownTopic,
)
from tests.client.awaitable import run_watched
from tests.client.dead_stores import store_with_letters
from tests.trees import everything, small_broker, stopped

COUNT = 6


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    path = tmp_path_factory.mktemp("dead")
    store_with_letters(path, COUNT)
    with small_broker(path, retention_hours=0) as broker:
        yield broker


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    store_with_letters(tmp_path, COUNT)
    with small_broker(tmp_path, retention_hours=0) as broker:
        yield broker


def orders(broker: orbitmq.Client) -> list[Message]:
    count = len(everything(broker, "orders"))
    found: list[Message] = []
    with broker.consumer(None, ["orders"]) as consumer:
        while len(found) < count:
            found += consumer.poll_batch(100, 60)
    return sorted(found, key=lambda each: int(bytes(each)))


def test_listing(prepared: orbitmq.Broker) -> None:
    assert prepared.dead_letter_groups() == ["billing"]
    letters = prepared.dead_letters("billing")
    found = letters.list()
    assert isinstance(found[0], DeadLetter)
    assert [(each.offset, each.body, each.topic, each.tries, each.redriven) for each in found] == [
        (n, b"%d" % n, "orders", 16, None) for n in range(COUNT)
    ]
    assert found[2].first_id == "7F00000100002A9F0000000000000002" and found[2].place == "%DLQ%billing/0@2"
    assert found[2].message.keys == ["k-2"] and found[2].died_ms == found[2].message.stored_ms
    assert list(letters) == found and letters.bounds == (0, COUNT)
    assert letters.letter(3) == found[3] and bytes(prepared.message(found[3].id)) == b"3"
    assert [each.offset for each in letters.list(most=2)] == [0, 1] and letters.list(redriven=True) == []
    assert repr(letters) == f"<DeadLetters of the group 'billing' at the broker {prepared.name!r}>"


def test_wrong_calls(prepared: orbitmq.Broker) -> None:
    letters = prepared.dead_letters("billing")
    with pytest.raises(OffsetOutOfRange, match="dead letter 6 of the group 'billing': it has offsets 0 to 5"):
        letters.letter(COUNT)
    with pytest.raises(OffsetOutOfRange):
        letters.redrive([2, 99])
    for call in (letters.list, letters.redrive):
        with pytest.raises(SettingError, match="with 0 as the most: the number must be at least 1"):
            call(most=0)
    with pytest.raises(TopicNameError):
        prepared.dead_letters("no group")
    with prepared.consumer("alive", ["orders"]) as consumer:
        assert consumer.poll(0) is None
        none = prepared.dead_letters("alive")
        none_of_a_group_without_letters(none)
    with pytest.raises(SettingError, match=r"could not redrive 2: .*; write \[2\]"):
        letters.redrive(2)  # type: ignore[arg-type]
    with pytest.raises(GroupNameError, match="a name is a str"):
        prepared.dead_letters(None)  # type: ignore[arg-type]
    assert not everything(prepared, "orders")


def none_of_a_group_without_letters(none: DeadLetters) -> None:
    assert none.list() == [] == none.redrive() and none.bounds == (0, 0)
    for call in (lambda: none.letter(0), lambda: none.redrive([0])):
        with pytest.raises(OffsetOutOfRange, match="it has none"):
            call()
    with pytest.raises(SettingError, match="dead letters of the group 'alive' to 'soon': it must be latest, an offset, or"):
        none.purge("soon")
    assert none.purge() == 0


def test_a_mistyped_group(prepared: orbitmq.Broker) -> None:
    """Letters that outlive their group can be used, as all other tests here show: no group `billing` exists."""
    with pytest.raises(UnknownGroup):
        prepared.group("billing")
    letters = prepared.dead_letters("biling")
    uses: list[Callable[[], object]] = [
        letters.list,
        letters.redrive,
        letters.purge,
        lambda: list(letters),
        lambda: letters.letter(0),
        lambda: letters.redrive([0]),
        lambda: letters.purge(dry_run=True),
        lambda: letters.bounds,
    ]
    for use in uses:
        with pytest.raises(UnknownGroup, match=r"'biling': there is no such group; .* orbitmq group list") as caught:
            use()
        assert caught.value.group == "biling"


def test_a_topic_that_never_had_a_letter(tmp_path: Path) -> None:
    """It has no folder yet which a redrive could lock."""
    store_with_letters(tmp_path, 0, group="empty")
    with small_broker(tmp_path) as broker:
        letters = broker.dead_letters("empty")
        assert letters.redrive() == [] and letters.purge() == 0 and letters.list() == []
        with pytest.raises(OffsetOutOfRange, match="it has none"):
            letters.redrive([0])


def test_redrive(fresh: orbitmq.Broker) -> None:
    """Chosen ones, then all; what is there already is never sent a second time. All that the sender gave is as it was."""
    letters = fresh.dead_letters("billing")
    sent = letters.redrive([4, 1, 4])
    assert [each.offset for each in sent] == [1, 4]
    assert letters.list(redriven=True) == sent and sent[0].redriven
    assert letters.redrive([4, 1]) == []
    assert [each.offset for each in letters.redrive(most=2)] == [0, 2]
    assert [each.offset for each in letters.redrive()] == [3, 5]
    assert letters.redrive() == [] == letters.list() and len(letters.list(redriven=None)) == COUNT
    found = orders(fresh)
    assert [bytes(each) for each in found] == [b"%d" % n for n in range(COUNT)]
    message, letter = found[4], letters.letter(4)
    assert letter.redriven == message.id
    assert (message.tags, message.keys, message.flag, message.reconsume_times) == ("paid", ["k-4"], 4, 0)
    assert message.properties == {
        "KEYS": "k-4",
        "TAGS": "paid",
        "table": "7",
        "REDRIVEN_FROM": "%DLQ%billing/0@4",
        "REDRIVEN_UNIQ_KEY": "7F0000016B085FFD2B27679AE2430004",
        "UNIQ_KEY": letter.id,
    }
    assert [each.id for each in fresh.find("orders", letter.id)] == [message.id]


def test_a_topic_that_is_gone(tmp_path: Path) -> None:
    """Nothing is sent."""
    store_with_letters(tmp_path, 2)
    names = tmp_path / "config" / "topics.json"
    names.write_text(names.read_text().replace('"orders"', '"others"'))
    with small_broker(tmp_path, retention_hours=0) as broker:
        with pytest.raises(UnknownTopic, match="letter %DLQ%billing/0@0: its topic 'orders' does not exist") as caught:
            broker.dead_letters("billing").redrive()
        assert caught.value.hint == "create it: orbitmq topic create orders"
        broker.create_topic("orders", 2)
        assert len(broker.dead_letters("billing").redrive()) == 2


def test_a_topic_that_nobody_has_written_to(tmp_path: Path) -> None:
    """RocketMQ has made it, and no group has given anything up: there is no folder yet."""
    store_with_letters(tmp_path, 0)
    with small_broker(tmp_path, retention_hours=0) as broker:
        assert broker.dead_letter_groups() == ["billing"] and not (tmp_path / "consumequeue" / "%DLQ%billing").exists()
        letters = broker.dead_letters("billing")
        assert letters.list() == [] == letters.redrive() and letters.purge() == 0
        with pytest.raises(OffsetOutOfRange, match="it has none"):
            letters.redrive([0])


def test_a_letter_that_has_hardly_room(tmp_path: Path) -> None:
    """Goal: a letter never holds up those behind it. Method: the properties of one leave no room for where it comes from, and
    those of another not even for its new unique key."""
    few = {"RETRY_TOPIC": "orders"}
    store_with_letters(tmp_path, 4, only={1: few | {"UNIQ_KEY": "7F00", "long": "x" * 32_670}, 2: few | {"long": "x" * 32_715}})
    with small_broker(tmp_path, retention_hours=0) as broker:
        letters = broker.dead_letters("billing")
        with pytest.raises(PropertiesTooLarge, match=r"dead letter %DLQ%billing/0@2: .*limit") as caught:
            letters.redrive()
        assert caught.value.sent == 3 and "those behind it were sent" in caught.value.hint
        assert caught.value.retry is Retry.AFTER_CHANGE, "it fails again, and sends nothing twice"
        assert [each.offset for each in letters.list()] == [2]
        found = {int(bytes(each)): each.properties for each in orders(broker)}
        assert found[0]["REDRIVEN_FROM"] and found[1].keys() == {"UNIQ_KEY", "long"}
        assert found[1]["UNIQ_KEY"] == letters.letter(1).id


def test_what_was_sent_again_is_seen_to_be(fresh: orbitmq.Broker) -> None:
    """At once, though reput has not reached it."""
    with orbitmq.connect(fresh.name) as hurried:
        with stopped(fresh, "reput"):
            fresh.dead_letters("billing").redrive()
            hurried.connection.timeout = 0.05
            for look in (hurried.dead_letters("billing").list, partial(hurried.dead_letters("billing").letter, 0)):
                with pytest.raises(TimedOut, match=r"reput, .* is behind the log's end"):
                    look()
        assert fresh.dead_letters("billing").list() == []


def test_a_store_of_old_rocketmq(tmp_path: Path) -> None:
    """Before 4.9.2, nobody may read the topic of dead letters; this can be read all the same."""
    store_with_letters(tmp_path, 2, perm=2)
    with small_broker(tmp_path, retention_hours=0) as broker:
        with pytest.raises(NoPermission):
            broker.consumer(None, ["%DLQ%billing"])
        assert len(broker.dead_letters("billing").redrive()) == 2


def test_one_at_a_time(fresh: orbitmq.Broker) -> None:
    folder = os.open(Path(fresh.status().store) / "consumequeue" / "%DLQ%billing", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(GroupInUse, match="another process is doing it"):
            fresh.dead_letters("billing").redrive()
    finally:
        os.close(folder)
    assert not everything(fresh, "orders")
    assert len(fresh.dead_letters("billing").redrive()) == COUNT


def test_awaitable(fresh: orbitmq.Broker) -> None:
    async def work() -> None:
        async with orbitmq.aio.connect(fresh.name) as client:
            assert await client.dead_letter_groups() == ["billing"]
            letters = client.dead_letters("billing")
            assert [letter.offset async for letter in letters] == list(range(COUNT))
            assert (await letters.letter(2)).body == b"2"
            assert len(await letters.redrive([2, 3])) == 2
            assert len(await letters.list(redriven=True)) == 2

    run_watched(work())
