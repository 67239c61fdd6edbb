"""One broker for each store: byte 0 of the file `lock`, held as an open-file-description lock.

The lock belongs to the open file, not to the process: every actor that inherits the descriptor holds it too. So a late survivor
of a dead tree still keeps the next tree out, and a process that merely opens and closes the file does not release it (as it
would with a POSIX record lock). The two kinds of locks exclude each other. So a RocketMQ broker, which takes a record lock on
the same byte, is kept out as well, and keeps OrbitMQ out.

A process that may read the file may hold a read lock on it, which keeps every broker out. So only its owner may (mode 0600),
even in a store that a group may read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
import time
from dataclasses import dataclass

from orbitmq.errors import StoreLocked, StoreUnsupported
from orbitmq.shm import finite_json
from orbitmq.shm.file_id import FileId
from orbitmq.shm.lock_holder import holders, is_locked
from orbitmq.shm.runtime import start_ticks
from orbitmq.store import atomic_file
from orbitmq.store.file_system import refuse_network
from orbitmq.store.layout import StoreLayout

CONTENT = b"lock"
# struct flock of 64-bit Linux: short type, short whence, 4 bytes of padding, off_t start, off_t length, pid_t pid, 4 of
# padding. The kernel wants pid 0 for an open-file-description lock.
_FLOCK = struct.Struct("=hh4xqqi4x")


@dataclass(slots=True)
class StoreLock:
    """The lock on a store. It lasts as long as any process has `descriptor` open."""

    layout: StoreLayout
    descriptor: int

    @classmethod
    def acquire(cls, layout: StoreLayout, name: str) -> StoreLock:
        """Takes the store for the broker `name`, without waiting.

        Raises:
            StoreLocked: another process holds it; has .holder (name) and .pid, None if they are not known. .dying: the process
                that took it is dead, and its children hold it until they are.
            StoreUnsupported: the folder cannot be made, is on a network file system, or does not support locks.
        """
        refuse_network(layout.root)
        layout.make_folders()
        descriptor = _opened(layout)
        try:
            _take(layout, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if os.pread(descriptor, 8, 0) != CONTENT:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, CONTENT, 0)
        # Python opens files without inheritance; actors that are started as separate programs need it.
        os.set_inheritable(descriptor, True)
        file = FileId.of(descriptor)
        about = {
            "name": name,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "since_ms": time.time_ns() // 1_000_000,
            "lock": [file.device, file.inode],
        }
        atomic_file.replace(layout.holder, json.dumps(about).encode())
        return cls(layout, descriptor)

    def release(self) -> None:
        """Closes this process's descriptor; the last one releases the lock. Removes the holder's name. May be called twice."""
        if self.descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                self.layout.holder.unlink()
            os.close(self.descriptor)
            self.descriptor = -1


def is_held(layout: StoreLayout) -> bool:
    """True while a broker, OrbitMQ's or RocketMQ's, holds the store. Takes nothing, and needs no permission to open the
    file."""
    try:
        descriptor = os.open(layout.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:
        return is_locked(layout.lock)
    try:
        return _conflict(descriptor) is not None
    finally:
        os.close(descriptor)


def _opened(layout: StoreLayout) -> int:
    """A descriptor of the file. Raises: StoreUnsupported."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnsupported(
            f"cannot open {layout.lock}: {error.strerror}",
            hint=(
                "mount it writable, or read the store without a broker: orbitmq verify, Spark"
                if error.errno == errno.EROFS
                else "run the broker as the owner of the store"
            ),
            path=str(layout.lock),
        ) from error
    # A file that RocketMQ has made, or an earlier version of OrbitMQ for a group.
    if os.fstat(descriptor).st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
    return descriptor


def _take(layout: StoreLayout, descriptor: int) -> None:
    """Raises: StoreLocked, StoreUnsupported."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise _locked(layout, descriptor) from None
        raise StoreUnsupported(
            f"cannot lock {layout.lock}: {error.strerror}",
            hint="choose a folder on a local disk",
            path=str(layout.lock),
        ) from error


def _conflict(descriptor: int) -> int | None:
    """The process whose lock is in the way. A lock of RocketMQ's kind has one; that of an open file answers -1. None: there is
    no lock."""
    asked = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    kind, _, _, _, process = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else int(process)


def _locked(layout: StoreLayout, descriptor: int) -> StoreLocked:
    name, pid, dying = None, None, False
    with contextlib.suppress(OSError):
        process = _conflict(descriptor)
        recorded = _recorded(layout, FileId.of(descriptor))
        if process is not None and process > 0:
            pid = process
        elif recorded is not None and recorded[2]:
            name, pid, _ = recorded
        else:
            dying = recorded is not None
            pid = next(iter(holders(layout.lock)), None)
    who = f"broker {name!r} (process {pid})" if name else f"process {pid}" if pid else "a process that this user cannot see"
    return StoreLocked(
        f"cannot open the store {layout.root}: {who} holds it",
        hint=(
            f"stop it, or connect to it with the name {name!r}"
            if name
            else "stop it first"
            if pid
            else f"root can see which (lsof {layout.lock}); stop it first"
        ),
        path=str(layout.root),
        holder=name,
        pid=pid,
        dying=dying,
    )


def _recorded(layout: StoreLayout, lock: FileId) -> tuple[str, int, bool] | None:
    """Name and process of the last taker of this lock, and whether it is alive. None: nothing says so, or it is that of a
    copy's original."""
    try:
        about = finite_json.loads(layout.holder.read_bytes())
        if about["lock"] != [lock.device, lock.inode]:
            return None
        return str(about["name"]), int(about["pid"]), start_ticks(int(about["pid"])) == about["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
