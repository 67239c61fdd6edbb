"""Retries and dead letters over a change of brokers: RocketMQ goes on with those of OrbitMQ's workers, and the other way round.

Goal: a message that failed under one broker is tried again under the other, with its count, and what is dead under one is a
dead letter of the same group under the other. Method: workers, and a push consumer of RocketMQ's that fails where it is told
to."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.session import WorkSession
from tests.interop.judge import Files, Judge
from tests.interop.ours import broker_on
from tests.waiting import WATCHDOG_S, until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

GROUP, TOPIC = "billing", "orders"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
SOON, NEVER = 3, -1  # levels: after 10 s, within which each is given back once; to the dead letters


def take(worker: WorkSession) -> HandOut:
    (found,) = worker.take(1, WATCHDOG_S)
    return found


def bodies(shown: list[dict[str, Any]]) -> dict[bytes, dict[str, Any]]:
    found = {base64.b64decode(each["body"]): each for each in shown}
    assert len(found) == len(shown)
    return found


def letters(broker: orbitmq.Client, count: int) -> dict[bytes, tuple[int, str, str]]:
    """By body: tries, topic, reason."""

    def there() -> bool:
        return GROUP in broker.dead_letter_groups() and len(broker.dead_letters(GROUP).list()) >= count

    until(there, f"{count} dead letters")
    found = broker.dead_letters(GROUP).list()
    assert len(found) == count
    return {bytes(each.body): (each.tries, each.topic, each.reason) for each in found}


def test_rocketmq_goes_on(judge: Judge, tmp_path: Path) -> None:
    """Three jobs fail under OrbitMQ: one for good, two for now. RocketMQ's consumer gets these two, fails again with one, and
    gives up the other. OrbitMQ's worker gets the former with its count, and that was its last try."""
    store, files = tmp_path / "store", Files()
    with broker_on(store, files) as broker:
        broker.create_topic(TOPIC, 1)
        with broker.producer() as producer:
            sent = [producer.send(TOPIC, body, tags="paid", keys=f"k-{body.decode()}") for body in (b"dead", b"now", b"later")]
        with broker.work_session(GROUP, [TOPIC], in_hand=2, max_tries=3) as worker:
            for _ in range(3):
                each = take(worker)
                assert bytes(each.message.body) == b"dead"
                worker.nack(each, delay=0, reason="dead failed")
            # These come again after 10 s, which may pass here on a busy machine. So both are in hand before either fails, and
            # nothing is taken after that.
            for each, body in zip([take(worker), take(worker)], (b"now", b"later"), strict=True):
                assert bytes(each.message.body) == body
                worker.nack(each, reason=f"{body.decode()} failed")
            assert worker.settled(WATCHDOG_S) == []
        assert letters(broker, 1) == {b"dead": (3, TOPIC, "dead failed")}
        until(
            lambda: not sum(each.lag_messages for each in broker.group(GROUP).queues if each.topic == TOPIC),
            "the group's floor",
        )
    judge.start(store, files)
    assert judge.committed(TOPIC, GROUP) == {0: 3}
    came = bodies(judge.ask("consume", topic=TOPIC, group=GROUP, count=2, failing={"now": SOON, "later": NEVER}))
    assert came.keys() == {b"now", b"later"}
    for receipt, body in ((sent[1], b"now"), (sent[2], b"later")):
        shown = came[body]
        assert (shown["reconsumed"], shown["tags"], shown["keys"]) == (1, "paid", f"k-{body.decode()}")
        # RocketMQ's client shows a retry under the topic that it was sent to.
        assert shown["topic"] == TOPIC and shown["properties"]["ORIGIN_MESSAGE_ID"] == receipt.id
        assert shown["properties"]["FAILURE_REASON"] == f"{body.decode()} failed"
    # RocketMQ answers what is given back before it can be pulled.
    until(lambda: sum(end for _, end in judge.bounds(DEAD).values()) == 2, "the dead letters")
    dead = bodies(judge.ask("pull", topic=DEAD))
    assert {body: shown["properties"]["ORIGIN_MESSAGE_ID"] for body, shown in dead.items()} == {
        b"dead": sent[0].id, b"later": sent[2].id,
    }  # fmt: skip
    judge.stop()
    with broker_on(store, files) as broker, broker.work_session(GROUP, [TOPIC]) as worker:
        again = []  # of the two retries, what RocketMQ 4.9.3 did not write down as delivered
        while (each := take(worker)).delivery == 2:
            again.append(bytes(each.message.body))
            worker.ack([each])
        assert len(again) == len(set(again)) and set(again) <= {b"now", b"later"}
        assert (bytes(each.message.body), each.message.topic, each.delivery) == (b"now", RETRY, 3)
        worker.nack(each, reason="once more")
        assert worker.settled(WATCHDOG_S) == []
        found = letters(broker, 3)
        assert found[b"now"] == (3, TOPIC, "once more") and found[b"later"][:2] == (2, TOPIC)


def test_orbitmq_goes_on(judge: Judge, tmp_path: Path) -> None:
    """Jobs fail under RocketMQ, which makes the topics; OrbitMQ's workers retry them, and find the dead."""
    store, files = tmp_path / "store", Files()
    judge.start(store, files)
    judge.ask("create", topic=TOPIC, queues=1)
    judge.ask("createGroup", group=GROUP)
    content = [{"queue": 0, "body": base64.b64encode(body).decode(), "tags": "", "keys": "", "properties": {}, "flag": 0}
               for body in (b"again", b"dead", b"done")]  # fmt: skip
    judge.ask("send", topic=TOPIC, batches=[[each] for each in content])
    judge.ask("consume", topic=TOPIC, group=GROUP, count=3, failing={"again": SOON, "dead": NEVER})
    until(lambda: judge.topics().keys() >= {RETRY, DEAD}, "RocketMQ's topics")
    judge.stop()
    with broker_on(store, files) as broker:
        assert letters(broker, 1)[b"dead"][1] == TOPIC
        with broker.work_session(GROUP, [TOPIC], max_tries=3) as worker:
            each = take(worker)
            assert (bytes(each.message.body), each.message.topic, each.delivery) == (b"again", RETRY, 2)
            worker.nack(each, delay=0)
            each = take(worker)
            assert each.delivery == 3
            worker.nack(each, reason="given up")
            assert worker.settled(WATCHDOG_S) == []
            assert letters(broker, 2)[b"again"] == (3, TOPIC, "given up")
    judge.start(store, files)
    assert bodies(judge.ask("pull", topic=DEAD)).keys() == {b"dead", b"again"}
    assert set(judge.committed(RETRY, GROUP).values()) == {1}
