"""One broker to a store: byte 0 of the file `lock`, held as an open-file-description lock.

The lock belongs to the open file, not to the process: every actor that inherits the descriptor holds it too, so a late
survivor of a dead tree still keeps the next tree out, and nothing that merely opens and closes the file lets go of it
(as it would with a POSIX record lock). Both kinds exclude each other, so a RocketMQ broker, which takes a record lock
on the same byte, is kept out as well, and keeps us out.
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
from orbitmq.store import atomic_file
from orbitmq.store.file_system import refuse_network
from orbitmq.store.layout import StoreLayout

CONTENT = b"lock"
# struct flock of 64-bit Linux: short type, short whence, 4 bytes of padding, off_t start, off_t length, pid_t pid, 4 of
# padding. The kernel wants pid 0 for an open-file-description lock.
_FLOCK = struct.Struct("=hh4xqqi4x")


@dataclass(slots=True)
class StoreLock:
    """A store held. The lock lives as long as any process has `descriptor` open."""

    layout: StoreLayout
    descriptor: int

    @classmethod
    def acquire(cls, layout: StoreLayout, name: str) -> StoreLock:
        """Takes the store for the broker `name`, without waiting.

        Raises:
            StoreLocked: somebody holds it; has .holder (name) and .pid, None where they are not known.
            StoreUnsupported: the folder cannot be made, lies on a network file system, or knows no locks.
        """
        refuse_network(layout.root)
        layout.make_folders()
        try:
            descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
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
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except OSError as error:
            try:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise _locked(layout, descriptor) from None
                raise StoreUnsupported(
                    f"cannot lock {layout.lock}: {error.strerror}",
                    hint="choose a folder on a local disk",
                    path=str(layout.lock),
                ) from error
            finally:
                os.close(descriptor)
        if os.pread(descriptor, 8, 0) != CONTENT:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, CONTENT, 0)
        # Python opens without inheritance; actors that are started as a program of their own need it.
        os.set_inheritable(descriptor, True)
        about = {"name": name, "pid": os.getpid(), "since_ms": time.time_ns() // 1_000_000}
        atomic_file.replace(layout.holder, json.dumps(about).encode())
        return cls(layout, descriptor)

    def release(self) -> None:
        """Closes this process's descriptor; the lock goes with the last one. Removes the holder's name. May be called
        twice.
        """
        if self.descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                self.layout.holder.unlink()
            os.close(self.descriptor)
            self.descriptor = -1


def is_held(layout: StoreLayout) -> bool:
    """True while a broker, ours or RocketMQ's, holds the store. Asks only: takes nothing, and needs the right to read."""
    try:
        descriptor = os.open(layout.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        asked = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        return bool(_FLOCK.unpack(asked)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def _locked(layout: StoreLayout, descriptor: int) -> StoreLocked:
    name, pid = None, None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads(layout.holder.read_bytes())
        name, pid = str(about["name"]), int(about["pid"])
    # A record lock, RocketMQ's kind, has a process; ours answers -1.
    with contextlib.suppress(OSError):
        asked = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        process = _FLOCK.unpack(asked)[4]
        if process > 0:
            name, pid = None, process
    who = f"broker {name!r} (process {pid})" if name else f"process {pid}" if pid else "another broker"
    return StoreLocked(
        f"cannot open the store {layout.root}: {who} holds it",
        hint=f"stop it, or connect to it with the name {name!r}" if name else "stop it first",
        path=str(layout.root),
        holder=name,
        pid=pid,
    )
