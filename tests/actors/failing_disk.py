"""What happens on a block device that fails: `failing_disk.py DEED FOLDER RUNTIME_FOLDER`, run by test_failing_disk.py in a
mount namespace of its own.

The device is a loop device over a file on a tmpfs. While the tmpfs has no room, the device refuses every block that was never
written before, as a disk with bad sectors does: files can be reserved, writing to memory works, and the sync fails. The kernel
then treats the pages as written. Unmounting and mounting the file system again shows what the device really has.

The file system can also be shut down, as it does by itself when it cannot write its own blocks any more. Then every system call
that writes is refused, and a store through a mapping, to a page that was written back, causes a SIGBUS.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orbitmq
from orbitmq import errors
from tests.actors.remoting_client import Remote
from tests.actors.small_disk import fill, read
from tests.trees import actors, kill, small_broker
from tests.waiting import dead, until

BODY = bytes(range(250)) * 4
MESSAGES = 5000  # 6 MB of log: around a change the kernel writes up to 2 MiB, which are there before the device fails
LOG_FILE = 16 << 20
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2  # linux/fs/ext4/ext4.h


class Held:
    """A file that stays in memory until `let_go`. The kernel treats a page that it could not write as written, so it may drop
    it at any moment, and machines that reclaim memory ahead of need do."""

    def __init__(self, path: Path, size: int) -> None:
        with path.open("r+b") as file:
            self._pages = mmap.mmap(file.fileno(), size)
        place = ctypes.c_char.from_buffer(self._pages)
        assert ctypes.CDLL(None).mlock(ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(size)) == 0

    def let_go(self) -> None:
        self._pages.close()


class Device:
    """A small file system on a device that can be made to fail."""

    def __init__(self, folder: Path) -> None:
        self.back, self.disk = folder / "back", folder / "disk"
        self.image, self.filler = self.back / "image", self.back / "filler"
        for made in (self.back, self.disk):
            made.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.back))
        with self.image.open("wb") as file:
            file.truncate(256 << 20)
        run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", str(self.image))
        self.mount()
        self.store = self.disk / "store"

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.disk))

    def fail(self) -> None:
        run("sync", "-f", str(self.disk))  # what was written so far has its place on the device
        fill(self.filler)

    def heal(self) -> None:
        self.filler.unlink()

    def hold(self) -> Held:
        return Held(self.store / "commitlog" / f"{0:020}", LOG_FILE)

    def shut_down(self) -> None:
        descriptor = os.open(self.disk, os.O_RDONLY)
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("=I", NO_LOG_FLUSH))
        os.close(descriptor)

    def forget(self) -> None:
        """Drops the memory; what the device has stays. A process of a tree that was killed while it began another one may live
        a moment longer than the others, and holds the disk."""
        until(lambda: subprocess.run(("umount", str(self.disk)), capture_output=True, check=False).returncode == 0, "umount")
        self.mount()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def kill_tree(broker: orbitmq.Broker) -> None:
    pids = [actor.pid for actor in actors(broker).values()]
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: all(map(dead, pids)), "the death of all actors")


def send(producer: orbitmq.Producer, count: int) -> None:
    producer.send_batch("orders", [BODY] * count)


def refused(producer: orbitmq.Producer) -> errors.StoreFailed | None:
    try:
        producer.send("orders", BODY)
    except errors.StoreFailed as error:
        return error
    return None


def read_all(device: Device, count: int) -> None:
    with (
        small_broker(device.store, log_file_size=LOG_FILE) as broker,
        broker.consumer(None, topics=["orders"], start="earliest") as consumer,
    ):
        read(consumer, count)


def the_log(device: Device) -> None:
    """A sync of the log fails. Nothing more is accepted. After a kill, the next start puts on the device what memory still
    has."""
    with small_broker(device.store, log_file_size=LOG_FILE, flush_interval_ms=60_000) as broker, suppress(errors.OrbitError):
        broker.create_topic("orders", 2)
        with broker.producer() as producer:
            producer.send("orders", BODY, durability="flushed")
            log = device.hold()
            device.fail()
            send(producer, MESSAGES)
            try:
                producer.send("orders", BODY, durability="flushed")
                raise AssertionError("on a disk that failed")
            except errors.StoreFailed as error:
                assert error.values["errno"] in (errno.ENOSPC, errno.EIO) and error.values["physical_offset"] > 0, error.values
                assert "appended" in error.message and "before sending it again" in error.hint, error
            error = refused(producer)
            assert error is not None and "a sync of the log to the disk has failed" in error.message, error
            assert "sending it again is safe" in error.hint and "restart" in error.hint, error
            assert broker.status().positions.flushed_error in (errno.ENOSPC, errno.EIO)
            # A successor of the flush service knows no more than its predecessor did.
            kill(broker, "flush")
            until(lambda: actors(broker)["flush"].state == "running", "the next flush service")
            assert refused(producer)
        kill_tree(broker)
    device.heal()
    with small_broker(device.store, log_file_size=LOG_FILE) as broker, suppress(errors.OrbitError):
        assert broker.status().positions.flushed_error == 0
        kill_tree(broker)
    log.let_go()
    device.forget()
    read_all(device, MESSAGES + 2)


def going_on(device: Device) -> None:
    """An operator who chose to go on gets `appended` receipts, and no `flushed` one."""
    with small_broker(device.store, log_file_size=LOG_FILE, after_failed_sync="go-on") as broker, suppress(errors.OrbitError):
        broker.create_topic("orders", 2)
        with broker.producer() as producer:
            log = device.hold()
            device.fail()
            send(producer, MESSAGES)
            until(lambda: broker.status().positions.flushed_error, "the sync to fail")
            send(producer, MESSAGES)
            try:
                producer.send("orders", BODY, durability="flushed")
                raise AssertionError("on a disk that failed")
            except errors.StoreFailed as error:
                assert "sending it again is safe" in error.hint, error
        kill_tree(broker)
    device.heal()
    with small_broker(device.store, log_file_size=LOG_FILE) as broker, suppress(errors.OrbitError):
        kill_tree(broker)
    log.let_go()
    device.forget()
    read_all(device, 2 * MESSAGES)


def a_write(device: Device, *, after_failed_sync: str = "refuse") -> None:
    """The file system accepts no more writes. A send that waits for the disk is refused and not stored. No process dies of it,
    even if syncs may fail."""
    how = {"log_file_size": LOG_FILE, "flush_interval_ms": 60_000, "after_failed_sync": after_failed_sync}
    with small_broker(device.store, **how) as broker, suppress(errors.OrbitError):
        broker.create_topic("orders", 2)
        with broker.producer() as producer:
            producer.send("orders", BODY, durability="flushed")
            pids = {name: actor.pid for name, actor in actors(broker).items()}
            device.shut_down()
            for durability in ("flushed", "appended", "flushed"):
                try:
                    producer.send("orders", BODY, durability=durability)
                    raise AssertionError("to a file system that was shut down")
                except errors.StoreFailed as error:
                    assert error.values["errno"] == errno.EIO and "the log takes no more" in error.message, error
                    assert "not stored, and sending it again is safe" in error.hint, error
            assert {name: actor.pid for name, actor in actors(broker).items()} == pids
            status = broker.status()
            assert status.positions.wrote_error == errno.EIO and status.health.state == "refusing", status.health
            command = [sys.executable, "-m", "orbitmq.cli.main", "status", "--name", status.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert "refusing: a write of the log failed" in done.stdout and "Traceback" not in done.stderr, done
        kill_tree(broker)
    device.forget()
    read_all(device, 1)


def a_write_going_on(device: Device) -> None:
    a_write(device, after_failed_sync="go-on")


def a_remote_send(device: Device) -> None:
    """A RocketMQ client's message that is stored and does not reach the disk gets a receipt that says so, FLUSH_DISK_TIMEOUT,
    as with RocketMQ; the next one is refused."""
    how = {"log_file_size": LOG_FILE, "flush_interval_ms": 60_000, "listen": "127.0.0.1:0"}
    with small_broker(device.store, **how) as broker, suppress(errors.OrbitError):
        broker.create_topic("orders", 2, durability="flushed")
        with broker.producer(durability="appended") as producer, Remote(broker.status().listens) as remote:
            assert remote.send("orders", BODY).code == 0
            device.fail()
            send(producer, MESSAGES)
            said = remote.send("orders", BODY)
            assert said.code == 10 and said.remark and len(said.fields["msgId"]) == 32 and said.fields["queueId"] == "0", said
            assert remote.send("orders", BODY).code == 14
        kill_tree(broker)


DEEDS = {deed.__name__: deed for deed in (the_log, going_on, a_write, a_write_going_on, a_remote_send)}

if __name__ == "__main__":
    os.environ["ORBITMQ_RUNTIME_DIR"] = sys.argv[3]
    DEEDS[sys.argv[1]](Device(Path(sys.argv[2])))
