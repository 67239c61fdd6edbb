"""Goal: consume, transform, produce, exactly once (docs/exactly-once.md). The last topic of a chain of three stages is what a
plain computation makes of the first one, message by message and in order, whatever dies.

Method: programs that feed and work the chain, with members that come, go and give batches up, beside kills at random: of these
programs, of every actor, of the supervisor, of everything together, and clean stops. test_points.py kills them at each step."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash import crash_build
from tests.crash.chain_account import differences
from tests.crash.load import Load
from tests.waiting import until

KILLS = 25
ACTORS = ("writer", "handler 0", "reput", "coordinator", "scheduler", "flush")


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_the_last_topic_is_what_a_plain_computation_gives(tmp_path: Path, placement: str) -> None:
    crash_build.build()
    rng = random.Random(11)
    load = Load(tmp_path, seed=2, roles=("feed", "feed", "chain", "chain", "chain", "share"), placement=placement)
    try:
        for _ in range(KILLS):
            load.grow(rng.randrange(20_000))
            strike(load, rng)
            load.repair()
        account = load.finish()
    finally:
        load.close()
    assert account.wrong == []
    assert account.stored == account.acknowledged > 0


def strike(load: Load, rng: random.Random) -> None:
    match rng.randrange(12):
        case 0:
            load.kill_tree()
        case 1:
            load.stop()
        case 2:
            pids = [actor.pid for actor in load.actors().values() if actor.pid > 0]
            for pid in [*pids, *(worker.process.pid for worker in load.workers)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            load.kill_tree()
        case 3 | 4 | 5 | 6:
            load.kill_worker("chain")
        case _:
            name = rng.choice(ACTORS)
            until(lambda: load.kill_actor(name), f"{name} to live")


def test_what_went_wrong_is_told() -> None:
    """Goal: the account can fail. Method: a message too few, one twice, two in the wrong order."""
    right = [(1, number, 5) for number in range(4)]
    assert differences("here", right, right) == []
    assert "1 are missing" in differences("here", right[1:], right)[0]
    assert "1 come twice" in differences("here", [*right, right[0]], right)[0]
    assert differences("here", [right[1], right[0], *right[2:]], right) != []
    assert "1 are wrong" in differences("here", [(1, 0, 6), *right[1:]], right)[0]
