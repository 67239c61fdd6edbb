"""How users of the data source turn a knob: with an option of it. What an error says in a query or a task is spelled so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.errors import OrbitError
from orbitmq.errors.remedy import Knob, library

# Of the arguments of the library; the sink alone waits for receipts, with its option timeout.
OPTIONS = {"name": "broker", "store": "path", "timeout": "timeout"}


def spark(knob: Knob) -> str | None:
    """An argument of the library that no option stands for cannot be turned here; a broker's setting can, at the broker."""
    if knob.of in ("broker", "spark"):
        return library(knob)
    option = None if knob.of else OPTIONS.get(knob.name)
    if option is None:
        return None
    return f"option {option}" if knob.value is None else f"option {option} = {knob.value}"


@contextmanager
def for_spark() -> Iterator[None]:
    """Around what Spark calls: errors from here are spelled for its users."""
    try:
        yield
    except OrbitError as error:
        error.face = spark
        raise
