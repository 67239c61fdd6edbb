"""JSON as in RocketMQ's config files: integer keys without quotes, tabs, fields in alphabetical order.

RocketMQ 4.9 accepts quoted integer keys everywhere but writes bare ones, which no JSON parser accepts. So this module reads
both, and writes bare ones if a dict has int keys.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from orbitmq.shm import finite_json

# A string, to be skipped, or a whole number before a colon. Outside of strings, only a key is that.
_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(-?\d+)(?=\s*:)')


def loads(text: str) -> Any:
    """The value. Bare integer keys become their text, as quoted ones do. Raises: ValueError."""
    with suppress(ValueError):  # most texts have no such keys, and are read eight times as fast
        return finite_json.loads(text)
    return finite_json.loads(_STRING_OR_KEY.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text))


def dumps(value: Any, *, depth: int = 0) -> str:
    """The text of dicts (str or int keys), lists, strings, numbers, booleans and None, without a newline at the end."""
    if isinstance(value, dict) and value:
        inner = "\t" * (depth + 1)
        keys = sorted(value)
        lines = (f"{inner}{_key(key)}:{dumps(value[key], depth=depth + 1)}" for key in keys)
        return "{\n" + ",\n".join(lines) + "\n" + "\t" * depth + "}"
    if isinstance(value, list):
        return "[" + ",".join(dumps(each, depth=depth + 1) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)
