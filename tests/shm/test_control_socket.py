"""Goal: an answer reaches its asker, whatever came between; nothing that it carries is lost, and the connection says whether it
can still be used. Method: a coordinator that the test controls."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import ProtocolError, UnknownTopic
from orbitmq.shm import frames
from orbitmq.shm.control_socket import ControlSocket
from tests.waiting import WATCHDOG_S


class Coordinator:
    """The other end."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.sock: socket.socket
        self._unpacker = frames.Unpacker()
        self._waiting: list[frames.Frame] = []

    def accept(self) -> None:
        self.sock, _ = self._listener.accept()
        self.sock.settimeout(WATCHDOG_S)

    def take(self) -> dict[str, Any]:
        """The next question."""
        while not self._waiting:
            self._waiting += frames.receive(self.sock, self._unpacker) or []
        return self._waiting.pop(0).message

    def answer(self, number: object, value: Any, *descriptors: int) -> None:
        frames.send(self.sock, {"id": number, "ok": value}, descriptors)

    def close(self) -> None:
        self._listener.close()
        self.sock.close()
        self._unpacker.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[ControlSocket, Coordinator]]:
    path = tmp_path / "s"
    coordinator = Coordinator(path)
    mine = ControlSocket(path, WATCHDOG_S)
    coordinator.accept()
    yield mine, coordinator
    mine.close()
    coordinator.close()


Ends = tuple[ControlSocket, Coordinator]


def test_a_question_and_its_answer(ends: Ends) -> None:
    mine, coordinator = ends
    read, write = os.pipe()
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "topics", WATCHDOG_S, name="t")
        question = coordinator.take()
        assert question == {"op": "topics", "id": question["id"], "name": "t"}
        coordinator.answer(question["id"], [1, 2], write)
        value, (descriptor,) = asking.result(WATCHDOG_S)
    assert value == [1, 2] and os.fstat(descriptor).st_ino == os.fstat(write).st_ino and mine.whole
    for each in (read, write, descriptor):
        os.close(each)


def test_an_answer_that_is_an_error(ends: Ends) -> None:
    mine, coordinator = ends
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "topics", WATCHDOG_S)
        told = {"id": coordinator.take()["id"], **frames.error_map(UnknownTopic("no topic 't'", topic="t"))}
        frames.send(coordinator.sock, told)
        with pytest.raises(UnknownTopic, match="no topic 't'") as caught:
            asking.result(WATCHDOG_S)
    assert caught.value.topic == "t" and mine.whole


def test_an_answer_that_comes_too_late(ends: Ends) -> None:
    """Its descriptor is closed, and the next question gets its own answer."""
    mine, coordinator = ends
    with pytest.raises(TimeoutError):
        mine.ask("join", 0)
    assert mine.whole
    number = coordinator.take()["id"]
    read, write = os.pipe()
    coordinator.answer(number, "joined", write)
    os.close(write)
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "topics", WATCHDOG_S)
        coordinator.answer(coordinator.take()["id"], "mine")
        assert asking.result(WATCHDOG_S) == ("mine", ())
    assert os.read(read, 1) == b"", "nobody has the descriptor any more"
    os.close(read)


def test_a_late_error_is_nobodys(ends: Ends) -> None:
    mine, coordinator = ends
    mine.post("leave")
    refused = {"id": coordinator.take()["id"], **frames.error_map(UnknownTopic("x"))}
    frames.send(coordinator.sock, refused)
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "topics", WATCHDOG_S)
        coordinator.answer(coordinator.take()["id"], 1)
        assert asking.result(WATCHDOG_S) == (1, ())


def test_questions_while_the_socket_is_full(ends: Ends) -> None:
    """They go with the next question, in their order and once. A question of which nothing was sent is taken back when its time
    is over, so the rest does not grow."""
    mine, coordinator = ends
    filling = "x" * 100_000
    for _ in range(10):
        mine.post("note", text=filling)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            mine.ask("withdrawn", 0, text=filling)
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "last", WATCHDOG_S)
        operations = []
        while not operations or operations[-1][0] != "last":
            question = coordinator.take()
            operations.append((question["op"], question["id"]))
        coordinator.answer(operations[-1][1], "done")
        assert asking.result(WATCHDOG_S) == ("done", ())
    assert [name for name, _ in operations] == ["note"] * 10 + ["last"]
    assert len({number for _, number in operations}) == 11


def test_an_answer_that_nobody_asked_for(ends: Ends) -> None:
    mine, coordinator = ends
    for number in (99, "1", None):
        coordinator.answer(number, "x")
        with pytest.raises(ProtocolError, match="which nobody asked"):
            mine.ask("topics", WATCHDOG_S)


def test_a_refusal_before_anything_was_asked(ends: Ends) -> None:
    """A client that is not let in is told so whatever it asks, though the socket is closed after that."""
    mine, coordinator = ends
    frames.send(coordinator.sock, {"id": 0, **frames.error_map(UnknownTopic("not you"))})
    coordinator.sock.close()
    with pytest.raises(UnknownTopic, match="not you"):
        mine.greet(WATCHDOG_S)


def test_the_other_end_is_gone(ends: Ends) -> None:
    mine, coordinator = ends
    coordinator.sock.close()
    with pytest.raises(ConnectionError):
        mine.ask("topics", WATCHDOG_S)
    mine.close()
    assert mine.closed


def test_another_thread_ends_the_wait(ends: Ends) -> None:
    mine, coordinator = ends
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(mine.ask, "topics", WATCHDOG_S)
        coordinator.take()
        mine.interrupt()
        with pytest.raises(OSError):
            asking.result(WATCHDOG_S)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ControlSocket(tmp_path / "nobody", 1)
