"""One connection to the control socket, as the coordinator sees it: who the client is, what it has asked, and what has not been
sent yet.

A peer gets answers as fast as it reads them. While an answer waits to be sent, nothing more is read from the peer or answered,
so it can hold no more memory than one answer and one question's worth of bytes.
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

from orbitmq.actors.sessions.caller import Caller
from orbitmq.actors.sessions.process_id import process_of
from orbitmq.actors.sessions.sessions import Session
from orbitmq.errors import BrokerError, NoPermission
from orbitmq.errors.remedy import hint
from orbitmq.shm.frames import Unpacker, pack

QUESTION_MAX = 1 << 20  # bytes; the longest question is that of a group that subscribes to every topic of a full table

_CREDENTIALS = struct.Struct("iII")
# All architectures but parisc and sparc have these numbers.
_SO_PEERPIDFD = 77  # Linux 6.5
_SO_PEERGROUPS = 59
_GROUPS_SIZE = 1024  # bytes, the most that Python asks for: 256 groups


class Peer:
    """A client process's connection. questions: asked and not answered yet. greeted: it has said hello. caller: its user.
    offered: the session that its last question has opened; it is taken back if the next one does not keep it.
    waits_until: when the first question stops waiting for another process (CLOCK_MONOTONIC, s); None: it does not wait.

    group: id of the unix group whose members are served in addition to the broker's user and root.

    Raises (from the constructor): NoPermission: the process is another user's. BrokerError: it is in another pid namespace, or
        is gone already. OSError: no descriptor is left to watch it with.
    """

    def __init__(self, sock: socket.socket, group: int | None = None) -> None:
        self.socket = sock
        self.questions: deque[dict[str, Any]] = deque()
        self.greeted = False
        self.offered: Session | None = None
        self.waits_until: float | None = None
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
                hint=hint("ask its operator to set {group of broker} to a group of yours"),
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
        """Takes whole questions out of what has come. False at the end. Raises: ProtocolError.

        A plain read: the kernel then drops descriptors that a client sends along. This process never gets them to close, which
        could take as long as the maker of the file likes.
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
        """Sends what the socket takes now; `flush` sends the rest. This peer closes the descriptors."""
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
                sent = len(part)  # the next read notices the end
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
        """The groups of the process when it connected, besides its first. They are unknown for a process in more than 256
        groups; such a process can make the group that counts its first (`sg`)."""
        with suppress(OSError):
            return array.array("I", self.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_SIZE)).tolist()
        return []

    def _open_pidfd(self) -> int:
        # The kernel's own pidfd of the peer cannot belong to a later process with the same number. Where the kernel has none,
        # hello tells the two apart: it carries the client's start time.
        with suppress(OSError):
            return self.socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        try:
            return os.pidfd_open(self.pid)
        except ProcessLookupError as error:
            raise BrokerError(f"cannot serve process {self.pid}: {error}", pid=self.pid) from None

    def _check_namespace(self) -> None:
        """Lock words and pidfds name processes by number, so all processes must be in one pid namespace."""
        try:
            same = Path(f"/proc/{self.pid}/ns/pid").stat().st_ino == Path("/proc/self/ns/pid").stat().st_ino
        except OSError:
            same = self.pid != 0 and Path(f"/proc/{self.pid}").exists()
        if not same:
            raise BrokerError(
                "cannot serve a process of another pid namespace",
                hint="run client and broker in one container, or share the pid namespace: docker run --pid=container:BROKER, "
                "or shareProcessNamespace: true in the pod (docs/containers.md)",
                pid=self.pid,
            )
