"""Goal: a session that the coordinator has opened for the gateway, and of which the gateway was not told, does not stay open.

Method: the coordinator is killed when it has offered the session, and has not answered yet. Its successor takes the session
over; the gateway asks it to close what it does not know."""

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


def test_the_coordinator_dies_before_it_answers(load: Load) -> None:
    client = load.client

    def sessions() -> set[tuple[int, int]]:
        """Slot and epoch of those that the gateway has."""
        return {(each.slot, each.epoch) for each in client.status().sessions if each.pid == load.actors()["gateway"].pid}

    listens = client.status().listens
    with Popper(listens, "g", "t") as popper, Popper(listens, "h", "t") as other:
        until(lambda: popper.pop(poll_ms=1) == [] and len(sessions()) == 2, "the group to begin; one session is for sending")
        before = sessions()
        load.plan.arm("sessions_offered")
        assert other.remote.ask(POP, **other.pop_fields()).code == SYSTEM_ERROR
        assert load.plan.victim("sessions_offered")
        load.plan.disarm()
        # That of the group may end too: nobody has popped for it meanwhile.
        until(lambda: sessions() <= before, "the session of which nobody was told to be closed")
        with client.producer() as producer:
            producer.send("t", b"x")
        assert popper.ack(one(popper)) == SUCCESS, "those of which it was told stay"
        assert other.ack(one(other)) == SUCCESS, "and it gets others"
