"""Goal: what RocketMQ's push consumer, unchanged, gives back to OrbitMQ comes to its group again, and is a dead letter in the
end, as with RocketMQ's own broker.

Method: a group consumes the same letters from both brokers and fails with the same ones. What came, and the records of the
group's own topics, are compared field by field; then a gateway is killed while a group fails.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop.judge import Files, Judge
from tests.interop.letters import of_rocketmq
from tests.interop.ours import SMALL_FILES, broker_on, visiting
from tests.trees import kill
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

NAME, GROUP, TOPIC = "judged", "billing", "orders"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
# What RocketMQ leaves on a dead letter of what its client sent; and what OrbitMQ notes.
NOTES = ("DELAY", "REAL_TOPIC", "REAL_QID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "WAIT")
SOON, NEVER, MOST = 1, -1, 2  # levels: after a second; to the dead letters; retries
FAILING = {"hard": SOON, "dead": NEVER}
# Times and places, and the notes of a broker that say them or its name.
OWN = {"physical_offset", "size", "born_ms", "stored_ms", "id"}


def letter(body: str) -> dict[str, Any]:
    return {
        **{"queue": 0, "body": base64.b64encode(body.encode()).decode(), "tags": "paid", "keys": f"k-{body}"},
        **{"properties": {"colour": "blue"}, "flag": 7},
    }


@dataclass(frozen=True)
class Seen:
    """What came to the group, and what its topics hold in the end."""

    came: list[dict[str, Any]]
    retries: list[dict[str, Any]]
    dead: list[dict[str, Any]]


def told(shown: dict[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Without what no two brokers have in common; ids by the body of the message that they name."""
    properties = {name: value for name, value in shown["properties"].items() if name not in ("CLUSTER", "UNIQ_KEY")}
    if (origin := properties.get("ORIGIN_MESSAGE_ID")) is not None:
        properties["ORIGIN_MESSAGE_ID"] = origins[origin]
    return {**{name: value for name, value in shown.items() if name not in OWN}, "properties": properties}


def fail(judge: Judge) -> Seen:
    """Two letters fail: one for good, the other as often as it may. A third does not."""
    bodies = ["good", *FAILING]
    receipts = judge.ask("send", topic=TOPIC, batches=[[letter(body)] for body in bodies])
    origins = {id: body for body, (_, _, id) in zip(bodies, receipts, strict=True)}
    came = judge.ask("consume", topic=TOPIC, group=GROUP, count=len(bodies) + MOST, failing=FAILING, most=MOST)
    until(lambda: sum(most for _, most in judge.bounds(DEAD).values()) == len(FAILING), "the dead letters")
    retries, dead = (judge.ask("pull", topic=topic) for topic in (RETRY, DEAD))
    return Seen(*([told(shown, origins) for shown in found] for found in (came, retries, dead)))


def ordered(shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without their order: two letters that fail at once may be given back in either."""
    return sorted(({**each, "offset": None} for each in shown), key=lambda each: (each["body"], each["reconsumed"]))


def test_as_with_rocketmq(judge: Judge, tmp_path: Path) -> None:
    judge.start(tmp_path / "theirs", Files())
    judge.ask("create", topic=TOPIC, queues=1)
    judge.ask("createGroup", group=GROUP)
    theirs = fail(judge)
    judge.stop()
    with broker_on(tmp_path / "ours", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        broker.create_topic(TOPIC, 1)
        with visiting(judge, broker):
            ours = fail(judge)
        found = {bytes(each.body): (each.tries, each.topic) for each in broker.dead_letters(GROUP).list()}
    assert found == {b"hard": (MOST + 1, TOPIC), b"dead": (1, TOPIC)}
    assert Counter(each["reconsumed"] for each in ours.came) == {0: 3, 1: 1, 2: 1}
    assert (len(ours.retries), len(ours.dead)) == (MOST, len(FAILING))
    assert ordered(ours.came) == ordered(theirs.came)
    assert ordered(ours.retries) == ordered(theirs.retries)
    for each in theirs.dead:  # RocketMQ leaves there what the last retry had, with the level 0
        assert each["properties"].pop("DELAY") == "0"
        for name in ("REAL_TOPIC", "REAL_QID"):
            each["properties"].pop(name, None)
    assert ordered(ours.dead) == ordered(theirs.dead)


def test_a_gateway_that_is_killed(judge: Judge, tmp_path: Path) -> None:
    """While everything fails: each letter is dead in the end, however often it came."""
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        broker.create_topic(TOPIC, 4)
        bodies = [f"{number}" for number in range(200)]
        with broker.producer() as producer:
            for number, body in enumerate(bodies):
                producer.send(TOPIC, body, queue=number % 4)
        with visiting(judge, broker):
            judge.ask("join", member="one", topic=TOPIC, group=GROUP, tags="*", broadcast=False, failing=True)
            seen: set[str] = set()

            def come(count: int) -> bool:
                seen.update(of_rocketmq(each).body.decode() for each in judge.ask("came", member="one"))
                return len(seen) >= count

            for part in (1, 60, 120, 180):
                until(lambda part=part: come(part), f"{part} letters")  # type: ignore[misc]
                kill(broker, "gateway")
            letters = broker.dead_letters(GROUP)
            until(lambda: {bytes(each.body).decode() for each in letters.list()} == set(bodies), "their deaths")
            judge.ask("quit", member="one")


def test_in_order(judge: Judge, tmp_path: Path) -> None:
    """What a group that consumes in order fails with holds up its queue, until it was tried often enough: then Java's client
    sends it to the group's retries, with a count that makes it a dead letter, and goes on. RocketMQ delays it first."""

    def dead_of(member: str, there: Callable[[], bool]) -> list[dict[str, Any]]:
        bodies = ["one", "two"]
        judge.ask("send", topic=TOPIC, batches=[[letter(body)] for body in bodies])
        fields = {"tags": "*", "broadcast": False, "ordered": True, "failing": True, "most": 1}
        judge.ask("join", member=member, topic=TOPIC, group=GROUP, **fields)
        until(lambda: there() and sum(most for _, most in judge.bounds(DEAD).values()) == 2, "the dead letters")
        judge.ask("quit", member=member)
        found = [told(shown, defaultdict(str)) for shown in judge.ask("pull", topic=DEAD)]
        assert [base64.b64decode(shown["body"]).decode() for shown in found] == bodies
        return found

    judge.start(tmp_path / "theirs", Files())
    judge.ask("create", topic=TOPIC, queues=1)
    judge.ask("createGroup", group=GROUP)
    theirs = dead_of("theirs", lambda: DEAD in judge.topics())
    judge.stop()
    with broker_on(tmp_path / "ours", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        broker.create_topic(TOPIC, 1)
        with visiting(judge, broker):
            ours = dead_of("ours", lambda: GROUP in broker.dead_letter_groups())
    for each in theirs + ours:
        for name in NOTES:
            each["properties"].pop(name, None)
    assert ours == theirs
