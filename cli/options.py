"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.console import parse_size

Name = Annotated[
    str | None,
    typer.Option("--name", "-n", envvar="ORBITMQ_BROKER", help="Which broker, where several run.", show_default="default"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
Topic = Annotated[str, typer.Argument(help="Name of the topic.")]


def size(text: str) -> int:
    """A size on the command line, such as 64M. Raises: BadParameter."""
    try:
        return parse_size(text)
    except (ValueError, KeyError):
        raise typer.BadParameter(f"{text!r} is no size; write bytes, or a number with K, M or G behind it") from None
