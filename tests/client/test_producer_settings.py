"""Goal: a producer with invalid settings is refused before it asks a broker for anything; NaN is no valid time."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.producer.settings import MESSAGE_MAX, MESSAGE_MIN, WINDOW_MAX, ProducerSettings
from orbitmq.errors import SettingError

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("window", [0, -1, WINDOW_MAX + 1]),
        ("message_max", [MESSAGE_MIN - 1, MESSAGE_MAX + 1]),
        ("on_full", ["drop", None]),
        ("durability", ["replicated", ""]),
        ("timeout", [-1, NAN]),
        ("wait", [-0.1, NAN]),
    ],
)
def test_what_cannot_be(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SettingError, match=f"could not make a producer with {name}") as caught:
            ProducerSettings(**{name: value})
        assert caught.value.setting == name and caught.value.value is value


@pytest.mark.parametrize(
    "settings",
    [
        {"window": 1, "message_max": MESSAGE_MIN},
        {"window": WINDOW_MAX, "message_max": MESSAGE_MAX},
        {"timeout": 0, "wait": 0.0, "on_full": "error"},
        {"durability": "flushed", "wait": float("inf")},
    ],
)
def test_what_can(settings: dict[str, Any]) -> None:
    made = ProducerSettings(**settings)
    assert {name: getattr(made, name) for name in settings} == settings
