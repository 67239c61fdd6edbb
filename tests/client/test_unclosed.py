"""Goal: forgetting to close warns when it matters, and only then; and a half-made object has a repr.
tests/client/test_left_open.py shows that the objects themselves call this."""

from __future__ import annotations

import os
import warnings

import pytest

from orbitmq.client.unclosed import Shown, state, warn_unclosed, words_of


class Thing(Shown):
    owner: str

    def _words(self) -> str:
        return f"of {self.owner}, {state(False)}"


def test_its_owner_is_warned() -> None:
    thing = Thing()
    thing.owner = "me"
    with pytest.warns(ResourceWarning, match="^unclosed <Thing of me, open>; close it") as caught:
        warn_unclosed(thing, os.getpid())
    assert caught[0].source is thing and words_of(thing) == "of me, open"
    with pytest.warns(ResourceWarning, match="^unclosed what it was;"):
        warn_unclosed(thing, os.getpid(), was="what it was")


@pytest.mark.parametrize(
    ("made_by", "finalizing"), [(os.getpid() + 1, False), (0, False), (os.getpid(), True)], ids=["parent", "half", "end"]
)
def test_nobody_else_is(made_by: int, finalizing: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unclosed(Thing(), made_by, finalizing=lambda: finalizing)


def test_half_made() -> None:
    assert repr(Thing()) == "<Thing, not made>"
    assert (state(True), state(False)) == ("closed", "open")
