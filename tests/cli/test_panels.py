"""Goal: the picture of a broker shows what is wrong with it, and no name that somebody chose can change how it looks. Method: a
status made by hand (made_status.py), as text."""

from __future__ import annotations

import errno
import os
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from orbitmq.cli.looks import Between, Look
from orbitmq.cli.panels import summary_line, whole_picture
from orbitmq.client.admin.status import GroupQueueStatus, MemberStatus
from orbitmq.shm.death import Death
from tests.cli.made_status import actor, group, positions, session, status, topic


def shown(queues: bool = False, **changed: Any) -> str:
    console = Console(width=400, color_system=None, highlight=False)
    now = status(**changed)
    with console.capture() as capture:
        console.print(whole_picture(Between(Look(now, at=0), Look(now, at=1)), queues))
    return capture.get()


def test_a_broker_that_is_well() -> None:
    told = shown()
    assert told.startswith("health ok\n") and "broker default" in told and "no topics yet" in told
    assert "flushed every 500 ms, or on demand" in told and "kept 72 hours (3 days)" in told
    assert "0 producing, 0 consuming" in told


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({"flush": "batch"}, ["every receipt waits for the disk"]),
        ({"retention_hours": 0, "retention_bytes": 1 << 30}, ["kept for ever, 1.0 GiB"]),
        ({"clock_ahead_ms": 7_200_000}, ["degraded", "the clock is 120 min ahead", "orbitmq clock"]),
        ({"positions": positions(flushed_error=errno.EIO)}, ["refusing", "sends are refused until the broker is restarted"]),
        (
            {"positions": positions(flushed_error=errno.EIO), "after_failed_sync": "go-on"},
            ["degraded", "what is sent may never be on disk"],
        ),
        ({"positions": positions(wrote_error=errno.ENOSPC)}, ["refusing", f"stopped: {os.strerror(errno.ENOSPC)}"]),
        ({"positions": positions(allocated_error=errno.ENOSPC)}, ["no file to go on in"]),
        ({"positions": positions(queues_error=errno.EIO)}, ["queues and index not synced", "nothing expires"]),
        ({"state": "stopping"}, ["degraded: the broker is stopping"]),
        ({"positions": positions(min_offset=0, wrote=0)}, ["empty"]),
        ({"oldest_ms": 1_700_000_000_000}, ["oldest message 2023-11-1"]),
        ({"positions": positions(min_offset=5)}, ["oldest message cannot be read"]),
        ({"notes": ("topics.json was read from its .bak",)}, ["note  topics.json was read from its .bak"]),
        ({"sessions": (session(64), session(64), session(0))}, ["2 producing, 1 consuming"]),
        ({"open_transactions": 1234}, ["transactions  1,234 open (orbitmq transactions list)"]),
        ({"open_transactions": 1, "oldest_transaction_ms": 1}, ["1 open, the oldest for ", " min (orbitmq"]),
    ],
)
def test_what_is_to_be_seen(changed: dict[str, Any], texts: list[str]) -> None:
    told = shown(**changed)
    for text in texts:
        assert text in told


def test_last_words() -> None:
    """The newest of them, on lines of their own, whatever characters they have."""
    words = tuple(f"line {number} [x]\x1b[2J" for number in range(10))
    told = shown(deaths=(Death("flush", 7, 1, time.time() - 185, "SIGABRT", words),)).splitlines()
    place = told.index("died  flush, process 7, 3 min ago: SIGABRT")
    assert [line.strip() for line in told[place + 1 :]] == [f"line {number} [x]\\x1b[2J" for number in range(5, 10)]


def test_processes() -> None:
    told = shown(
        actors=(
            actor(
                "writer",
                counters={"messages": 1234, "full": 2, "rejected": 5},
                refused={"store_full": 4, "fenced": 1},
                quantiles={0.5: 1000, 0.99: 2500},
            ),
            actor("flush", quantiles={0.5: 100, 0.99: 1_500_000}, epoch=3),
            actor("reput", state="failed", pid=0, error=errno.ENOSPC, heartbeat_age_ms=60_000),
        )
    ).splitlines()
    writer, flush, reput = (next(line for line in told if line.startswith(name + " ")) for name in ("writer", "flush", "reput"))
    assert "5 rejected, 4 store full, 1 fenced" in writer
    assert "1,234" in writer and "2 waits for room, write groups of 1,000 (p99 2,500)" in writer
    assert "sync p50 0 ms, p99 1.5 s" in flush and " 3 " in flush
    assert "failed" in reput and " - " in reput and "60.0 s" in reput and f"stopped by {os.strerror(errno.ENOSPC)}" in reput


TOPICS = (topic("orders", (10, 30), (0, 5), retention_hours=0, durability="flushed"), topic("bills", (0, 0)))
GROUPS = (
    group(
        "g",
        GroupQueueStatus("orders", 0, 12, 18, 7),
        GroupQueueStatus("orders", 1, 5, 0, 0),
        members=(MemberStatus(77, 3, ("orders",), (("orders", 0), ("orders", 1)), (("orders", 1),)),),
    ),
    group("idle"),
)


def test_topics_and_groups() -> None:
    told = shown(topics=TOPICS, groups=GROUPS).splitlines()
    orders = next(line for line in told if line.startswith("orders"))
    assert orders.split() == ["orders", "2", "10", "35", "25", "0", "for", "ever", "flushed"]
    mine = next(line for line in told if line.startswith("g "))
    assert "77 (2, 1 leaving)" in mine and mine.split()[-3:] == ["18", "0", "7"]
    assert "none now" in next(line for line in told if line.startswith("idle"))


def test_every_queue() -> None:
    told = shown(queues=True, topics=TOPICS, groups=GROUPS)
    assert "committed 12 " in told and "committed 5 leaving" in told and "orders/1" in told
    assert len(shown(queues=True, topics=TOPICS).splitlines()) == len(shown(topics=TOPICS).splitlines()) + 3


@settings(max_examples=30)
@given(st.text(alphabet="a[]/ bold-red", min_size=1, max_size=12))
def test_names_are_no_markup(name: str) -> None:
    """A store, a note or a group may be called anything, [/] included."""
    told = shown(store=f"/{name}x", notes=(f"{name}x",), groups=(group(f"{name}x"),))
    assert f"/{name}x" in told and f"note  {name}x" in told


def test_one_line() -> None:
    now = status(positions=positions(wrote=8192, flushed=4096), groups=GROUPS, sessions=(session(1),))
    before = status(positions=positions(wrote=4096))
    told = summary_line(Between(Look(before, at=0), Look(now, at=2)))
    assert "running" in told and "2.0 KiB/s" in told and "4.0 KiB not yet on disk" in told and told.endswith("lag 18")
    assert "all on disk" in summary_line(Between(Look(before, at=0), Look(before, at=1)))
