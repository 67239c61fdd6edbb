"""Goal: `orbitmq group describe` answers for a group of workers why a message is handed to nobody, also in 80 columns. Method:
the command on a broker of the test's; made groups with long names."""

from __future__ import annotations

import json
import os

from rich.console import Console

from orbitmq.cli.group_work import work_picture
from orbitmq.client.admin.status import GroupQueueStatus, GroupStatus
from orbitmq.client.broker.broker import Broker
from orbitmq.client.work.status import FirstLeft, QueueWork, WorkerStatus
from tests.cli.commands import Terminal, run
from tests.waiting import WATCHDOG_S

NAME = ("--name", "flows")
LONG = "a-name-that-takes-more-than-half-of-a-line-of-80"


def test_describe(flows: Broker) -> None:
    with flows.work_session("busy", ["flows"], in_hand=4, visibility=600) as worker:
        taken = []
        while len(taken) < 4:
            taken += worker.take(4 - len(taken), WATCHDOG_S)
        worker.nack(taken[0], delay=3600)
        worker.give_back(taken[1:3])
        assert worker.settled(WATCHDOG_S) == []
        shown = run("group", "describe", "busy", *NAME).stdout
        assert "1 worker " in shown and "lag 3,000" in shown and f"{os.getpid()}" in shown and "1, 60 min" in shown
        with Terminal("group", "describe", "busy", *NAME) as terminal:
            assert terminal.end() == 0 and "deadline in" in terminal.shown
        (record,) = [json.loads(line) for line in run("group", "describe", "busy", *NAME, "--json").stdout.splitlines()]
        assert record["workers"][0]["pid"] == os.getpid() and record["workers"][0]["in_hand_max"] == 4
        assert sum(queue["work"]["waiting"] for queue in record["queues"]) == 1
        assert {queue["work"]["first"]["state"] for queue in record["queues"]} <= {"free", "in hand", "waiting"}
        assert isinstance(record["held_up"], list) and record["dead_letters"] == 0
        assert f"{os.getpid()} works" in run("group", "list", *NAME).stdout
        assert "busy" in run("clients", *NAME).stdout
        flows.pause_group("busy")
        assert "held up  the group is paused" in run("group", "describe", "busy", *NAME).stdout
        told = run("group", "delete", "busy", "--yes", *NAME)
        assert told.returncode == 1 and f"it has 1 worker, of process {os.getpid()}" in told.stderr
        told = run("group", "delete", "busy", *NAME)
        assert told.returncode == 1 and "close its workers first" in told.stderr


def test_a_narrow_terminal() -> None:
    """In 80 columns, names take several lines, and all numbers are still there."""
    work = QueueWork(12_345, 678, 90, 1, 65_535, False, True, 7_200.0, FirstLeft(987_654_321, "in hand", 16, 4_194_304, 99.5))
    queue = GroupQueueStatus(LONG, 11, 987_654_321, 78_649, 0, work)
    worker = WorkerStatus(4_194_304, 1023, (LONG, "[/]"), 65_536, 600.0, 65_536, 678, 99.5)
    console = Console(width=80, soft_wrap=True)
    with console.capture() as capture:
        for part in work_picture(GroupStatus("g", 0, (), (queue,), workers=(worker,))):
            console.print(part)
    told = capture.get()
    assert max(map(len, told.splitlines())) <= 80
    for number in ("987,654,321", "78,649", "12,345", "678", "91, 120 min", "65,535", "65,536", "4194304", "99.5 s", "16"):
        assert number in told, number
    assert "".join(told.split()).count("[/]") == 1
