"""Goal: a topic's durability is kept: in the file, in the table, across the coordinator's death and the tree's stop, and after
writes that failed. Method: real trees on small stores; the file is read and written by hand. Of
actors/topics/topic_registry.py; its other refusals are in tests/actors/test_sharing.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq
import orbitmq.aio
from orbitmq.errors import SettingError, StoreFailed
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.config import load_topics
from orbitmq.store.layout import StoreLayout
from tests.trees import actors, kill, small_broker
from tests.waiting import until


def stored(store: Path) -> dict[str, str | None]:
    return {name: topic.durability for name, topic in load_topics(StoreLayout.at(store))[0].items()}


def shown(broker: orbitmq.Client) -> dict[str, str]:
    listed = {topic.name: topic.durability for topic in broker.topics()}
    assert listed == {topic.name: topic.durability for topic in broker.status().topics}
    return {name: str(durability) for name, durability in listed.items()}


def test_it_is_kept(tmp_path: Path) -> None:
    """A change through the coordinator counts for the next send of an open producer, and is kept."""
    with small_broker(tmp_path) as broker:
        assert broker.create_topic("plain", 2).durability == "appended"
        assert broker.create_topic("safe", 2, durability="flushed").durability == "flushed"
        assert broker.create_topic("safe", 3, retention_hours=7).durability == "flushed", "nothing said, nothing changed"
        producer = broker.producer()
        assert producer.send("safe", b"x").durability == "flushed"
        broker.create_topic("plain", 2, durability="flushed")
        assert producer.send("plain", b"x").durability == "flushed"
        broker.create_topic("plain", 2, durability="appended")
        assert shown(broker) == {"plain": "appended", "safe": "flushed"}
        assert stored(tmp_path) == {"plain": None, "safe": "flushed"}
        kill(broker, "coordinator")
        until(lambda: actors(broker)["coordinator"].state == "running", "a successor")
        assert shown(broker) == {"plain": "appended", "safe": "flushed"}
        assert {topic.name: topic.durable for topic in TopicTable(broker.connection.attachment.topics)} == {
            "plain": False, "safe": True,
        }  # fmt: skip
        with pytest.raises(SettingError, match="'replicated'") as caught:
            broker.create_topic("safe", 3, durability="replicated")  # type: ignore[arg-type]
        assert caught.value.value == "replicated"
    with small_broker(tmp_path) as broker:
        assert {topic.name: topic.retention_hours for topic in broker.topics()} == {"plain": None, "safe": 7}
        assert shown(broker) == {"plain": "appended", "safe": "flushed"}
        with broker.producer() as producer:
            assert producer.send("safe", b"x").durability == "flushed"


def test_asyncio(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with orbitmq.aio.connect(name) as client:
            assert (await client.create_topic("safe", 2, durability="flushed")).durability == "flushed"
            async with await client.producer() as producer:
                assert (await producer.send("safe", b"x")).durability == "flushed"
            async with await client.producer(durability="appended") as producer:
                assert (await producer.send("safe", b"x")).size
            assert (await client.create_topic("safe", 2, durability="appended")).durability == "appended"

    with small_broker(tmp_path) as broker:
        asyncio.run(work(broker.name))


def test_a_change_that_could_not_be_written(tmp_path: Path) -> None:
    """It counts only once it is in the file. Asking again writes it, also if another change was written in the meantime."""
    with small_broker(tmp_path) as broker:
        obstacle = tmp_path / "config" / "topics.json.tmp"
        for topic in ("one", "two"):
            broker.create_topic(topic, 2)
            obstacle.mkdir()
            with pytest.raises(StoreFailed):
                broker.create_topic(topic, 2, durability="flushed")
            obstacle.rmdir()
            assert shown(broker)[topic] == "appended"
            if topic == "two":
                broker.create_topic("other", 2)
            assert broker.create_topic(topic, 2, durability="flushed").durability == "flushed"
            assert shown(broker)[topic] == stored(tmp_path)[topic] == "flushed"


@pytest.mark.parametrize("level", ['"replicated"', "5", '"appended"', "null"])
def test_a_level_of_another_version(tmp_path: Path, level: str) -> None:
    """A level that is not known here counts as the highest that is, and stays in the file as it was."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 2, durability="flushed")
    path = tmp_path / "config" / "topics.json"
    path.write_text(path.read_text().replace('"durability":"flushed"', f'"durability":{level}'))
    known = level in ('"appended"', "null")
    with small_broker(tmp_path) as broker:
        assert shown(broker) == {"t": "appended" if known else "flushed"}
        broker.create_topic("t", 3)
        assert f'"durability":{level}' in path.read_text() or level == "null"
        broker.create_topic("t", 3, durability="appended")
        assert shown(broker) == {"t": "appended"}
