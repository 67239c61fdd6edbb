"""Goal: nobody sees of a topic what the store's files do not say, at any step of any change: a death or a backup in that moment
would show a queue without its topic, or a message that need not be on disk in a topic whose messages are. Method: the registry
(actors/topics/topic_registry.py, topic_settings.py) in this process; at each crash point the table is compared with the files
as they are on disk then, the registry is broken off there, and a successor finishes the change; and the same with a disk that
takes no file."""

from __future__ import annotations

import errno
import itertools
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from orbitmq.actors.topics import purges, topic_registry, topic_settings
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.native._core import ffi, lib
from orbitmq.shm.topic_table import PERM_READ, PERM_WRITE, Topic
from orbitmq.store import config, purged
from orbitmq.store.delays import DELAY_TOPICS
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.halves import TRANSACTION_TOPICS
from orbitmq.store.layout import StoreLayout

# What each change does to a table that holds the topics "old", which is plain, and "gone", which was deleted.
CHANGES: dict[str, Callable[[TopicRegistry], object]] = {
    "new": lambda topics: topics.create("new", 3),
    "new, durable": lambda topics: topics.create("new", 3, retention_hours=5, durability="flushed"),
    "new, read only": lambda topics: topics.create("new", 3, PERM_READ),
    "again": lambda topics: topics.create("gone", 4, PERM_WRITE, retention_hours=0, durability="flushed"),
    "more queues": lambda topics: topics.create("old", 5),
    "another retention": lambda topics: topics.create("old", 2, retention_hours=1),
    "durable": lambda topics: topics.create("old", 2, durability="flushed"),
    "permission": lambda topics: topics.permit("old", PERM_READ),
    "deleted": lambda topics: topics.delete(topics.get("old")),
    "found by reput": lambda topics: topics.adopt("found", 3),
    "more queues found by reput": lambda topics: topics.adopt("old", 4),
    "replies": lambda topics: topics.add_replies(),
    "retries": lambda topics: topics.add_own("%RETRY%g", 2, 7),
    **{name: methodcaller("add_waiting", name) for name in (*DELAY_TOPICS, *TRANSACTION_TOPICS, COMMITS_TOPIC)},
}


class Died(BaseException):
    """Raised where nothing catches it."""


class Files:
    """A store's files, and a table; coordinators come and go."""

    def __init__(self, root: Path) -> None:
        self.layout = StoreLayout.at(root)
        self.layout.make_folders()
        self._memory = mmap.mmap(-1, lib.topics_size(64, 1024))
        self.table = ffi.cast("struct topics *", ffi.from_buffer(self._memory))
        lib.topics_init(self.table, 64, 1024, 1)
        topics = self.coordinator()
        topics.create("old", 2)
        topics.create("gone", 2, retention_hours=3)
        topics.delete(topics.get("gone"))

    def coordinator(self) -> TopicRegistry:
        topics = TopicRegistry(self.layout, self.table)
        topics.load()
        return topics

    def seen(self) -> dict[str, Topic]:
        return {topic.name: topic for topic in topic_registry.TopicTable(self.table)}

    def wrong(self, before: dict[str, Topic]) -> list[str]:
        """What the table says and the files do not. before: the table before the change: its topics may be as they were."""
        named, _ = config.load_topics(self.layout)
        gone = purged.load(self.layout).deleted
        found = []
        for name, topic in self.seen().items():
            said = named.get(name)
            if said is None or gone.get(name, purged.AGAIN) != purged.AGAIN:
                found += [] if name in before else [f"{name} does not exist"]
                continue
            if topic.queues > min(said.read_queues, said.write_queues):
                found.append(f"{name} has {said.write_queues} queues, not {topic.queues}")
            kept = (topic.retention_hours, topic.durable), (topic_settings.hours_of(said), said.durability == "flushed")
            if kept[0] != kept[1] and (name not in before or kept[0] != (before[name].retention_hours, before[name].durable)):
                found.append(f"{name} is kept as {kept[1]}, not {kept[0]}")
            perm = topic_settings.permitted(name, said.perm)
            if topic.perm != perm and (name not in before or topic.perm != before[name].perm):
                found.append(f"{name} has the permission {perm}, not {topic.perm}")
        found += [f"{name} exists" for name in before.keys() - self.seen().keys() if name not in gone]
        return found


@contextmanager
def points(passed: Callable[[str], None]) -> Iterator[None]:
    with patch.object(topic_registry, "crash_point", passed), patch.object(purges, "crash_point", passed), \
            patch.object(config, "crash_point", passed), patch.object(purged, "crash_point", passed):  # fmt: skip
        yield


@pytest.mark.parametrize("change", CHANGES)
def test_the_files_come_first(tmp_path: Path, change: str) -> None:
    passed: list[str] = []
    for last in itertools.count(1):
        files = Files(tmp_path / str(last))
        before, topics = files.seen(), files.coordinator()
        passed.clear()

        def step(point: str, files: Files = files, before: dict[str, Topic] = before, last: int = last) -> None:
            passed.append(point)
            assert files.wrong(before) == [], f"at {point}, the {len(passed)}. step"
            if len(passed) == last:
                raise Died

        with suppress(Died), points(step):
            CHANGES[change](topics)
        whole = len(passed) < last
        successor = files.coordinator()
        assert files.wrong({}) == [], f"after a death at {passed[-1]}"
        once = files.seen()
        CHANGES[change](successor) if change != "deleted" or "old" in once else None
        assert files.wrong({}) == []
        assert not whole or files.seen() == once, "nothing is left to be done again"
        if whole:
            break
    assert {"config_written", "config_renamed", "topic_registry_stored"} < set(passed), "points on both sides"


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_cannot_be_written_down_is_not_made(tmp_path: Path, change: str) -> None:
    """Nobody sees it, and a later try does it."""

    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    files = Files(tmp_path)
    topics, before = files.coordinator(), files.seen()
    with patch.object(topic_registry, "store_topics", full), patch.object(purged, "store", full), pytest.raises(OSError):
        CHANGES[change](topics)
    assert files.seen() == before and files.wrong(before) == []
    CHANGES[change](topics)
    assert files.seen() != before and files.wrong({}) == []
