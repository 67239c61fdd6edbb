"""The supervisor's descriptor store: what it keeps, and that no coordinator can block it."""

from __future__ import annotations

import os
import resource
import socket
import threading
from contextlib import suppress

import msgpack
import pytest

from orbitmq.actors.sessions.descriptor_store import DescriptorKeeper, DescriptorStore
from orbitmq.errors import BrokerStopped, Full


def _pair(timeout_s: float) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(timeout_s)
    return ours, theirs


def test_what_is_put_comes_back_until_it_is_dropped() -> None:
    """Method: a keeper in a thread, the store beside it. The files tell the descriptors apart."""
    store = DescriptorStore()
    ours, theirs = _pair(10.0)
    reader, writer = os.pipe()
    found = []

    def coordinator() -> None:
        keeper = DescriptorKeeper(theirs)
        keeper.put("3.1", (reader, writer))
        keeper.put("4.1", (reader,))
        keeper.drop("4.1")
        found.extend(keeper.items())
        theirs.close()

    thread = threading.Thread(target=coordinator)
    thread.start()
    while store.serve(ours):
        pass
    thread.join()
    (kept,) = found
    assert kept.key == "3.1"
    assert [os.fstat(copy).st_ino for copy in kept.descriptors] == [os.fstat(reader).st_ino, os.fstat(writer).st_ino]
    for descriptor in (reader, writer, *kept.numbers, *kept.descriptors):
        os.close(descriptor)
    ours.close()


def test_a_coordinator_that_stops_reading_is_given_up() -> None:
    """Goal: if its socket is full, the answer is False, and not an exception that ends the supervisor. Method: more items than
    the socket's buffer holds, and no reader."""
    store = DescriptorStore()
    ours, theirs = _pair(0.05)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    reader, writer = os.pipe()
    for slot in range(64):
        socket.send_fds(theirs, [msgpack.packb(["put", f"{slot}.1"])], [reader])
        assert store.serve(ours)
        theirs.recv(4096)
    theirs.send(msgpack.packb(["list"]))
    assert not store.serve(ours)
    for descriptor in (reader, writer):
        os.close(descriptor)
    ours.close()
    theirs.close()


def test_no_question_is_no_end() -> None:
    """Goal: if the socket was replaced after the wake-up, the store leaves the new socket alone."""
    ours, theirs = _pair(0.05)
    assert DescriptorStore().serve(ours)
    ours.close()
    theirs.close()


def test_no_descriptors_left_is_an_answer() -> None:
    """Goal: a session that cannot be kept is refused, and no half of it is left as a trap for the next coordinator.

    Method: the store in a child process that may open one descriptor more than it has."""
    ours, theirs = _pair(10.0)
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            theirs.close()
            room = os.dup(ours.fileno())
            os.close(room)
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (room + 1, hard))
            store = DescriptorStore()
            while store.serve(ours):
                pass
        os._exit(0)
    ours.close()
    reader, writer = os.pipe()
    keeper = DescriptorKeeper(theirs)
    with pytest.raises(Full):
        keeper.put("3.1", (reader, writer))
    assert keeper.items() == []
    theirs.close()
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)


def test_a_dead_supervisor_is_the_end_of_the_broker() -> None:
    """Goal: a coordinator that outlives its supervisor by a moment tells a client what that means. Method: the supervisor's end
    of the socket is closed, with and without an unread question."""
    for unread in (False, True):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper = DescriptorKeeper(theirs)
        if unread:
            theirs.send(b"x")
        ours.close()
        for ask in (lambda: keeper.put("key", ()), lambda: keeper.drop("key"), keeper.items):
            with pytest.raises(BrokerStopped):
                ask()
        theirs.close()
