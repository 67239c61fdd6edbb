"""Questions to the user at the terminal. If there is no terminal, an option gives the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from orbitmq.cli.console import err, show_error
from orbitmq.cli.exit_codes import WOULD_DELETE
from orbitmq.errors import WouldDelete

Done = TypeVar("Done")


def allowed(allow: bool, deed: Callable[[bool], Done]) -> Done:
    """Does it. If it would delete messages and nobody has allowed that, asks first. deed: gets whether it may delete them.

    Raises: WouldDelete: there is nobody to ask. Exit: the answer was no."""
    try:
        return deed(allow)
    except WouldDelete as error:
        if not (sys.stdin.isatty() and err.is_terminal):
            raise
        show_error(error)
        if not typer.confirm("Delete them?", err=True):
            raise typer.Exit(WOULD_DELETE) from None
    return deed(True)
