"""Goal: a group that is paused gets nothing, also by pulls of RocketMQ's clients, whoever pauses it and whichever process
serves them; and others notice nothing. Of actors/gateway/paused_groups.py and store/group_file.py.

Method: clients of the readable model pull for two groups, of which one is paused by OrbitMQ's own call, or as `mqadmin
updateSubGroup -s false` does it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.actors.gateway.paused_groups import PausedGroups
from orbitmq.errors import StoreFailed
from orbitmq.store.config import DataVersion, GroupConfig, store_groups
from orbitmq.store.layout import StoreLayout
from tests.actors.fronts import serving
from tests.actors.remoting_client import PULL, Remote, Said
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

SHAPE = 200
SUCCESS, NO_PERMISSION, NOT_FOUND = 0, 16, 19


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 2)
        with broker.producer() as producer:
            producer.send("t", b"body", queue=0)
        indexed(broker)
        yield broker


def pull(remote: Remote, group: str, queue: int = 0, **others: object) -> Said:
    return remote.ask(PULL, **{**remote.pull_fields("t", queue, 0), "consumerGroup": group, **others})


def paused(remote: Remote) -> bool:
    return pull(remote, "desk").code == NO_PERMISSION


def by_setting(broker: orbitmq.Broker, remote: Remote, enabled: bool) -> None:
    assert remote.ask(SHAPE, json.dumps({"groupName": "desk", "consumeEnable": enabled}).encode()).code == SUCCESS


def by_call(broker: orbitmq.Broker, remote: Remote, enabled: bool) -> None:
    remote.ask(15, consumerGroup="desk", topic="t", queueId=0, commitOffset=0)  # there must be such a group
    (broker.resume_group if enabled else broker.pause_group)("desk")


@pytest.mark.parametrize("change", [by_setting, by_call])
def test_it_gets_nothing(broker: orbitmq.Broker, remote: Remote, change: Callable[..., None]) -> None:
    assert pull(remote, "desk").code == SUCCESS
    change(broker, remote, False)
    until(lambda: paused(remote), "the pause")
    said = pull(remote, "desk")
    assert (said.remark, said.body, said.fields) == ("subscription group no permission, desk", b"", {})
    assert pull(remote, "others").code == pull(remote, "desks").code == SUCCESS
    change(broker, remote, True)
    until(lambda: pull(remote, "desk").code == SUCCESS, "the end of the pause")


def test_pulls_that_are_held(broker: orbitmq.Broker, remote: Remote) -> None:
    """They are answered when the pause begins; those of others go on."""
    with Remote(broker.status().listens) as other:
        held, theirs = (
            each.put(PULL, **{**each.pull_fields("t", 1, 0, suspend_ms=200_000), "consumerGroup": group})
            for each, group in ((remote, "desk"), (other, "others"))
        )
        by_setting(broker, remote, False)
        said = remote.take()
        assert (said.opaque, said.code) == (held, NO_PERMISSION)
        with broker.producer() as producer:
            producer.send("t", b"news", queue=1)
        said = other.take()
        assert (said.opaque, said.code) == (theirs, SUCCESS)


def test_a_new_gateway(broker: orbitmq.Broker, remote: Remote) -> None:
    """It knows before it serves anybody."""
    by_setting(broker, remote, False)
    until(lambda: paused(remote), "the pause")
    kill(broker, serving())

    def connected() -> Remote | None:
        try:
            return Remote(broker.status().listens)
        except OSError:
            return None

    with until(connected, "the next gateway") as again:
        assert paused(again)


def test_a_commit_is_taken(broker: orbitmq.Broker, remote: Remote) -> None:
    """As with RocketMQ: what members still had they may finish."""
    by_setting(broker, remote, False)
    until(lambda: paused(remote), "the pause")
    assert remote.ask(15, consumerGroup="desk", topic="t", queueId=0, commitOffset=1).code == SUCCESS
    assert remote.ask(14, consumerGroup="desk", topic="t", queueId=0).fields == {"offset": "1"}
    assert pull(remote, "desk", sysFlag=5, commitOffset=0).code == NO_PERMISSION
    assert remote.ask(14, consumerGroup="desk", topic="t", queueId=0).fields == {"offset": "1"}


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was paused stays so, the log says it once, and the same file is tried again."""
    layout = StoreLayout.at(tmp_path)
    layout.config.mkdir(parents=True)
    store_groups(layout, {"desk": GroupConfig("desk", consume_enable=False)}, DataVersion(0, 0))
    said: list[str] = []
    told: list[set[str]] = []
    now_s = iter(range(1, 100))
    paused_groups = PausedGroups(None, layout, said.append, lambda: next(now_s))
    monkeypatch.setattr(paused_groups, "_pause", lambda names: told.append(names) or True)

    def fail(layout: StoreLayout) -> None:
        raise StoreFailed("no descriptor is left")

    with monkeypatch.context() as patch:
        patch.setattr("orbitmq.store.group_file.load_groups", fail)
        paused_groups.look()
        paused_groups.look()
    assert told == [] and len(said) == 1 and "no descriptor is left" in said[0]
    paused_groups.look()
    assert told == [{"desk"}] and len(said) == 1
