"""The address at which a command itself listens."""

from __future__ import annotations

import typer

from orbitmq.errors import OrbitError
from orbitmq.shm.disk_fault import said
from orbitmq.store.settings.listen_address import ListenAddress, listen_address


def place_of(listen: str) -> ListenAddress:
    """Of the command's option. Raises: typer.BadParameter."""
    try:
        found = listen_address(listen)
    except ValueError as error:
        raise typer.BadParameter(f"{listen!r}: {error}", param_hint="--listen") from None
    if found is None:
        raise typer.BadParameter("it is empty", param_hint="--listen")
    return found


def taken(where: ListenAddress, error: OSError) -> OrbitError:
    """What to raise if nobody can listen there."""
    text = f"could not listen at {where}: {said(error)}"
    return OrbitError(text, hint="choose another address or port, or 0 for any port that is free")
