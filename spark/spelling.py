"""How users of the data source change a setting: with an option. Errors in a query or a task use this spelling. And how users
of `orbitmq.dataset`, which reads the same way, do: with an argument."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.errors import OrbitError
from orbitmq.errors.remedy import Face, Knob, library

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


# Arguments of orbitmq.dataset for options that errors of the source may name.
ARGUMENTS = {
    "failOnDataLoss": Knob("allow_gaps", True),
    "read": Knob("read", "appended"),
    "columns": Knob("columns"),
}


def dataset(knob: Knob) -> str | None:
    """An option for which orbitmq.dataset has no argument cannot be changed there."""
    if knob.of != "spark":
        return library(knob)
    argument = ARGUMENTS.get(knob.name)
    return None if argument is None else library(argument)


@contextmanager
def _spelled(face: Face) -> Iterator[None]:
    try:
        yield
    except OrbitError as error:
        error.face = face
        raise


@contextmanager
def for_spark() -> Iterator[None]:
    """Wraps what Spark calls: errors from here are spelled for Spark's users."""
    with _spelled(spark):
        yield


@contextmanager
def for_dataset() -> Iterator[None]:
    """The same for callers of orbitmq.dataset."""
    with _spelled(dataset):
        yield
