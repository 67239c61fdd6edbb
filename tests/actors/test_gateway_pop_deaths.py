"""Goal: nothing that clients pop is lost, or comes again once its acknowledgement was answered, whichever process of the broker
is killed, or all of them. Method: as test_gateway_pop.py; tests/crash/test_points.py kills at every step."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.actors.failing_disk import kill_tree
from tests.actors.pop_client import SUCCESS, Popped, Popper, one, send
from tests.trees import kill, small_broker
from tests.waiting import until


@pytest.mark.parametrize("victim", ["gateway", "dispatcher", "coordinator", "reput"])
def test_deaths(tmp_path: Path, victim: str) -> None:
    """Nothing is lost, and nothing comes again once it was done. With the gateway its leases end: what clients had comes
    again, and their receipts change nothing."""
    rng = random.Random(victim)
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, broker.producer() as producer:
        broker.create_topic("t", 4)
        popper = Popper(broker.status().listens, "g", "t")
        open_: dict[bytes, Popped] = {}
        done: set[bytes] = set()
        for n in range(80):
            producer.send("t", b"%d" % n, queue=n % 4)

        def got(found: list[Popped]) -> None:
            for each in found:
                assert each.body not in done, "what is done comes again"
                open_[each.body] = each

        def settle() -> None:
            for body in rng.sample(sorted(open_), min(5, len(open_))):
                each = open_.pop(body)
                assert popper.ack(each) == SUCCESS
                done.add(body)

        for _ in range(6):
            got(popper.pop(rng.randint(1, 8), poll_ms=1))
            settle()
            if rng.random() < 0.5:
                popper.put(3)
                kill(broker, victim)
                if victim != "gateway":
                    got(popper.take())
            else:
                kill(broker, victim)
            if victim == "gateway":
                popper.remote.socket.close()
                popper = Popper(broker.status().listens, "g", "t")
                for each in open_.values():
                    assert popper.ack(each) == SUCCESS, "of no effect"
                open_.clear()

        def finished() -> bool:
            got(popper.pop(poll_ms=1))
            settle()
            return len(done) == 80

        until(finished, "the rest")
        assert popper.pop(poll_ms=1) == []
        popper.remote.socket.close()


def test_the_whole_tree(tmp_path: Path) -> None:
    """What was acknowledged, and answered, is done for the next broker on the store, out of order too."""
    done: set[bytes] = set()
    for life in range(3):
        with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
            if not life:
                broker.create_topic("t", 4)
                send(broker, *[b"%d" % n for n in range(40)])
            with Popper(broker.status().listens, "g", "t") as popper:
                for n in range(16 if life < 2 else 40 - len(done)):
                    each = one(popper)
                    assert each.body not in done, "what is done comes again"
                    if n % 2 or life == 2:
                        assert popper.ack(each) == SUCCESS
                        done.add(each.body)
                popper.put()  # held over the end
                if life == 0:  # no time to write anything down
                    kill_tree(broker)
    assert len(done) == 40
