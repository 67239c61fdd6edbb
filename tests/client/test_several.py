"""Goal: one text is never taken for a list of its letters. Method: each parameter that accepts several names gets one text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.client import Client
from orbitmq.client.consumer import arrow
from orbitmq.client.consumer.subscription import topic_names
from orbitmq.client.several import not_one_text
from orbitmq.errors import SettingError
from orbitmq.tables.export.plan import Wish

ONE: dict[str, tuple[str, Callable[[Any], object]]] = {
    "consume topics": ("topics", topic_names),
    "read columns": ("columns", arrow.selected),
    "export with topics": ("topics", Wish.of),
    "export with by": ("by", lambda by: Wish.of(by=by)),
    "export with columns": ("columns", lambda columns: Wish.of(columns=columns)),
    # Checked before the broker is asked, so no broker is needed.
    "unset": ("forget", lambda forget: Client.change_settings(object.__new__(NoClient), forget=forget)),
}


class NoClient(Client):
    """name: for messages."""

    name = "nobody"  # type: ignore[assignment]
    __del__ = lambda self: None  # noqa: E731


@pytest.mark.parametrize("doing", ONE)
@pytest.mark.parametrize("text", ["flush", b"flush"])
def test_one_text_is_refused(doing: str, text: str | bytes) -> None:
    parameter, take = ONE[doing]
    with pytest.raises(SettingError, match="a list of names is needed") as caught:
        take(text)
    assert str(caught.value).startswith(f"could not {doing} {text!r}: ")
    assert caught.value.hint == f"write {parameter}=[{text!r}]"
    assert caught.value.values == {"setting": parameter, "value": text}


@pytest.mark.parametrize("values", [[], ["a"], ("a",), {"a"}, {"a": 1}.keys(), None])
def test_several_are_taken(values: object) -> None:
    not_one_text(values, "do with", "names")
    assert topic_names(("a", "b", "a")) == ("a", "b")


def test_every_parameter_of_several_is_here() -> None:
    """Goal: no parameter of that type is forgotten above. Method: a search for it in signatures."""
    root = Path(inspect.getfile(Client)).parent.parent
    texts = [path.read_text() for folder in ("client", "spark") for path in (root / folder).rglob("*.py")]
    named = {word for text in texts for word in ("topics", "columns", "by", "forget") if f"{word}: Several[str]" in text}
    assert named | {"by"} == {parameter for parameter, _ in ONE.values()}
