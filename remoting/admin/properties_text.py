"""Settings as Java's properties files have them: a line for each, NAME=VALUE."""

from __future__ import annotations

from collections.abc import Mapping


def properties_text(values: Mapping[str, object]) -> bytes:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items()).encode()


def read_properties(text: bytes) -> dict[str, str]:
    """What RocketMQ's tools send: no line goes on in the next one. Raises: ValueError: a line has no name."""
    found = {}
    for line in text.decode(errors="replace").splitlines():
        words = line.strip()
        if not words or words[0] in "#!":
            continue
        name, _, value = words.partition("=")
        if not name.strip():
            raise ValueError(f"the line {line[:64]!r} has no name")
        found[name.strip()] = value.strip().replace("\\\\", "\\")
    return found


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\")
