"""Goal: one word says the state of a broker. Method: statuses with each sign alone, and together."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from orbitmq.client.admin.health import Health
from orbitmq.client.admin.status import ActorStatus, Positions, Status

POSITIONS = Positions(**{**dict.fromkeys(Positions.__dataclass_fields__, 0), "wrote": 100, "allocated": 1 << 20})


def status(
    state: str = "running",
    read_only: bool = False,
    actor: str = "running",
    after: str = "refuse",
    clock: int = 0,
    lost: tuple[str, ...] = (),
    beat_ms: int = 0,
    **positions: int,
) -> Status:
    actors = (ActorStatus("writer", actor, 1, 1, 0, beat_ms, {}, {}),)
    fields: dict[str, Any] = {name: None for name in Status.__dataclass_fields__}
    fields |= {"state": state, "read_only": read_only, "message_max": 4096, "actors": actors}
    fields |= {"after_failed_sync": after, "clock_ahead_ms": clock, "lost": lost}
    return Status(**{**fields, "positions": replace(POSITIONS, **positions)})


@pytest.mark.parametrize(
    ("seen", "state", "word"),
    [
        (status(), "ok", ""),
        (status(state="stopping"), "degraded", "stopping"),
        (status(actor="failed"), "degraded", "writer"),
        (status(beat_ms=30_001), "degraded", "writer has shown no sign of life for 30 s"),
        (status(beat_ms=30_000), "ok", ""),
        (status(actor="stopped", beat_ms=60_000), "ok", ""),
        (status(flushed_error=errno.EIO), "refusing", "sync"),
        (status(flushed_error=errno.EIO, after="go-on"), "degraded", "sync"),
        (status(queues_error=errno.EIO), "degraded", "queues"),
        (status(clock=3_600_000), "degraded", "clock"),
        (status(lost=("config/topics.json",)), "degraded", "config/topics.json could not be read"),
        (status(reput_error=errno.ENOSPC), "degraded", "No space left"),
        (status(allocated_error=errno.ENOSPC), "degraded", "next log file"),
        (status(allocated_error=errno.ENOSPC, wrote=(1 << 20) - 4000), "refusing", "next log file"),
        (status(wrote_error=errno.EIO), "refusing", "write of the log"),
        (status(read_only=True), "refusing", "read-only"),
        (status(wrote_error=errno.EIO, reput_error=errno.EIO), "refusing", "consumers"),
    ],
)
def test_what_the_signs_come_to(seen: Status, state: str, word: str) -> None:
    assert seen.health.state == state and word in str(seen.health)
    assert str(seen.health).startswith(f"{state}: ") or str(seen.health) == "ok"


def test_more_reasons() -> None:
    assert str(Health("refusing", ("a", "b"))) == "refusing: a; b"


@pytest.mark.parametrize(
    ("seen", "ready", "live"),
    [
        (status(), True, True),
        (status(state="starting"), False, True),
        (status(queues_error=errno.EIO), True, True),
        (status(beat_ms=30_001), False, False),
        (status(wrote_error=errno.ENOSPC), False, True),
    ],
)
def test_what_probes_get(seen: Status, ready: bool, live: bool) -> None:
    assert (seen.health.ready, seen.health.live) == (ready, live)


def test_no_broker_is_neither() -> None:
    none = Health("stopped", ("no broker runs",), running=False)
    assert not none.ready and not none.live
