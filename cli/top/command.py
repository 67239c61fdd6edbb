"""`orbitmq top`: a live view of a broker, in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orbitmq.cli.options import Name, Store
from orbitmq.errors import OrbitError


def top(
    name: Name = None,
    store: Store = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Watch the broker: actors, topics by rate, groups by lag.

    The keys are shown at the bottom. The view goes on while the broker stops and comes back.
    """
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "textual":
            raise
        text = "could not start the live view: it needs textual, which is not installed"
        raise OrbitError(text, hint="pip install 'orbitmq[cli]'") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        text = "could not start the live view: it needs a terminal for its input and output"
        raise OrbitError(text, hint="orbitmq status shows the same once, also for scripts")
    from orbitmq.cli.top.app import Top
    from orbitmq.cli.top.source import Source

    source = Source(name, store)
    try:
        Top(source.look, source.page, interval).run()
    finally:
        source.close()
