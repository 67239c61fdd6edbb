"""How users of the data source change a setting: with an option. Errors in a query or a task use this spelling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.errors.remedy import Knob, library
from orbitmq.tables.spelling import spelled

# For arguments of the library; only the sink waits for receipts, with its option timeout.
OPTIONS = {"name": "broker", "store": "path", "timeout": "timeout"}


def spark(knob: Knob) -> str | None:
    """An argument of the library without an option cannot be changed here; a broker's setting can, at the broker."""
    if knob.of in ("broker", "spark"):
        return library(knob)
    option = None if knob.of else OPTIONS.get(knob.name)
    if option is None:
        return None
    return f"option {option}" if knob.value is None else f"option {option} = {knob.value}"


@contextmanager
def for_spark() -> Iterator[None]:
    """Wraps what Spark calls: errors from here are spelled for Spark's users."""
    with spelled(spark):
        yield
