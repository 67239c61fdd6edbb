"""Goal: topics that are made, deleted and made again while a backup runs are in the backup as they were at one moment, and a
deleted one does not come back by halves.

Method: a running broker; the backup calls back after each of its steps, and there the topic is made or deleted. Nothing is left
to chance: two changes are made at every pair of steps. The tests share the broker, and each has a topic of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, count
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import Full, StoreFailed
from orbitmq.store.backup import backup, file_copy
from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.findings import Finding
from orbitmq.store.verify.verify import verify
from tests.memory import folder_in_memory
from tests.trees import everything, indexed, small_broker
from tests.waiting import until

STEPS = ("checkpoint", "store.json", "log", "purged", "topics.json", "queues", "subscriptionGroup.json")
OLD, NEW, BESIDE = [b"old"] * 30, [b"new"] * 5, [b"beside"] * 7
ROOM = {"topic_capacity": 256, "queue_capacity": 2048}  # deleted topics keep theirs
NUMBERS = count(1)


def make(broker: orbitmq.Broker, topic: str) -> None:
    def made() -> bool:
        try:
            broker.create_topic(topic, 3)
        except Full as full:
            assert full.limit == "reput"
            return False
        return True

    until(made, "reput to have passed the deleted topic")
    send(broker, topic, NEW)


def delete(broker: orbitmq.Broker, topic: str) -> None:
    broker.delete_topic(topic)
    folder = broker_layout(broker).consumequeue / topic
    until(lambda: not folder.exists(), "the files of the queues to be removed")


def send(broker: orbitmq.Broker, topic: str, bodies: list[bytes]) -> None:
    with broker.producer() as producer:
        producer.send_batch(topic, bodies)
    indexed(broker)


def broker_layout(broker: orbitmq.Broker) -> StoreLayout:
    return StoreLayout.at(broker.status().store)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    place = folder_in_memory(lambda: tmp_path_factory.mktemp("shared"))
    with place as folder, small_broker(folder / "store", **ROOM) as broker:
        broker.create_topic("beside", 1)
        send(broker, "beside", BESIDE)
        broker.create_topic("purged", 1)
        broker.purge_topic("purged")
        yield broker


@pytest.fixture
def topic(broker: orbitmq.Broker) -> Iterator[str]:
    """The name of one that does not exist. Afterwards it does not exist either."""
    name = f"T{next(NUMBERS)}"
    yield name
    if name in {each.name for each in broker.topics()}:
        delete(broker, name)
    assert {each.name for each in broker.topics()} == {"beside", "purged"}


def changing(monkeypatch: pytest.MonkeyPatch, changes: dict[str, list[Callable[[], None]]]) -> None:
    """Calls what belongs to a step when the backup has done it, each once."""

    def after(name: str, step: Callable[..., Any]) -> None:
        def done(copy: Any, *path: Path) -> None:
            step(copy, *path)
            for change in changes.pop(path[0].name if path else name, []):
                change()

        monkeypatch.setattr(backup._Copy, f"_{name}", done)

    after("small", backup._Copy._small)
    after("log", backup._Copy._log)
    after("queues", backup._Copy._queues)


def bodies(store: Path, topic: str) -> list[bytes] | None:
    """What the topic has in a broker on the backup. None: it does not exist. The backup is whole before and after."""
    whole(store)
    with small_broker(store, **ROOM) as broker:
        assert [body for body, *_ in everything(broker, "beside")] == BESIDE
        names = {topic.name for topic in broker.topics()}
        found = sorted(body for body, *_ in everything(broker, topic)) if topic in names else None
        if found is not None:
            send(broker, topic, [b"more"])
            assert sorted(body for body, *_ in everything(broker, topic)) == sorted([*found, b"more"])
    whole(store)
    return found


def whole(store: Path) -> None:
    layout = StoreLayout.at(store)
    found: list[Finding] = []
    assert verify(layout, layout.settings(), found.append).whole and not found, found


@pytest.mark.parametrize("step", STEPS)
def test_made_meanwhile(broker: orbitmq.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    changing(monkeypatch, {step: [lambda: make(broker, topic)]})
    back_up(broker_layout(broker), tmp_path / "backup")
    assert bodies(tmp_path / "backup", topic) in (None, [], NEW)


@pytest.mark.parametrize("step", STEPS)
def test_deleted_meanwhile(
    broker: orbitmq.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    broker.create_topic(topic, 2)
    send(broker, topic, OLD)
    changing(monkeypatch, {step: [lambda: delete(broker, topic)]})
    back_up(broker_layout(broker), tmp_path / "backup")
    assert bodies(tmp_path / "backup", topic) in (None, OLD)


@pytest.mark.parametrize(("first", "second"), combinations_with_replacement(STEPS, 2))
def test_deleted_and_made_again(
    broker: orbitmq.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """The new one has nothing of the old one."""
    broker.create_topic(topic, 2)
    send(broker, topic, OLD)
    changes: dict[str, list[Callable[[], None]]] = {}
    changes.setdefault(first, []).append(lambda: delete(broker, topic))
    changes.setdefault(second, []).append(lambda: make(broker, topic))
    changing(monkeypatch, changes)
    back_up(broker_layout(broker), tmp_path / "backup")
    assert not changes
    assert bodies(tmp_path / "backup", topic) in (None, OLD, [], NEW)


@pytest.mark.parametrize("again", [False, True])
def test_deleted_between_the_files_of_its_queue(
    broker: orbitmq.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    broker.create_topic(topic, 1)
    send(broker, topic, OLD * 90)
    copy, copied = file_copy.copy, list[Path]()

    def copy_and_delete(source: Path, *args: Any, **more: Any) -> bool:
        filled = copy(source, *args, **more)
        if source.parts[-3] == topic:
            copied.append(source)
            if len(copied) == 1:
                delete(broker, topic)
                if again:
                    make(broker, topic)
        return filled

    monkeypatch.setattr(file_copy, "copy", copy_and_delete)
    back_up(broker_layout(broker), tmp_path / "backup")
    assert len(copied) == 1, "no file is copied from behind one that is gone"
    assert bodies(tmp_path / "backup", topic) == ([] if again else None)


def test_topics_are_deleted_all_the_time(
    broker: orbitmq.Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up, and leaves nothing. Method: one try, and a deletion in it."""
    broker.create_topic(topic, 2)
    monkeypatch.setattr(backup, "_MOMENTS", 1)
    changing(monkeypatch, {"purged": [lambda: delete(broker, topic)]})
    with pytest.raises(StoreFailed, match="a topic was deleted or purged"):
        back_up(broker_layout(broker), tmp_path / "backup")
    assert not list(tmp_path.iterdir())
