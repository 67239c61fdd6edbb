"""Goal: an event is the same when it has been through a pipe, and what is none is taken for none. Method: events of any text,
in pieces of any size, between lines of any bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.shm.event import LINE_MAX, MARK, TEXT_MAX, Event, Lines, as_record, from_record

VALUES = st.none() | st.integers() | st.lists(st.text(max_size=5))
FIELDS: st.SearchStrategy[Any] = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
LEVEL = st.sampled_from([10, 20, 30, 40])
EVENTS = st.builds(Event, st.floats(0, 1e10), LEVEL, st.text(), st.integers(0), st.text(), FIELDS, st.text())
OTHERS = st.binary().map(lambda data: data.replace(b"\n", b"")).filter(lambda data: not data.startswith(MARK))


@given(lines=st.lists(EVENTS | OTHERS), sizes=st.lists(st.integers(1, 50), min_size=1), ended=st.booleans())
def test_through_a_pipe(lines: list[Event | bytes], sizes: list[int], ended: bool) -> None:
    data = b"".join(as_record(each) if isinstance(each, Event) else each + b"\n" for each in lines)
    data = data if ended else data[:-1]
    reader, read, step = Lines(), list[bytes](), 0
    while data:
        size = sizes[step % len(sizes)]
        read += reader.add(data[:size])
        data, step = data[size:], step + 1
    read += reader.end()
    found = [from_record(line) or line for line in read]
    assert [each for each in found if each] == [each for each in lines if each]


@given(st.binary())
def test_what_is_no_record(data: bytes) -> None:
    for line in (data, MARK + data):
        found = from_record(line)
        assert found is None or isinstance(found, Event)


def test_half_a_character() -> None:
    """As in a file's name that is not UTF-8."""
    event = Event(1.0, 30, "flush", 7, "a\udcffb", {"path": "\udcff"})
    assert from_record(as_record(event).rstrip(b"\n")) == event


def test_what_is_too_long() -> None:
    """A text is cut before it is a record; a line without an end does not grow for ever."""
    record = as_record(Event(1.0, 30, "flush", 7, "\0" * 10 * TEXT_MAX, {}, "x" * TEXT_MAX + "the end"))
    assert len(record) < LINE_MAX
    event = from_record(record)
    assert event is not None and len(event.message) == TEXT_MAX and event.exception.endswith("the end")
    lines = Lines()
    assert [len(line) for line in lines.add(b"x" * (2 * LINE_MAX + 3))] == [LINE_MAX, LINE_MAX]
    assert list(lines.end()) == [b"xxx"] and list(lines.end()) == []


def test_level_names() -> None:
    assert [Event(0, level, "", 0, "").level_name for level in (0, 10, 25, 50)] == ["debug", "debug", "info", "error"]
