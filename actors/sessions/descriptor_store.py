"""The descriptor store keeps the coordinator's descriptors in the supervisor, so that they outlive a coordinator.

A session is a memfd without a name. The broker's actors open it as /proc/<supervisor>/fd/<descriptor>, and a pidfd shows the
death of its client. If the coordinator alone had these descriptors, its death would end every session. So each is handed to the
supervisor over a socket pair (SOCK_SEQPACKET, one message a datagram, msgpack) under a key, and a new coordinator takes them
all out again.

    question   ["put", key]  + descriptors      answer  ["put", key, descriptor numbers here]
               ["drop", key]                            ["drop", key]
               ["list"]                                 ["item", key, numbers] + descriptors, ..., ["end"]
"""

from __future__ import annotations

import os
import resource
import socket
from typing import Any, NamedTuple

import msgpack

from orbitmq.errors import BrokerStopped, Full
from orbitmq.shm.crash_point import crash_point

MESSAGE_MAX = 4096
DESCRIPTORS_MAX = 4
SPARE_DESCRIPTORS = 32  # reserved for the supervisor itself; no session may take them


class Kept(NamedTuple):
    """One key's descriptors: their numbers in the supervisor, and this process's own copies."""

    key: str
    numbers: tuple[int, ...]
    descriptors: tuple[int, ...] = ()


class DescriptorStore:
    """The supervisor's half. It only keeps the descriptors and never looks into them."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, ...]] = {}

    def serve(self, line: socket.socket) -> bool:
        """Answers one question. False if the other end is gone, or has stopped reading the answers."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(line, MESSAGE_MAX, DESCRIPTORS_MAX)
        except TimeoutError:
            return True  # the question that caused the wake-up came on a socket that is closed by now; this socket is fresh
        except ConnectionError:
            return False
        if not data:
            return False
        question = msgpack.unpackb(data)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if flags & socket.MSG_CTRUNC or max(descriptors, default=0) >= limit - SPARE_DESCRIPTORS:
            # This process has no room for all of them, and half a session is useless. Or none would be left to restart an actor
            # with, which would end the tree.
            while descriptors:
                os.close(descriptors.pop())
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        try:
            self._answer(line, question, tuple(descriptors))
        except (ConnectionError, TimeoutError):
            # Even a coordinator that hangs must not end the supervisor, and with it the tree.
            return False
        return True

    def _answer(self, line: socket.socket, question: list[str], descriptors: tuple[int, ...]) -> None:
        match question:
            case ["put", key]:
                self._drop(key)
                if descriptors:
                    self._kept[key] = descriptors
                    crash_point("descriptor_store_kept")
                line.send(msgpack.packb(["put", key, list(descriptors)]))
                crash_point("descriptor_store_answered")
            case ["drop", key]:
                self._drop(key)
                crash_point("descriptor_store_dropped")
                line.send(msgpack.packb(["drop", key]))
            case _:
                for key, numbers in self._kept.items():
                    socket.send_fds(line, [msgpack.packb(["item", key, list(numbers)])], list(numbers))
                line.send(msgpack.packb(["end"]))

    def _drop(self, key: str) -> None:
        for descriptor in self._kept.pop(key, ()):
            os.close(descriptor)


class DescriptorKeeper:
    """The coordinator's half: blocking questions, which the supervisor's loop answers at once.

    Raises (from every method): BrokerStopped: the supervisor is dead, and this process is about to die."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def _ask(self, question: list[str], descriptors: tuple[int, ...] = ()) -> None:
        try:
            socket.send_fds(self._line, [msgpack.packb(question)], list(descriptors))
        except ConnectionError as error:
            raise _supervisor_dead(question[0]) from error

    def _answer(self) -> tuple[list[Any], list[int]]:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._line, MESSAGE_MAX, DESCRIPTORS_MAX)
        except ConnectionError as error:
            raise _supervisor_dead("answer") from error
        if not data:
            raise _supervisor_dead("answer")
        return msgpack.unpackb(data), descriptors

    def put(self, key: str, descriptors: tuple[int, ...]) -> Kept:
        """Raises: Full: the supervisor may open no more descriptors."""
        self._ask(["put", key], descriptors)
        answer, _ = self._answer()
        if not answer[2]:
            raise Full(
                f"cannot keep session {key}: the broker's supervisor has no file descriptors left",
                hint="raise the hard limit of open files (ulimit -Hn) and start the broker again",
                limit="descriptors",
            )
        return Kept(key, tuple(answer[2]))

    def drop(self, key: str) -> None:
        self._ask(["drop", key])
        self._answer()

    def items(self) -> list[Kept]:
        """Everything that is kept. The caller owns the descriptors that come with it."""
        self._ask(["list"])
        found: list[Kept] = []
        while True:
            answer, descriptors = self._answer()
            match answer:
                case ["item", key, numbers]:
                    found.append(Kept(key, tuple(numbers), tuple(descriptors)))
                case _:
                    return found


def _supervisor_dead(doing: str) -> BrokerStopped:
    # A client must not be told of a broken socket: what its question met is the end of the tree.
    return BrokerStopped(f"cannot {doing} in the descriptor store, the broker's supervisor is dead")
