"""Goal: what makes no sense as an argument is refused before a lock is asked for, with an error that names it. Method: a
whole broker; what locks promise is tested in tests/actors/test_queue_locks.py."""

from __future__ import annotations

from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.actors.groups.queue_locks import LEASE_MS_MAX
from orbitmq.client.admin.queue_locking import LEASE_S_MAX

NO_LISTS: list[Any] = [None, 5, "orders", [5], ["orders"], [("orders",)]]


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    work_broker.create_topic("orders", queues=1)
    return work_broker


def test_the_longest_lease_is_that_of_the_broker() -> None:
    assert LEASE_S_MAX * 1000 == LEASE_MS_MAX


@pytest.mark.parametrize("queues", NO_LISTS, ids=repr)
def test_what_is_no_list_of_queues(broker: orbitmq.Broker, queues: Any) -> None:
    for call in (broker.lock_queues, broker.unlock_queues):
        with pytest.raises(errors.SettingError, match="a list of queues is needed") as caught:
            call("locking", queues, "one")
        assert caught.value.hint


@pytest.mark.parametrize("lease", [None, "5", True, float("nan"), float("inf"), -1, 0, 3601, 2**70], ids=repr)
def test_what_is_no_lease(broker: orbitmq.Broker, lease: Any) -> None:
    with pytest.raises(errors.SettingError, match="lease"):
        broker.lock_queues("locking", [("orders", 0)], "one", lease=lease)


@pytest.mark.parametrize("owner", [None, 5, b"one"], ids=repr)
def test_what_is_no_owner(broker: orbitmq.Broker, owner: Any) -> None:
    for call in (broker.lock_queues, broker.unlock_queues):
        with pytest.raises(errors.SettingError, match="an owner is a str"):
            call("locking", [("orders", 0)], owner)
