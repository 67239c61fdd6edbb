"""Questions to the user at the terminal. If there is no terminal, an option gives the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from orbitmq.cli.console import err, show_error
from orbitmq.cli.exit_codes import WOULD_DELETE
from orbitmq.errors import OrbitError, WouldDelete

Done = TypeVar("Done")


def allowed(allow: bool, deed: Callable[[bool], Done]) -> Done:
    """Does it. If it would delete messages and nobody has allowed that, asks first. deed: gets whether it may delete them.

    Raises: WouldDelete: there is nobody to ask. Exit: the answer was no."""
    try:
        return deed(allow)
    except WouldDelete as error:
        if not _somebody_is_there():
            raise
        show_error(error)
        if not typer.confirm("Delete them?", err=True):
            raise typer.Exit(WOULD_DELETE) from None
    return deed(True)


def sure(yes: bool, deed: str, loses: str) -> None:
    """Asks before something is destroyed, unless --yes was given. deed: as in "delete the group 'billing'"; loses: what cannot
    be had back.

    Raises: Exit: the answer was no, or there is nobody to ask; nothing is done."""
    if yes:
        return
    if not _somebody_is_there():
        show_error(OrbitError(f"did not {deed}: {loses}", hint="to do it without being asked, add --yes"))
        raise typer.Exit(WOULD_DELETE)
    err.print(loses, markup=False)
    if not typer.confirm(f"{deed[0].upper()}{deed[1:]}?", err=True):
        raise typer.Exit(WOULD_DELETE)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty() and err.is_terminal
