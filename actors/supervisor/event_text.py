"""The two forms of a line in a broker's log.

text   2026-07-01 12:00:00.123 WARNING orbitmq[orders] writer[4711]: what happened [name=value ...]
       The time is this machine's; a traceback follows, each of its lines indented.
json   one object a line; its time is UTC. fields and exception are there if they say something.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from orbitmq.shm.event import Event


def form_of(name: str, broker: str) -> Callable[[Event], bytes]:
    """How to write an event as "text" or "json"."""
    return partial(_as_json if name == "json" else _as_text, broker)


def _as_text(broker: str, event: Event) -> bytes:
    when = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(event.at))}.{int(event.at * 1000) % 1000:03}"
    fields = " ".join(f"{name}={_shown(value)}" for name, value in event.fields.items())
    line = f"{when} {event.level_name.upper()} orbitmq[{broker}] {event.actor}[{event.pid}]: {_plain(event.message)}"
    more = "".join(f"\n    {_plain(each)}" for each in event.exception.splitlines())
    return f"{line}{f' [{fields}]' if fields else ''}{more}\n".encode(errors="backslashreplace")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f'"{_plain(" | ".join(map(str, value)))}"'
    text = _plain(str(value))
    return text if text and not set(text) & set(' "[]=') else json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    """What a client names something may hold line ends, and what moves a terminal's cursor."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _as_json(broker: str, event: Event) -> bytes:
    when = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    line: dict[str, Any] = {"time": when, "level": event.level_name, "broker": broker, "actor": event.actor, "pid": event.pid}
    line["message"] = event.message
    if event.fields:
        line["fields"] = event.fields
    if event.exception:
        line["exception"] = event.exception
    return json.dumps(line, default=str, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
