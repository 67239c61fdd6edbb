"""Goal: one line a message, with everything that is known, for people and for programs. Method: one event in both forms, and
events of any text."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.actors.supervisor.event_text import form_of
from orbitmq.shm.event import Event

EVENT = Event(1_800_000_000.1234567, 40, "handler 0", 7, "it died", {"ended": "SIGABRT", "last_words": ["a b", "c"]})


def test_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        line = form_of("text", "orders")(EVENT)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert line == (
        b'2027-01-15 10:00:00.123 ERROR orbitmq[orders] handler 0[7]: it died [ended=SIGABRT last_words="a b | c"]\n'
    )


def test_json() -> None:
    assert json.loads(form_of("json", "orders")(EVENT)) == {
        "time": "2027-01-15T08:00:00.123457Z",
        "level": "error",
        "broker": "orders",
        "actor": "handler 0",
        "pid": 7,
        "message": "it died",
        "fields": {"ended": "SIGABRT", "last_words": ["a b", "c"]},
    }
    assert "fields" not in json.loads(form_of("json", "orders")(Event(0, 20, "flush", 7, "runs")))


def test_an_exception() -> None:
    event = Event(0.0, 40, "flush", 7, "failed", {}, "Traceback:\n  line\nValueError: x")
    assert json.loads(form_of("json", "b")(event))["exception"] == event.exception
    first, *more = form_of("text", "b")(event).decode().splitlines()
    assert first.endswith("flush[7]: failed") and more == ["    Traceback:", "      line", "    ValueError: x"]


TEXTS = st.text(st.characters(exclude_categories=[]))


@given(TEXTS, TEXTS)
def test_any_text(message: str, value: str) -> None:
    """Whatever a name or a path is: one line, which is JSON, or which begins with its time and level."""
    event = Event(0.0, 30, "flush", 7, message, {"name": value, "names": [value]})
    line = form_of("json", "b")(event)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    told = json.loads(line)
    assert (told["message"], told["fields"]) == (message, dict(event.fields))
    text = form_of("text", "b")(event).decode(errors="replace")
    assert text[:-1].isprintable() and text.endswith("\n")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000 WARNING orbitmq\[b\] flush\[7\]: ", text)
