"""One connection to the control socket, as the coordinator sees it: who it is, what has come in, what has not gone
out yet."""

from __future__ import annotations

import array
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from orbitmq.errors import BrokerError, ProtocolError
from orbitmq.shm.frames import Unpacker, pack, receive

_CREDENTIALS = struct.Struct("iII")
_SO_PEERPIDFD = 77  # Linux 6.5; the number is that of every architecture but parisc and sparc
UNSENT_MAX = 32 << 20


class Peer:
    """A client process's connection.

    Raises (from the constructor): BrokerError: the process is another user's or in another pid namespace, or is gone
    already.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.unpacker = Unpacker()
        self.pidfd = -1
        self._unsent: list[tuple[memoryview, tuple[int, ...]]] = []
        self.pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid not in (os.getuid(), 0):
            raise BrokerError(f"cannot serve uid {uid}, the broker is uid {os.getuid()}'s", uid=uid)
        self.pidfd = self._open_pidfd()
        self._check_namespace()

    @property
    def waits_to_send(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> list[dict[str, Any]] | None:
        """Whole questions that have come; None at the end. Raises: ProtocolError."""
        try:
            return receive(self.socket, self.unpacker)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        finally:
            # No question has any use for them: kept, they would be the end of a coordinator that is sent enough.
            self.unpacker.close()

    def answer(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Sends what the socket takes now; `flush` sends the rest. Descriptors are copied, the caller keeps its own.

        Raises: ProtocolError: the client asks and asks and reads no answer.
        """
        if sum(len(part) for part, _ in self._unsent) > UNSENT_MAX:
            raise ProtocolError(f"cannot answer process {self.pid}, it does not read")
        self._unsent.append((memoryview(pack(message)), tuple(os.dup(each) for each in descriptors)))
        self.flush()

    def flush(self) -> None:
        while self._unsent:
            part, descriptors = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self.socket.sendmsg([part], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except ConnectionError:
                sent = len(part)  # its end is noticed by the next read
            for each in descriptors:
                os.close(each)
            if sent == len(part):
                self._unsent.pop(0)
            else:
                self._unsent[0] = (part[sent:], ())

    def close(self) -> None:
        self.unpacker.close()
        for _, descriptors in self._unsent:
            for each in descriptors:
                os.close(each)
        self._unsent.clear()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        self.socket.close()

    def _open_pidfd(self) -> int:
        # The kernel's own pidfd of the peer cannot be of a later process under the same number.
        with suppress(OSError):
            return self.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        try:
            return os.pidfd_open(self.pid)
        except (ProcessLookupError, OSError) as error:
            raise BrokerError(f"cannot serve process {self.pid}: {error}") from None

    def _check_namespace(self) -> None:
        """Lock words and pidfds name processes by number, so all live in one pid namespace."""
        try:
            same = Path(f"/proc/{self.pid}/ns/pid").stat().st_ino == Path("/proc/self/ns/pid").stat().st_ino
        except OSError:
            same = self.pid != 0 and Path(f"/proc/{self.pid}").exists()
        if not same:
            raise BrokerError(
                "cannot serve a process of another pid namespace",
                hint="run client and broker in one container, or with a shared pid namespace",
                pid=self.pid,
            )
