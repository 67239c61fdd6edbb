"""Goal: the live view shows a broker as it is, obeys its keys, and outlives the broker. Method: the application
(cli/top/app.py: Top, and each Listing) under textual's pilot, over looks made by hand and over a small broker, and
`orbitmq top` itself without what it needs. Also of cli/top/command.py and cli/top/listing.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from orbitmq.cli.looks import Look
from orbitmq.cli.top.app import Top
from orbitmq.cli.top.complaints import Complaint
from orbitmq.cli.top.messages import Messages
from orbitmq.cli.top.model import Seen
from orbitmq.cli.top.source import Source
from orbitmq.cli.web.browse import Asked, Page
from orbitmq.errors import BrokerStopped
from tests.cli.commands import run
from tests.cli.made_status import group, status, topic
from tests.client.restarts import Restarts
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, Stuck

OFTEN_S = 0.02  # between two looks of a test
LOOK_S = 0.2  # between two of the view: after a key, the pilot waits until the process is idle
Use = Callable[[Top, "Pilot[None]"], Coroutine[Any, Any, None]]


async def until(pilot: Pilot[None], condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WATCHDOG_S
    while not condition():
        if time.monotonic() > deadline:
            raise Stuck(f"waited {WATCHDOG_S:g} s for {what}")
        await pilot.pause(OFTEN_S)


def under(app: Top, use: Use, size: tuple[int, int] = (80, 24)) -> None:
    async def whole() -> None:
        async with app.run_test(size=size) as pilot:
            await use(app, pilot)

    asyncio.run(whole())


def screen(app: Top) -> str:
    """What can be read on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def none(asked: Asked) -> Page:
    raise AssertionError(f"nobody opened {asked.topic}")


TOPICS = tuple(topic(name, (0, held)) for name, held in {"bills": 5, "orders": 3, "order-events": 9, "[b]x": 1}.items())


def made() -> Seen:
    return Seen(Look(status(topics=TOPICS, groups=(group("workers"), group("[red]")))), {})


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (20, 6)])
def test_sort_filter_and_quit(size: tuple[int, int]) -> None:
    async def use(app: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(app.topics.names) == 4, "the topics")
        await pilot.press("2", "s")
        await until(pilot, lambda: app.topics.names == ["order-events", "bills", "orders", "[b]x"], "the order by messages")
        assert app.topics.sorted_by == "messages"
        await pilot.press("r")
        await until(pilot, lambda: app.topics.names == ["[b]x", "orders", "bills", "order-events"], "the other order")
        await pilot.press("slash", *"ORD")
        await until(pilot, lambda: app.topics.names == ["orders", "order-events"], "the filter")
        assert app.groups.names == [] and "2 of 4 with 'ORD'" in str(app.topics.border_title)
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is app.topics, "the table")
        assert app.topics.names == ["orders", "order-events"]
        await pilot.press("escape")
        await until(pilot, lambda: len(app.topics.names) == 4, "all topics")
        assert sorted(app.groups.names) == ["[red]", "workers"] and app.query_one("#filter", Input).value == ""
        await pilot.press("3")
        await until(pilot, lambda: app.focused is app.groups, "the groups")
        await pilot.press("q")
        await until(pilot, lambda: app._exit, "the end")

    under(Top(made, none, LOOK_S), use, size)


def test_the_last_line_names_the_keys() -> None:
    """Goal: all of them fit into 80 columns; Enter is among them where it opens something."""

    async def use(app: Top, pilot: Pilot[None]) -> None:
        def keys() -> str:
            return screen(app).splitlines()[-1]

        await until(pilot, lambda: "\u23ce Open" in keys(), "the key of topics")
        await until(pilot, lambda: keys().rstrip().endswith("3 Groups"), "the last key")
        await pilot.press("3")
        await until(pilot, lambda: "Open" not in keys(), "the keys of groups")

    under(Top(made, none, LOOK_S), use, (80, 24))


def test_the_cursor_stays_on_its_row() -> None:
    held = {"a": 1, "b": 2, "c": 3}

    def look() -> Seen:
        return Seen(Look(status(topics=tuple(topic(name, (0, count)) for name, count in held.items()))), {})

    async def use(app: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(app.topics.names) == 3, "the topics")
        await pilot.press("2", "s", "down")
        await until(pilot, lambda: app.topics.chosen_name == "b", "the cursor")
        assert app.topics.names == ["c", "b", "a"]
        held["b"] = 9
        await until(pilot, lambda: app.topics.names == ["b", "c", "a"], "another order")
        assert app.topics.chosen_name == "b"
        await pilot.press("down", "down")
        await until(pilot, lambda: app.topics.chosen_name == "a", "the cursor")
        del held["a"]
        await until(pilot, lambda: app.topics.names == ["b", "c"], "a topic to go")
        assert app.topics.chosen_name == "c"

    under(Top(look, none, LOOK_S), use)


def test_a_look_that_waits_stops_no_key() -> None:
    """Goal: a coordinator that hangs does not hold up the screen, and is not asked a second time. Method: a look that waits."""
    go, begun = threading.Event(), []

    def look() -> Seen:
        begun.append(1)
        assert go.wait(WATCHDOG_S)
        return made()

    async def use(app: Top, pilot: Pilot[None]) -> None:
        try:
            await until(pilot, lambda: begun, "a look")
            await pilot.press("3")
            await until(pilot, lambda: app.focused is app.groups and "looking for the broker" in screen(app), "the screen")
            for _ in range(5):
                app._next_look()
            assert len(begun) == 1
        finally:
            go.set()
        await until(pilot, lambda: app.topics.names, "its answer")

    under(Top(look, none, LOOK_S), use)


def test_a_broker_that_is_away() -> None:
    gone = [False]

    def look() -> Seen:
        if gone[0]:
            raise BrokerStopped("broker 'default' was stopped")
        return made()

    async def use(app: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.topics.names, "the topics")
        gone[0] = True
        await until(pilot, lambda: "broker 'default' was stopped" in screen(app), "the news")
        await until(pilot, lambda: "● not seen" in screen(app) and app.has_class("away"), "all of the news")
        assert len(app.topics.names) == 4
        gone[0] = False
        await until(pilot, lambda: "● running" in screen(app), "its return")
        await until(pilot, lambda: not app.has_class("away"), "the light")

    under(Top(look, none, LOOK_S), use)


def test_a_real_broker(tmp_path: Path) -> None:
    """Also one of its actors dies under the view, which shows its next life."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", 2)
        source = Source(broker.name, None)

        async def use(app: Top, pilot: Pilot[None]) -> None:
            await until(pilot, lambda: "orders" in app.topics.names, "the topic")
            with broker.producer() as producer:
                producer.send_batch("orders", [b"x"] * 1000)
            with broker.consumer("billing", topics=["orders"], start="earliest") as consumer:
                assert consumer.poll_batch(10, timeout=WATCHDOG_S)
                consumer.commit()
                await until(pilot, lambda: "billing" in app.groups.names, "the group")
                await until(pilot, lambda: app.model.groups()[0].lags.last, "its lag")
            await until(pilot, lambda: app.model.topics()[0].held == 1000, "the messages")
            await until(pilot, lambda: all(row.share is not None for row in app.model.actors()), "processor time")
            await until(pilot, lambda: "writer" in app.actors.names and "1,000" in screen(app), "what is on the screen")
            kill(broker, "reput")
            await until(
                pilot, lambda: {row.name: row.status.epoch for row in app.model.actors()}["reput"] == 2, "its second life"
            )

        try:
            under(Top(source.look, source.page, LOOK_S), use, (200, 50))
        finally:
            source.close()


def test_a_broker_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Goal: the view outlives the whole tree, and shows the next one. Method: kill -9 of the supervisor under the view."""
    with Restarts(tmp_path / "store") as broker:
        source = Source(broker.name, None)

        async def use(app: Top, pilot: Pilot[None]) -> None:
            await until(pilot, lambda: app.model.away, "the news that no broker runs")
            assert not app.topics.names
            await asyncio.to_thread(broker.start)
            with broker.connect() as client:
                client.create_topic("orders", 1)
            await until(pilot, lambda: "orders" in app.topics.names, "the topic")
            before = app.model.status
            await asyncio.to_thread(broker.kill)
            await until(pilot, lambda: app.model.away, "the news of its death")
            assert "orders" in app.topics.names  # as it was seen last
            await asyncio.to_thread(broker.start)
            await until(pilot, lambda: not app.model.away, "its return")
            after = app.model.status
            assert before and after and after.generation != before.generation and "orders" in app.topics.names

        try:
            under(Top(source.look, source.page, LOOK_S), use)
        finally:
            source.close()


def test_messages_of_a_topic(tmp_path: Path) -> None:
    """Goal: messages are read a page at a time, whatever is in them; when the broker is gone that is said, and the next page
    comes from the broker that is there then. Method: bodies and tags that would change the screen; kill -9 under the pages."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        _send_all(broker)
        source = Source(broker.name, None)

        async def use(app: Top, pilot: Pilot[None]) -> None:
            await until(pilot, lambda: "orders" in app.topics.names, "the topic")
            await pilot.press("2", "enter")
            await until(pilot, lambda: isinstance(app.screen, Messages) and app.screen.found, "the messages")
            opened = app.screen
            assert isinstance(opened, Messages) and len(opened.found) == 100
            await until(pilot, lambda: "ff fe" in screen(app), "the newest message")
            await pilot.press("down")
            await until(pilot, lambda: "k-1" in screen(app) and "second" in screen(app), "the one before")
            await until(pilot, lambda: "[red]a\\x1b[2J" in screen(app) and "[b]" in screen(app), "its body and tag")
            await pilot.press("slash", "s", "c")  # keys of the tables, which lie below
            assert app.screen is opened
            await pilot.press("o")
            await until(pilot, lambda: len(opened.found) == 22, "the older ones")
            await until(pilot, lambda: "the oldest are below" in screen(app), "their end")
            await asyncio.to_thread(broker.kill)
            await pilot.press("n")
            await until(pilot, lambda: "broker" in screen(app).splitlines()[0], "the news of its death")
            assert len(opened.found) == 22
            await asyncio.to_thread(broker.start)

            async def again() -> bool:
                await pilot.press("n")
                return len(opened.found) == 100

            deadline = time.monotonic() + WATCHDOG_S
            while not await again():
                assert time.monotonic() < deadline, screen(app)
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is not opened, "the tables")
            await until(pilot, lambda: "the broker was started again" in map(_text, app.model.complaints), "the complaint")
            await pilot.press("c")
            await until(pilot, lambda: "the broker was started again" in screen(app), "the list of complaints")
            await pilot.press("escape", "3")
            await until(pilot, lambda: app.focused is app.groups, "the groups")

        try:
            under(Top(source.look, source.page, LOOK_S), use)
        finally:
            source.close()


def _send_all(broker: Restarts) -> None:
    """Returns when all can be read."""
    with broker.connect() as client:
        client.create_topic("orders", 2)
        with client.producer() as producer:
            producer.send_batch("orders", [b"old %d" % n for n in range(120)])
            producer.send("orders", b"[red]a\x1b[2J\nsecond", tags="[b]", keys=["k-1"])
            producer.send("orders", b"\xff\xfe")
        with client.consumer(None, topics=["orders"], start="earliest") as consumer:
            left = 122
            while left:
                left -= len(consumer.poll_batch(left, timeout=WATCHDOG_S))


def _text(complaint: Complaint) -> str:
    return complaint.text


def test_missing_textual() -> None:
    """Goal: one line says what to install. Method: cli/top/command.py without textual; None says that it is not there."""
    code = "import sys; sys.modules['textual'] = None; sys.argv[1:] = ['top']; from orbitmq.cli.main import main; main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert found.returncode == 1 and "it needs textual, which is not installed" in found.stderr
    assert "pip install 'orbitmq[cli]'" in found.stderr and "Traceback" not in found.stderr


def test_without_a_terminal() -> None:
    found = run("top")
    assert found.returncode == 1 and "it needs a terminal" in found.stderr and "orbitmq status" in found.stderr
