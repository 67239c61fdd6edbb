"""Goal: a repair that is killed anywhere has lost nothing: run again it ends well, and so does a broker that is started
instead.

Method: a store with damage of every kind; a repair that dies of SIGKILL at each crash point that it passes, at the first
passage and at a later one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.native._types import Reader
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.verify import verify
from tests.crash import crash_build
from tests.crash.crash_build import OF_REPAIR
from tests.crash.crash_plan import CrashPlan
from tests.waiting import WATCHDOG_S

BODIES = [b"%d." % number + bytes([number % 251]) * (number * 37 % 200) for number in range(400)]
DAMAGED = (50, 51, 200, 399)
PARTS = {
    "skip": OF_REPAIR | {"abort", "atomic_file", "consume_queue", "index_file", "index_log", "positions", "recovery", "reput"},
    "cut": OF_REPAIR | {"log_cut", "recovery"},
}
MAYBE = {"index_file"}  # what only a rollback or a roll passes
OFTEN = {"repair_log_written", "reput_indexed", "index_log_committed", "atomic_file_renamed", "positions_written"}
FILLING = {"repair_log_kept", "repair_log_written", "repair_log_filled"}
SIZES = {"log_file_size": 64 << 10, "queue_file_units": 40, "index_slots": 61, "index_entries": 150}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Damages records, units, a queue's file, the index and the topics."""
    crash_build.build()
    store = tmp_path_factory.mktemp("kills") / "store"
    receipts = []
    with orbitmq.Broker(store, name="kills", handlers=1, **SIZES) as broker:
        broker.create_topic("T", 2)
        broker.create_topic("U", 1)  # the second file of topics has a .bak
        with broker.producer() as producer:
            for number, body in enumerate(BODIES):
                receipts.append(producer.send("T", body, queue=number % 2, keys=[f"k{number}"]))
    layout = StoreLayout.at(store)
    for number in DAMAGED:
        place = receipts[number].physical_offset
        with layout.log_file(place - place % SIZES["log_file_size"]).open("r+b") as file:
            file.seek(place % SIZES["log_file_size"] + 88)
            file.write(b"\xff\xfe\xfd")
    units = sorted(layout.queue_folder("T", 0).iterdir())
    units[0].write_bytes(units[0].read_bytes()[:-20])
    with sorted(layout.queue_folder("T", 1).iterdir())[2].open("r+b") as file:
        file.write(bytes(100))
    emptied = layout.queue_folder("U", 0) / f"{20 * SIZES['queue_file_units']:020d}"
    emptied.parent.mkdir(parents=True, exist_ok=True)
    emptied.write_bytes(bytes(10))
    sorted(layout.index.iterdir())[0].unlink()
    (layout.index / "letter").write_text("dear")
    (layout.config / "topics.json").write_text("{")
    (layout.config / "delayOffset.json").write_text("{")
    with layout.log_file(0).open("ab") as log:
        log.write(b"too much")
    return store


@pytest.fixture
def store(damaged: Path, tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(damaged, tmp_path / "store")


def repair(store: Path, choice: str, plan: CrashPlan | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbitmq.cli.main", "repair", "--store", str(store), f"--{choice}", "--yes", "--json"],
        env={**os.environ, **(crash_build.environment(plan.path if plan else None))},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )


def served(store: Path) -> dict[tuple[int, int], bytes]:
    """What a broker delivers, by queue and queue offset."""
    found = {}
    with orbitmq.Broker(store, name="kills", handlers=1, **SIZES) as broker:
        [topic] = [topic for topic in broker.status().topics if topic.name == "T"]
        ends = {("T", queue.queue): queue.max_offset for queue in topic.queues}
        with broker.consumer(None, topics=["T"], start="earliest") as consumer:
            while any(position < ends[key] for key, position in consumer.position().items()):
                found.update({(each.queue, each.offset): bytes(each) for each in consumer.poll_batch(500, timeout=0)})
    return found


def stored(store: Path) -> dict[tuple[int, int], bytes]:
    """The same without a broker."""
    reader = Reader(store=str(store), log_file_size=SIZES["log_file_size"], queue_file_units=SIZES["queue_file_units"])
    ends = [ConsumeQueue(store, "T", queue, SIZES["queue_file_units"]).extent().max_offset for queue in range(2)]
    for queue, end in enumerate(ends):
        reader.add_offline("T", queue, 0, end)
    found = {}
    while list(reader.positions()) != ends:
        found.update({(each.queue, each.offset): bytes(each) for each in reader.messages(500)})
    return found


def expected(choice: str) -> dict[tuple[int, int], bytes]:
    end = len(BODIES) if choice == "skip" else DAMAGED[0]
    return {(number % 2, number // 2): BODIES[number] for number in range(end) if number not in DAMAGED}


@pytest.mark.parametrize(("choice", "stem"), [(choice, stem) for choice, stems in PARTS.items() for stem in sorted(stems)])
def test_killed_at_every_point(store: Path, choice: str, stem: str, tmp_path: Path, damaged: Path) -> None:
    """If recovery has begun already, every other time a broker is started instead of a second repair."""
    plan = CrashPlan(tmp_path / "plan")
    passed: set[str] = set()
    points = [point for point, part in crash_build.points().items() if part == stem]
    for point in points:
        for passage in (1, 4) if point in OFTEN else (1,):
            shutil.rmtree(store)
            shutil.copytree(damaged, store)
            plan.arm(point, passage=passage)
            done = repair(store, choice, plan)
            plan.disarm()
            if not plan.victim(point):
                assert done.returncode == 0, (point, done)
                break
            assert done.returncode == -signal.SIGKILL, (point, done)
            passed.add(point)
            if StoreLayout.at(store).abort.exists() and len(passed) % 2:
                assert served(store) == expected(choice), (point, passage)
            else:
                again = repair(store, choice)
                assert again.returncode == 0 and json.loads(again.stdout.splitlines()[-1])["whole"], (point, passage, again)
                assert stored(store) == expected(choice), (point, passage)
            verdict = verify(StoreLayout.at(store), StoreSettings(**SIZES), lambda finding: None)
            assert verdict.whole, (point, passage, verdict.faults)
    if stem in OF_REPAIR:
        assert set(points) - (FILLING if choice == "cut" else set()) <= passed
    else:
        assert passed or stem in MAYBE
