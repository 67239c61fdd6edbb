"""Goal: a session that the coordinator has opened for the gateway does not stay open if the gateway cannot have it.

Method: the coordinator is killed when it has opened the session, or when it keeps it, and has not answered yet. Its successor
knows nothing of the first one; it takes the second one over, and the gateway asks for its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.pop_client import POP, SUCCESS, Popper, one
from tests.crash import crash_build
from tests.crash.load import Load
from tests.waiting import until

SYSTEM_ERROR = 1


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    crash_build.build()
    made = Load(tmp_path, 1, roles=(), more={"listen": "127.0.0.1:0"})
    made.client.create_topic("t", queues=4)
    yield made
    made.close()


@pytest.mark.parametrize("point", ["sessions_kept", "sessions_offered"])
def test_the_coordinator_dies_before_it_answers(load: Load, point: str) -> None:
    client = load.client

    def sessions() -> set[tuple[int, int]]:
        """Slot and epoch of those that the gateway has."""
        return {(each.slot, each.epoch) for each in client.status().sessions if each.pid == load.actors()["gateway"].pid}

    listens = client.status().listens
    with Popper(listens, "g", "t") as popper, Popper(listens, "h", "t") as other:
        until(lambda: popper.pop(poll_ms=1) == [] and len(sessions()) == 2, "the group to begin; one session is for sending")
        before = sessions()
        load.plan.arm(point)
        assert other.remote.ask(POP, **other.pop_fields()).code == SYSTEM_ERROR
        assert load.plan.victim(point)
        load.plan.disarm()
        # That of the group may end too: nobody has popped for it meanwhile.
        until(lambda: sessions() <= before, "the end of the session that the gateway does not have")
        with client.producer() as producer:
            producer.send("t", b"x")
        assert popper.ack(one(popper)) == SUCCESS, "those of which it was told stay"
        assert other.ack(one(other)) == SUCCESS, "and it gets others"
