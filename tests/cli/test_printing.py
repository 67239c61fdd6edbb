"""Goal: no message can do anything to the terminal that shows it, and JSON has all of it. Method: any text, and messages of a
composed store."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.cli.printing import BODY_MAX, as_record, body_text, one_line, print_json, print_line, print_whole
from orbitmq.client.message import Message
from tests.native.composed_store import ComposedStore


@given(st.text())
@example("\x1b[2J\r\n\x07")
@example("\u202e right to left \u2028")
@example("\ud800")
@example("a" * (BODY_MAX + 1))
@example("\0" * BODY_MAX)
def test_a_line_is_one_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable() and len(shown) < BODY_MAX + 40
    if text.isprintable() and len(text) <= BODY_MAX:
        assert shown == text
    if len(text) > BODY_MAX:
        assert shown.endswith(f"... ({len(text):,} characters)")


def messages(root: Path, *bodies: bytes, **fields: Any) -> list[Message]:
    store = ComposedStore(root)
    slot = store.add_topic("t", 1)
    for body in bodies:
        store.append("t", slot, body, **fields)
    store.publish()
    reader = store.reader()
    reader.add(slot, 0)
    return list(reader.messages(len(bodies)))


def test_json_has_the_body_as_it_is(tmp_path: Path) -> None:
    text, binary = messages(tmp_path, "grün\n".encode(), b"\xff\0", properties={"TAGS": "a", "KEYS": "k l", "mine": "1"})
    assert as_record(text)["body"] == "grün\n" == body_text(text) and body_text(binary) is None
    record = json.loads(json.dumps(as_record(binary)))
    assert base64.b64decode(record["body_base64"]) == b"\xff\0" and "body" not in record
    assert (record["topic"], record["queue"], record["offset"]) == ("t", 0, 1)
    assert (record["tags"], record["keys"], record["properties"]["mine"]) == ("a", ["k", "l"], "1")


def test_a_message_in_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields that are separated by tabs contain no tabs; markup is shown as it is."""
    hostile, binary = messages(
        tmp_path, b"[red]x\ty\n", bytes(range(200, 256)) * 100, properties={"TAGS": "[b]", "KEYS": "a\tb"}
    )
    print_line(hostile)
    place, time, tag, keys, body = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (place, tag, keys, body) == ("t/0@0", "[b]", r"a\tb", r"[red]x\ty\n") and time
    print_line(binary)
    assert "(5,600 bytes)" in capsys.readouterr().out
    print_json(hostile)
    assert json.loads(capsys.readouterr().out)["body"] == "[red]x\ty\n"
    print_whole(hostile)
    assert "t/0@0" in capsys.readouterr().out
