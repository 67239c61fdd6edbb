"""Goal: the places of a consumer are the cursors of its reader, in the same order, at every moment. Method: a reader of lists
(own_cursors.py), which may fail in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.consumer.assignment import Assignment, Place
from orbitmq.errors import UnknownQueue
from orbitmq.native._core import ffi
from tests.client.own_cursors import OwnHold, OwnReader
from tests.native.composed_store import ComposedStore


@pytest.fixture
def reader() -> OwnReader:
    return OwnReader()


@pytest.fixture
def mine(reader: OwnReader) -> Assignment:
    return Assignment(reader, OwnHold())  # type: ignore[arg-type]


def handle(store: ComposedStore, room: int) -> SessionHandle:
    made: Any = type("Handle", (), {})()
    made.topics_address, made.queue_capacity = int(ffi.cast("uintptr_t", store.topics)), room
    handle: SessionHandle = made
    return handle


def holds(mine: Assignment, reader: OwnReader) -> None:
    assert [place.slot for place in mine.places] == reader.slots
    assert mine.index == {key: number for number, key in enumerate(mine.keys)}
    assert [place.idle for place in mine.places] == reader.idle


def test_places_are_cursors(mine: Assignment, reader: OwnReader) -> None:
    mine.replace([(Place(("t", 0), 7), 5), (Place(("t", 1), 8, paused=True), 6), (Place(("u", 0), 3, leaving=True), 0)])
    holds(mine, reader)
    assert mine.positions() == {("t", 0): 5, ("t", 1): 6, ("u", 0): 0}
    mine.announce()
    assert mine.hold.announced == [7], "only for what is read"  # type: ignore[attr-defined]
    mine.replace([(mine.places[1], 9)])
    holds(mine, reader)
    assert mine.positions() == {("t", 1): 9}


def test_pausing(mine: Assignment, reader: OwnReader) -> None:
    """All or nothing; a queue that is leaving stays unread."""
    mine.replace([(Place(("t", 0), 7), 0), (Place(("t", 1), 8, leaving=True), 0)])
    with pytest.raises(UnknownQueue, match=r"could not pause queue 9 of 't': it is not assigned") as caught:
        mine.pause([("t", 0), ("t", 9)], True)
    assert (caught.value.topic, caught.value.queue) == ("t", 9)
    assert reader.idle == [False, True]
    mine.pause([("t", 0), ("t", 1)], True)
    assert [place.paused for place in mine.places] == [True, True]
    mine.pause([("t", 0), ("t", 1)], False)
    assert reader.idle == [False, True]
    holds(mine, reader)


def test_what_is_not_committed(mine: Assignment, reader: OwnReader) -> None:
    mine.replace([(Place(("t", 0), 7, mark=5), 5), (Place(("t", 1), 8, mark=5), 5)])
    assert mine.uncommitted() == []
    reader.at[1] = 6
    assert mine.uncommitted() == [("t", 1)]


def test_new_queues_are_followed(tmp_path: Path, mine: Assignment, reader: OwnReader) -> None:
    """As far as there is room; those that are here already are left as they are."""
    store = ComposedStore(tmp_path)
    first = store.add_topic("t", 3)
    mine.replace([(Place(("t", 1), first + 1), 42)])
    reader.limits = {first: (10, 20), first + 2: (11, 21)}
    seen = []

    def at_minimum(key: tuple[str, int], minimum: int, maximum: int) -> int:
        seen.append((key, minimum, maximum))
        return minimum

    assert mine.follow(handle(store, 2), ["t"], at_minimum)
    assert mine.positions() == {("t", 1): 42, ("t", 0): 10} and seen == [(("t", 0), 10, 20)]
    assert mine.follow(handle(store, 8), ["t"], at_minimum)
    assert mine.positions() == {("t", 1): 42, ("t", 0): 10, ("t", 2): 11}
    assert not mine.follow(handle(store, 8), ["t"], at_minimum)
    holds(mine, reader)


def test_an_exception_in_the_midst(tmp_path: Path, mine: Assignment, reader: OwnReader) -> None:
    """A signal handler's, for example: a cursor without a place would be read, and its messages would belong to nobody."""
    store = ComposedStore(tmp_path)
    first = store.add_topic("t", 3)
    mine.replace([(Place(("t", 2), first + 2), 42)])

    def interrupted(key: tuple[str, int], minimum: int, maximum: int) -> int:
        if key == ("t", 1):
            raise KeyboardInterrupt
        return 4

    with pytest.raises(KeyboardInterrupt):
        mine.follow(handle(store, 8), ["t"], interrupted)
    assert mine.positions() == {("t", 2): 42, ("t", 0): 4}
    holds(mine, reader)
