"""Goal: what a query has planned is read, also if recovery has taken it out of the queues for a moment; what does not come back
is named. Method: queues that lose files or units, beside a broker that starts, one that runs, and none."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.store.consume_queue import UNIT_SIZE
from orbitmq.tables import extents, slice_reader
from orbitmq.tables.choice import Choice
from orbitmq.tables.planning import Slice
from orbitmq.tables.selection import Selection
from tests.tables.stored_topics import StoredTopics
from tests.trees import actors, small_broker
from tests.waiting import WATCHDOG_S, until

COUNT = 120  # in queues of files of 50 units
WANTED = Selection(choice=Choice("subscribe", ("orders",)), columns=("value",))


def read(snapshot: extents.Snapshot) -> list[bytes]:
    sizes = (snapshot.log_file_size, snapshot.queue_file_units)
    slices = [Slice("orders", queue, *bounds) for queue, bounds in snapshot.topics["orders"].items()]
    found = slice_reader.read_slices(str(snapshot.root), sizes, slices, WANTED, rows=10)
    return [body for batch in found for body in batch.column("value").to_pylist()]


def files(root: Path) -> list[Path]:
    return sorted((root / "consumequeue/orders/0").iterdir())


def lose_a_file(root: Path) -> None:
    files(root)[-1].unlink()


def lose_units(root: Path) -> None:
    with files(root)[-1].open("r+b") as file:
        file.write(bytes(20 * UNIT_SIZE))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    store = StoredTopics(tmp_path / "store")
    store.add("orders", 1)
    for number in range(COUNT):
        store.send("orders", b"%d" % number)
    return store.root


@pytest.mark.parametrize("lose", [lose_a_file, lose_units])
def test_it_comes_back(stored: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None]) -> None:
    snapshot = extents.of_store(stored)
    whole = files(stored)[-1].read_bytes()
    looks: list[str] = []

    def is_filling(root: str) -> bool:
        looks.append(root)
        if len(looks) == 3:
            files(stored)[1].with_name(f"{2 * 50 * UNIT_SIZE:020}").write_bytes(whole)
        return True

    monkeypatch.setattr(slice_reader, "AWAY_S", WATCHDOG_S)
    monkeypatch.setattr(extents, "is_filling", is_filling)
    lose(stored)
    assert read(snapshot) == [b"%d" % number for number in range(COUNT)]
    assert looks == [str(stored)] * 3


@pytest.mark.parametrize(("lose", "error"), [(lose_a_file, StoreError), (lose_units, CorruptRecord)])
def test_it_stays_away(
    stored: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None], error: type[StoreError]
) -> None:
    snapshot = extents.of_store(stored)
    monkeypatch.setattr(slice_reader, "AWAY_S", 0.1)
    lose(stored)
    with pytest.raises(error, match="100"):
        read(snapshot)


def fill(broker: orbitmq.Broker) -> list[bytes]:
    broker.create_topic("orders", 1)
    bodies = [b"%d" % number for number in range(COUNT)]
    with broker.producer() as producer:
        producer.send_batch("orders", bodies, durability="flushed")
    return bodies


def test_a_broker_fills_its_queues_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was killed, and its queues were removed; the query reads as soon as the next one has started."""
    monkeypatch.setattr(slice_reader, "AWAY_S", WATCHDOG_S)
    with small_broker(tmp_path, queue_file_units=50) as broker:
        bodies = fill(broker)
        snapshot = extents.of_store(tmp_path)
        for pid in (broker.pid, *(actor.pid for actor in actors(broker).values())):
            with suppress(ProcessLookupError):  # they end with the first of them
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(tmp_path / "consumequeue")
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.extend(read(snapshot)))
    reading.start()
    until(lambda: "a broker that starts fills it again" in caplog.text or not reading.is_alive())
    with small_broker(tmp_path, queue_file_units=50):
        reading.join(WATCHDOG_S)
    assert found == bodies


def test_a_broker_that_runs_has_lost_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes it again, so nothing is waited for."""
    monkeypatch.setattr(slice_reader, "AWAY_S", 100 * WATCHDOG_S)
    with small_broker(tmp_path, queue_file_units=50) as broker:
        fill(broker)
        snapshot = extents.of_store(tmp_path)
        lose_a_file(tmp_path)
        with pytest.raises(StoreError, match="at offset 100: No such file"):
            read(snapshot)
