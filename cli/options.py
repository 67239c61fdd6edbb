"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[
    str | None,
    typer.Option("--name", "-n", help='The broker, if there are several. [dim]\\[default: $ORBITMQ_BROKER, else "default"][/]'),
]
Store = Annotated[
    Path | None,
    typer.Option("--store", "-s", help="Instead of a name: the broker that runs on this store."),
]
Wait = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for an absent broker, for example while it restarts.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
AllowDeletion = Annotated[
    bool, typer.Option("--allow-deletion", help="Allow messages to be deleted because less is to be kept than before.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Topic = Annotated[str, typer.Argument(help="Name of the topic.")]


def usual(text: str, default: str) -> str:
    """Help text of an option whose default is determined elsewhere; typer would write it in brackets within its brackets."""
    return f"{text} [dim]\\[default: {default}][/]"


_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text: str) -> int:
    """Bytes from "65536", "64K", "256MiB" or "1.5G". Raises: BadParameter."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a size: give a number of bytes, or a number followed by K, M or G")
    return int(float(found[1]) * _UNITS[found[2].lower()])
