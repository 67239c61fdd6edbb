"""Goal: what a process of the broker says reaches the supervisor as it was said; if nobody reads, the process goes on, and says
how much was left out. Method: Python's logging into pipes, one of them full."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator

import pytest

from orbitmq.actors import events
from orbitmq.actors.events import EventHandler, Outlet
from orbitmq.shm.event import Event, Lines, from_record


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    """What the root logger gives to a handler of the broker's."""
    got: list[Event] = []
    handler = EventHandler("flush", got.append)
    logging.getLogger().addHandler(handler)
    yield got
    logging.getLogger().removeHandler(handler)


def test_what_is_said(heard: list[Event]) -> None:
    events.warn("no room: 100 %s", path="/x", errno=28)
    [event] = heard
    assert (event.actor, event.pid, event.level) == ("flush", os.getpid(), logging.WARNING)
    assert (event.message, event.fields, event.exception) == ("no room: 100 %s", {"path": "/x", "errno": 28}, "")


def test_levels(heard: list[Event], caplog: pytest.LogCaptureFixture) -> None:
    def say_all() -> list[str]:
        heard.clear()
        for say in (events.debug, events.info, events.warn, events.error):
            say("text")
        return [event.level_name for event in heard]

    told = {}
    for level in ("DEBUG", "INFO", "WARNING", "ERROR"):
        caplog.set_level(level)
        told[level] = say_all()
    every = ["debug", "info", "warning", "error"]
    assert told == {"DEBUG": every, "INFO": every[1:], "WARNING": every[2:], "ERROR": every[3:]}


def test_an_exception_and_another_library(heard: list[Event]) -> None:
    try:
        raise KeyError("lost")
    except KeyError as failure:
        events.error("it failed", failure)
    logging.getLogger("asyncio").warning("slow %d", 3)
    first, second = heard
    assert first.exception.startswith("Traceback") and first.exception.endswith("KeyError: 'lost'")
    assert (second.message, second.fields) == ("slow 3", {"logger": "asyncio"})


def read_all(reader: int, lines: Lines) -> list[Event | None]:
    os.set_blocking(reader, False)
    data = b""
    try:
        while piece := os.read(reader, 1 << 20):
            data += piece
    except BlockingIOError:
        pass
    return [from_record(line) for line in lines.add(data)]


@pytest.mark.parametrize("size", [10, 5000], ids=["whole", "in pieces"])
def test_a_full_pipe(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """size: of a message. The pipe holds 4,096 bytes: a longer record goes in parts, all of them before the next one."""
    monkeypatch.setattr(events, "PATIENCE_MS", 0)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    outlet, lines, said = Outlet(writer), Lines(), 1000
    for number in range(said):
        outlet.give(Event(0.0, 30, "flush", 7, "x" * size, {"number": number}))
    first = read_all(reader, lines)
    outlet.give(Event(0.0, 30, "flush", 7, "later"))
    outlet.give(Event(0.0, 30, "flush", 7, "last"))
    *rest, later, last = read_all(reader, lines)
    found = [event.fields["number"] for event in (*first, *rest) if event is not None]
    assert found == list(range(len(found))) and 0 < len(found) < said
    assert later is not None and (later.message, later.fields) == ("later", {"left_out": said - len(found)})
    assert last is not None and (last.message, last.fields) == ("last", {})
    os.close(writer)
    os.close(reader)


def test_nobody_can_read_any_more() -> None:
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    os.close(reader)
    for _ in range(3):
        outlet.give(Event(0.0, 30, "flush", 7, "x"))
    os.close(writer)
