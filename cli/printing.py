"""How a message is shown: on one line, as JSON, or with all fields."""

from __future__ import annotations

import base64
import json
from typing import Any

from rich.markup import escape
from rich.table import Table

from orbitmq.cli.console import clock_time, out
from orbitmq.client.message import Message

BODY_MAX = 2000  # characters of a body on one line
LOCAL = "127.0.0.1:0"  # where local clients send from


def body_text(message: Message) -> str | None:
    """The body as text; None when it is not UTF-8."""
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        return None


def one_line(text: str) -> str:
    """Text that cannot move the cursor: control characters are escaped, and the text is cut to what fits a line."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:BODY_MAX])
    return shown if len(text) <= BODY_MAX >= len(shown) else f"{shown[:BODY_MAX]}... ({len(text):,} characters)"


def print_line(message: Message) -> None:
    """place, time, tag, keys, body; separated by tabs if the output is not a terminal."""
    text = body_text(message)
    body = one_line(text) if text is not None else f"{bytes(message)[: BODY_MAX // 2].hex(' ')} ({len(message.body):,} bytes)"
    place = f"{message.topic}/{message.queue}@{message.offset}"
    tag, keys = message.tags or "", " ".join(message.keys)
    if not out.is_terminal:
        print("\t".join([place, clock_time(message.stored_ms), one_line(tag), one_line(keys), body]))
        return
    about = "  ".join(
        part
        for part in (
            f"[cyan]{escape(one_line(tag))}[/]" if tag else "",
            f"[magenta]{escape(one_line(keys))}[/]" if keys else "",
        )
        if part
    )
    out.print(f"[dim]{clock_time(message.stored_ms)[11:]}  {escape(place)}[/]  {about}{'  ' if about else ''}{escape(body)}")


def as_record(message: Message) -> dict[str, Any]:
    """A message as JSON: the body as text, or base64 under another name if it is not UTF-8."""
    text = body_text(message)
    body = {"body": text} if text is not None else {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "id": message.id,
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "physical_offset": message.physical_offset,
        "size": message.size,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "born_ms": message.born_ms,
        "born_host": message.born_host,
        "stored_ms": message.stored_ms,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        **body,
    }


def print_json(message: Message) -> None:
    print(json.dumps(as_record(message), ensure_ascii=False))


def fields_of(message: Message) -> dict[str, str]:
    """Every field but the body, by its label; those that are empty are left out."""
    rows = {
        "id": message.id,
        "place": f"{message.topic}/{message.queue}@{message.offset}",
        "in the log": f"{message.size:,} bytes at {message.physical_offset:,}",
        "tag": message.tags or "",
        "keys": " ".join(message.keys),
        "born": clock_time(message.born_ms),
        "sent from": "" if message.born_host == LOCAL else message.born_host,
        "stored": clock_time(message.stored_ms),
    }
    rows |= {f"property {key}": value for key, value in message.properties.items() if key not in ("TAGS", "KEYS")}
    return {key: value for key, value in rows.items() if value}


def print_whole(message: Message) -> None:
    """Every field on its own line, then the body."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for key, value in fields_of(message).items():
        table.add_row(escape(key), escape(one_line(value)))
    out.print(table)
    text = body_text(message)
    out.print(f"\n{escape(text)}" if text is not None else f"\n[dim]{len(message.body):,} bytes[/]  {bytes(message).hex(' ')}")
