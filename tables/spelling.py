"""How callers of `orbitmq.dataset` change what an error speaks of: with an argument, also where the data source of Spark, which
reads the same way, has an option."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.errors import OrbitError
from orbitmq.errors.remedy import Face, Knob, library

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
def spelled(face: Face) -> Iterator[None]:
    """Errors from here are spelled for the users of this face."""
    try:
        yield
    except OrbitError as error:
        error.face = face
        raise


@contextmanager
def for_dataset() -> Iterator[None]:
    """Errors from here are spelled for callers of orbitmq.dataset."""
    with spelled(dataset):
        yield
