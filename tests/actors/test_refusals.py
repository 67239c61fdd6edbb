"""Goal: whoever sees that messages are refused sees why (shm/counters.py, native/actors/writer/writer.c). Method: a broker that
refuses for several reasons, also over its writer's death; and the table of reasons against that of verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.native._core import lib
from orbitmq.shm.counters import REASONS
from tests.trees import actors, kill, small_broker
from tests.waiting import until

ROOT = Path(__file__).parents[2]
# Not a refusal: none, stored, and stored before.
OTHERS = {"none", "appended", "duplicate"}


def test_every_verdict_has_its_word() -> None:
    text = (ROOT / "native" / "shared" / "verdict.h").read_text()
    verdicts = {name.lower(): int(number) for name, number in re.findall(r"VERDICT_(\w+) = (\d+),", text)}
    assert {name: number for name, number in verdicts.items() if name not in OTHERS} == REASONS
    [size] = re.findall(r"#define VERDICTS (\d+)u", text)
    assert max(verdicts.values()) + 1 == int(size) <= lib.REFUSALS
    told = (ROOT / "docs" / "monitoring.md").read_text().partition("### Why messages are refused")[2].partition("\n## ")[0]
    rows = (line.split("|")[1] for line in told.splitlines() if line.startswith("| `"))
    assert {word for row in rows for word in re.findall(r"`(\w+)`", row)} == REASONS.keys()


def refused(broker: orbitmq.Client) -> dict[str, int]:
    """By reason, when they make the whole: the writer counts a little after its verdicts."""
    writer = actors(broker)["writer"]
    return writer.refused if sum(writer.refused.values()) == writer.counters["rejected"] else {"other": 0}


def test_each_reason(tmp_path: Path) -> None:
    """By the handler, for what is in the message, and by the writer, for what only it knows; one or many at a time."""
    with small_broker(tmp_path, dedup_ids=1, dedup_window_s=3600) as broker, ExitStack() as stack:
        broker.create_topic("t", 1)
        broker.create_topic("shut", 1)
        producer = stack.enter_context(broker.producer())
        producer.send("shut", b"before")
        assert refused(broker) == {}
        broker.set_permissions("shut", read=True, write=False)
        for deed, error in (
            (lambda: producer.send("shut", b"no"), errors.NoPermission),
            (lambda: producer.send_batch("shut", [b"no"] * 3), errors.NoPermission),
            (lambda: producer.send("t", b"1", dedup="first"), None),
            (lambda: producer.send("t", b"2", dedup="second"), errors.Full),
        ):
            expect(deed, error)
        until(lambda: refused(broker) == {"no_permission": 4, "dedup_full": 1}, "each refusal counted")
        kill(broker, "writer")
        until(lambda: actors(broker)["writer"].epoch == 2, "the writer's next life")
        expect(lambda: producer.send("shut", b"no"), errors.NoPermission)
        until(lambda: refused(broker) == {"no_permission": 5, "dedup_full": 1}, "a successor that goes on")
        assert [each.name for each in broker.status().actors if each.refused] == ["writer"]


def expect(deed: Callable[[], object], error: type[Exception] | None) -> None:
    if error is None:
        deed()
        return
    with pytest.raises(error):
        deed()
