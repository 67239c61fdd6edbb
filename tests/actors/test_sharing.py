"""Goal: users whom the operator lets in share a broker: none changes what another made, none takes everything, and the operator
always gets in. Method: real trees of this user, and forks that change to another user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.groups.group_registry import GROUPS_MAX
from orbitmq.actors.sessions.caller import OTHERS_PERCENT, Caller, Share
from orbitmq.errors import Full, NoPermission
from orbitmq.shm.segment import MOUNT, segment_name
from orbitmq.store.config import load_topics
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.tree_settings import SESSIONS_MAX
from tests.actors.users import GROUP, GROUP_NAME, SOMEBODY, STRANGER, only_root, outcome
from tests.trees import kill, small_broker
from tests.waiting import until

pytestmark = only_root

PERCENT = 1
SESSIONS = SESSIONS_MAX * PERCENT // 100


def as_member(uid: int, work: Callable[[], Any]) -> Any:
    return outcome(work, uid, uid, GROUP)


def create(name: str, **settings: Any) -> Callable[[], str]:
    def work() -> str:
        with orbitmq.connect(name) as client:
            client.create_topic("t", **{"queues": 2, **settings})
        return "done"

    return work


def test_only_its_maker_and_the_operator_change_a_topic(folder: Path) -> None:
    changes: list[dict[str, Any]] = [{"retention_hours": 1}, {"durability": "flushed"}, {"queues": 3}]
    for life in range(2):
        with small_broker(folder / "store", group=GROUP_NAME) as broker:
            if life == 0:
                assert as_member(STRANGER, create(broker.name)) == "done"
            assert as_member(SOMEBODY, create(broker.name)) == "done", "what changes nothing is no change"
            before = broker.topics()
            for change in changes:
                told = as_member(SOMEBODY, create(broker.name, **change))
                assert told.startswith(f"NoPermission: cannot change the topic 't' for uid {SOMEBODY}: only uid {STRANGER},"), (
                    told
                )
            assert broker.topics() == before
            if life == 0:
                kill(broker, "coordinator")
                assert as_member(SOMEBODY, create(broker.name, retention_hours=1)).startswith("NoPermission")
    with small_broker(folder / "store", group=GROUP_NAME) as broker:
        for change in changes:
            assert as_member(STRANGER, create(broker.name, **{"queues": 2, **change})) == "done"
        assert create(broker.name, queues=4)() == "done"
    assert load_topics(StoreLayout.at(folder / "store"))[0]["t"].maker == STRANGER


def test_nobody_else_changes_the_operators_topics(folder: Path) -> None:
    with small_broker(folder / "store", group=GROUP_NAME) as broker:
        assert create(broker.name)() == "done"
        told = as_member(STRANGER, create(broker.name, retention_hours=1))
        assert told.startswith(
            f"NoPermission: cannot change the topic 't' for uid {STRANGER}: only the broker's own user, uid 0"
        ), told
        assert as_member(STRANGER, create(broker.name)) == "done"


def open_sessions(name: str, count: int) -> Callable[[], int | str]:
    """How many of them this process gets, or why it gets none."""

    def work() -> int | str:
        opened = []
        with orbitmq.connect(name) as client:
            try:
                for _ in range(count):
                    opened.append(client.producer(message_max=1024))
            except Full as error:
                if not opened:
                    raise
                assert error.values["limit"] == "user_share_percent"
            return len(opened)

    return work


def all_gone(broker: orbitmq.Client) -> None:
    """Sessions that are closing count."""
    until(lambda: not broker.status().sessions, "the end of the sessions before")


def test_a_user_gets_its_part_of_the_sessions(folder: Path) -> None:
    """However many processes it has, and also after the coordinator has died."""
    with small_broker(folder / "store", group=GROUP_NAME, user_share_percent=PERCENT) as broker:
        assert open_sessions(broker.name, 1)() == 1  # late imports may be unreadable for another user
        all_gone(broker)
        assert as_member(STRANGER, open_sessions(broker.name, SESSIONS + 1)) == SESSIONS

        def beside_half() -> Any:
            with orbitmq.connect(broker.name) as client:
                held = [client.producer(message_max=1024) for _ in range(SESSIONS // 2)]
                child, parent = os.pipe()
                if os.fork() == 0:
                    with orbitmq.connect(broker.name) as mine:
                        got = 0
                        try:
                            while True:
                                held.append(mine.producer(message_max=1024))
                                got += 1
                        except Full:
                            os.write(parent, bytes([got]))
                            os._exit(0)
                os.close(parent)
                return os.read(child, 1)[0]

        all_gone(broker)
        assert as_member(STRANGER, beside_half) == SESSIONS - SESSIONS // 2

        def beside_a_death() -> Any:
            with orbitmq.connect(broker.name) as client:
                held = [client.producer(message_max=1024) for _ in range(SESSIONS)]
                os.write(told, b"x")
                os.read(go, 1)
                held.append(client.producer(message_max=1024))
            return "got one more"

        all_gone(broker)
        ready, told = os.pipe()
        go, gone = os.pipe()
        killer = os.fork()
        if killer == 0:
            os.read(ready, 1)
            kill(broker, "coordinator")
            os.write(gone, b"x")
            os._exit(0)
        assert as_member(STRANGER, beside_a_death).startswith(
            f"Full: cannot give uid {STRANGER} 1 more sessions: it has {SESSIONS}"
        )
        os.waitpid(killer, 0)
        assert as_member(SOMEBODY, open_sessions(broker.name, 1)) == 1
        assert open_sessions(broker.name, SESSIONS + 1)() == SESSIONS + 1, "the operator has no such limit"


def test_a_user_gets_its_part_of_topics_and_queues(folder: Path) -> None:
    def make(names: range, queues: int) -> Callable[[], int]:
        def work() -> int:
            with orbitmq.connect(broker.name) as client:
                for made, number in enumerate(names):
                    try:
                        client.create_topic(f"t{number}", queues)
                    except Full as error:
                        assert error.values["limit"] == "user_share_percent"
                        return made
            return len(names)

        return work

    with small_broker(
        folder / "store", group=GROUP_NAME, topic_capacity=64, queue_capacity=2048, user_share_percent=25
    ) as broker:
        assert as_member(STRANGER, make(range(64), 1)) == 16
        assert as_member(SOMEBODY, make(range(100, 164), 128)) == 2, "a topic has room for twice its queues"
        assert make(range(200, 220), 1)() == 20


def test_a_user_gets_so_many_connections(folder: Path) -> None:
    def connect() -> Any:
        inside = []
        for _ in range(4):
            inside.append(orbitmq.connect(broker.name))
            inside[-1].connection.ask("topics")
        return len(inside)

    with small_broker(folder / "store", group=GROUP_NAME, connections_per_user=3) as broker:
        told = as_member(STRANGER, connect)
        assert told.startswith(f"Full: cannot accept uid {STRANGER} again: it has 3 connections and the limit is 3"), told
        assert connect() == 4


def take(name: str, group: str) -> Callable[[], str]:
    def work() -> str:
        with orbitmq.connect(name) as client, client.consumer(group, topics=["t"]) as consumer:
            consumer.poll(timeout=0)
            consumer.commit()
        return "taken"

    return work


def test_a_group_is_for_the_user_who_began_it(folder: Path) -> None:
    """A member takes queues from the other members, and commits for them."""
    for life in range(2):
        with small_broker(folder / "store", group=GROUP_NAME) as broker:
            broker.create_topic("t", queues=2)
            if life == 0:
                assert as_member(STRANGER, take(broker.name, "theirs")) == "taken"
                assert take(broker.name, "ours")() == "taken"
            for _ in range(2):
                told = as_member(SOMEBODY, take(broker.name, "theirs"))
                assert told.startswith(
                    f"NoPermission: cannot join the group 'theirs' for uid {SOMEBODY}: only uid {STRANGER}"
                ), told
                assert "shared_groups" in told
                assert as_member(STRANGER, take(broker.name, "ours")).startswith("NoPermission: cannot join the group 'ours'")
                assert as_member(STRANGER, take(broker.name, "theirs")) == "taken"
                assert take(broker.name, "theirs")() == "taken"
                kill(broker, "coordinator")
    with small_broker(folder / "store", group=GROUP_NAME, shared_groups=True) as broker:
        assert as_member(SOMEBODY, take(broker.name, "theirs")) == "taken"


def test_a_group_is_changed_by_the_user_who_began_it(folder: Path) -> None:
    """Everybody may look; shared_groups does not let everybody stop or delete a group."""

    def change(what: str) -> Callable[[], str]:
        def work() -> str:
            with orbitmq.connect(broker.name) as client:
                assert client.group("theirs").name in [each.name for each in client.groups()] and client.clients()
                if what == "reset":
                    client.reset_group("theirs", "latest")
                else:
                    {"pause": client.pause_group, "resume": client.resume_group, "delete": client.delete_group}[what]("theirs")
            return "done"

        return work

    with small_broker(folder / "store", group=GROUP_NAME, shared_groups=True) as broker:
        broker.create_topic("t", queues=2)
        assert as_member(STRANGER, take(broker.name, "theirs")) == "taken"
        until(lambda: not broker.group("theirs").members, "the member to leave")
        for what in ("reset", "pause", "resume", "delete"):
            told = as_member(SOMEBODY, change(what))
            assert told.startswith(f"NoPermission: cannot {what} the group 'theirs' for uid {SOMEBODY}: only"), told
        assert not broker.group("theirs").paused
        for what in ("reset", "pause", "resume", "delete"):
            assert as_member(STRANGER, change(what)) == "done"
        assert broker.groups() == []


def test_a_user_gets_its_part_of_the_groups(folder: Path) -> None:
    def begin() -> int:
        for begun in range(GROUPS_MAX):
            try:
                take(broker.name, f"group-{begun}")()
            except Full as error:
                assert error.values["limit"] == "user_share_percent"
                return begun
        return GROUPS_MAX

    with small_broker(folder / "store", group=GROUP_NAME, user_share_percent=PERCENT) as broker:
        broker.create_topic("t", queues=1)
        take(broker.name, "ours")()
        assert as_member(STRANGER, begin) == GROUPS_MAX * PERCENT // 100


def test_all_others_together_leave_room() -> None:
    share = Share("sessions", 100, 40)
    first, second, third = (Caller(uid, False) for uid in (1, 2, 3))
    share.check(first, {1: 39})
    with pytest.raises(Full, match="limit for one user is 40"):
        share.check(first, {1: 40})
    share.check(third, {1: 40, 2: 40, 3: 9, None: 500})
    with pytest.raises(Full, match=f"the limit for them is {OTHERS_PERCENT}"):
        share.check(third, {1: 40, 2: 40, 3: 10})
    share.check(Caller(0, True), {1: 40, 2: 40, 3: 20, None: 500})
    assert second.may_change(2) and not second.may_change(None) and not second.may_change(1)


def test_a_segment_that_another_user_has_put_there_is_not_believed(folder: Path) -> None:
    with small_broker(folder / "store") as broker:
        broker.create_topic("t", 1)
        path = MOUNT / segment_name(broker.connection.attachment.generation, "top")
        os.chown(path, STRANGER, STRANGER)
        with (
            pytest.raises(NoPermission, match=f"it belongs to uid {STRANGER} and the broker to uid 0"),
            orbitmq.connect(broker.name) as client,
        ):
            client.topics()
        os.chown(path, 0, 0)
        with orbitmq.connect(broker.name) as client:
            assert [topic.name for topic in client.topics()] == ["t"]
