"""One connection to the control socket, as the coordinator sees it: who it is, what it has asked, what has not gone
out yet.

A peer gets as much as it reads: while an answer waits to be sent, nothing more is read from it or answered, so that it
can hold no memory but one answer and one question's worth of bytes.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from orbitmq.actors.caller import Caller
from orbitmq.actors.process_id import process_of
from orbitmq.errors import BrokerError, NoPermission
from orbitmq.shm.frames import Unpacker, pack

QUESTION_MAX = 1 << 20  # bytes; a group that subscribes to every topic of a full table asks the longest one

_CREDENTIALS = struct.Struct("iII")
# These numbers are those of every architecture but parisc and sparc.
_SO_PEERPIDFD = 77  # Linux 6.5
_SO_PEERGROUPS = 59
_GROUPS_SIZE = 1024  # bytes, which is what Python asks for at most: 256 groups


class Peer:
    """A client process's connection. questions: asked and not answered yet. greeted: it has said hello. caller: its user.

    group: id of the unix group whose members are served beside these two.

    Raises (from the constructor): NoPermission: the process is another user's. BrokerError: it is in another pid namespace,
    or is gone already. OSError: no descriptor is left to watch it with.
    """

    def __init__(self, sock: socket.socket, group: int | None = None) -> None:
        self.socket = sock
        self.questions: deque[dict[str, Any]] = deque()
        self.greeted = False
        self._unpacker = Unpacker(QUESTION_MAX)
        self._unsent: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self.pid, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        self.caller = Caller(uid, rules=uid in (os.geteuid(), 0))
        if not self.caller.rules and group not in (gid, *self._more_groups()):
            admitted = ["root"] if os.geteuid() == 0 else [f"uid {os.geteuid()}", "root"]
            if group is not None:
                admitted.append(f"members of the group {group}")
            raise NoPermission(
                f"cannot serve uid {uid}: this broker admits only {', '.join(admitted)}",
                hint="ask its operator to admit a group of yours (the setting `group`)",
                uid=uid,
                group=group,
            )
        self.pidfd = self._open_pidfd()
        try:
            process = process_of(self.pid, self.pidfd)
            if process is None:
                raise BrokerError(f"cannot serve process {self.pid}: it has ended", pid=self.pid)
            self.process = process
            self._check_namespace()
        except BaseException:
            os.close(self.pidfd)
            raise

    @property
    def waits_to_send(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> bool:
        """Takes whole questions out of what has come; False at the end. Raises: ProtocolError.

        A plain read: descriptors that a client sends along are let go by the kernel, and never are this process's to
        close, which may take as long as the file's maker likes.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self.questions.extend(frame.message for frame in self._unpacker.feed(data))
        return bool(data)

    def answer(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Sends what the socket takes now; `flush` sends the rest. Descriptors are this peer's to close."""
        self._unsent.append((memoryview(pack(message)), descriptors))
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
                self._unsent.popleft()
            else:
                self._unsent[0] = (part[sent:], ())

    def close(self) -> None:
        for _, descriptors in self._unsent:
            for each in descriptors:
                os.close(each)
        self._unsent.clear()
        os.close(self.pidfd)
        self.socket.close()

    def _more_groups(self) -> list[int]:
        """Those of the process when it connected, beside its first. None are known of a process that has more than 256: it can
        take the one that counts for its first (`sg`)."""
        with suppress(OSError):
            return array.array("I", self.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_SIZE)).tolist()
        return []

    def _open_pidfd(self) -> int:
        # The kernel's own pidfd of the peer cannot be of a later process under the same number. Where there is none, hello
        # tells the two apart: it carries the client's start.
        with suppress(OSError):
            return self.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        try:
            return os.pidfd_open(self.pid)
        except ProcessLookupError as error:
            raise BrokerError(f"cannot serve process {self.pid}: {error}", pid=self.pid) from None

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
