"""Goal: nothing is deleted without permission, and no question is asked if there is no terminal."""

from __future__ import annotations

import sys

import pytest
import typer

from orbitmq.cli import answers
from orbitmq.cli.answers import allowed
from orbitmq.cli.exit_codes import WOULD_DELETE
from orbitmq.errors import WouldDelete


class Deed:
    def __init__(self) -> None:
        self.tries: list[bool] = []

    def __call__(self, allow: bool) -> str:
        self.tries.append(allow)
        if not allow:
            raise WouldDelete("cannot do it: it would delete 5 messages")
        return "done"


def sit(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(type(answers.err), "is_terminal", True)
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: answer)


def test_what_deletes_nothing_is_done() -> None:
    assert allowed(False, lambda allow: allow) is False


def test_what_was_allowed_is_not_asked_about() -> None:
    deed = Deed()
    assert allowed(True, deed) == "done" and deed.tries == [True]


def test_nobody_is_there() -> None:
    deed = Deed()
    with pytest.raises(WouldDelete):
        allowed(False, deed)
    assert deed.tries == [False]


def test_the_answer_is_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    sit(monkeypatch, True)
    deed = Deed()
    assert allowed(False, deed) == "done" and deed.tries == [False, True]


def test_the_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    sit(monkeypatch, False)
    deed = Deed()
    with pytest.raises(typer.Exit) as caught:
        allowed(False, deed)
    assert caught.value.exit_code == WOULD_DELETE and deed.tries == [False]
