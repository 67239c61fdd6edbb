"""The command behind scripts/recovery_time: recovers stores of several sizes after every kind of end.

A broker writes a store and stops. Then the signs of the store are set to those of a broker that ended in another way, with so
much of the log behind the flushed position. The store is recovered in this process, as the child of a start does it. Pages of
the log are in memory or not, as writing has left them; `cold` has the tail dropped from memory first. Everything is on disk
before the clock starts. The time that recovery waits for the disk, which it does a few times, is counted separately.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orbitmq
from orbitmq.store import abort, positions
from orbitmq.store.commit_log.mapped_file import list_starts
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.recover import recover
from orbitmq.store.settings.settings import StoreSettings

GIB, MIB = 1 << 30, 1 << 20
BODY = 16 << 10
TAILS_MIB = (0, 64, 256, 1024)
NAME = "recovery-time"


def write(root: Path, size: int) -> int:
    """Sends `size` bytes in messages of BODY bytes; returns the end of the log."""
    body = os.urandom(BODY)
    bodies = [body] * 64
    with orbitmq.Broker(root, name=NAME) as broker:
        broker.create_topic("t", 8)
        with broker.producer() as producer:
            sent = 0
            while sent < size:
                producer.send_batch("t", bodies)
                sent += len(bodies) * BODY
    recorded = positions.load(StoreLayout.at(root))
    assert recorded is not None and recorded.clean
    return recorded.wrote


def boundary(layout: StoreLayout, end: int, tail: int) -> int:
    """A record boundary about `tail` bytes before the log's end. One of the queues' units names it."""
    from orbitmq.store.consume_queue import ConsumeQueue

    queue = ConsumeQueue(layout.root, "t", 0, StoreSettings().queue_file_units)
    low, high = 0, queue.extent().max_offset - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if queue.unit(middle).physical_offset <= end - tail else (low, middle - 1)
    return queue.unit(low).physical_offset


def set_ending(layout: StoreLayout, flushed: int, store_ms: int, *, power: bool) -> None:
    """Sets the signs of a broker that ran, and had flushed up to here."""
    abort.create(layout)
    layout.positions.unlink()
    boot = positions.boot_id
    if power:
        positions.boot_id = lambda: b"another boot id."
    record = Positions(layout)
    positions.boot_id = boot
    record.record(flushed, store_ms)
    record.sync()
    record.close()


def drop(layout: StoreLayout, start: int) -> None:
    """Drops the log from `start` on from memory."""
    size = StoreSettings().log_file_size
    for first in list_starts(layout, size):
        if first + size > start:
            descriptor = os.open(layout.log_file(first), os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class Syncs:
    """Counts the time that this process spends in fsync and fdatasync."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._timed(getattr(os, name)))

    def _timed(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            began = time.perf_counter()
            real(descriptor)
            self.seconds += time.perf_counter() - began

        return call


def measure(root: Path, size: int) -> None:
    began = time.monotonic()
    end = write(root, size)
    layout, settings = StoreLayout.at(root), StoreSettings()
    files = len(list_starts(layout, settings.log_file_size))
    print(f"{end / GIB:.1f} GiB in {files} files, written in {time.monotonic() - began:.0f} s", flush=True)
    small = {path: path.read_bytes() for path in (layout.positions, layout.reput, layout.checkpoint)}
    recorded = positions.load(layout)
    assert recorded is not None

    syncs = Syncs()

    def once(name: str, tail: int, *, ended: bool, power: bool = False, cold: bool = False) -> None:
        for path, content in small.items():
            path.write_bytes(content)
        layout.abort.unlink(missing_ok=True)
        flushed = boundary(layout, end, tail) if tail else end
        if ended:
            set_ending(layout, flushed, recorded.store_ms, power=power)
        if cold:
            drop(layout, flushed)
        os.sync()
        syncs.seconds, start = 0.0, time.perf_counter()
        report = recover(layout, settings, lambda line: None)
        took = time.perf_counter() - start - syncs.seconds
        assert report.end == end
        read = (end - report.scanned_from) / MIB
        times = f"{took * 1000:9.1f} ms, and {syncs.seconds * 1000:7.1f} ms for the disk"
        print(f"  {name:14} {tail / MIB:6.0f} MiB unflushed {read:8.0f} MiB read {times}", flush=True)

    once("stopped", 0, ended=False)
    for mib in TAILS_MIB:
        if mib * MIB < end:
            once("killed", mib * MIB, ended=True)
    once("killed, cold", 64 * MIB, ended=True, cold=True)
    once("power cut", 64 * MIB, ended=True, power=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=int, nargs="+", default=[1, 10])
    options.add_argument("--folder", type=Path, help="where the stores are made; default: the folder for temporary files")
    chosen = options.parse_args()
    for size in chosen.gigabytes:
        root = Path(tempfile.mkdtemp(prefix="orbitmq-recovery-", dir=chosen.folder))
        try:
            measure(root, size * GIB)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
