"""Goal: a consumer with invalid settings is refused before it asks a broker for anything."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.errors import SettingError


@pytest.mark.parametrize(
    ("name", "value"),
    [("start", "now"), ("batch", 0), ("batch", -1), ("removed", "keep"), ("spin", -1), ("spin", True), ("spin", "1")],
)
def test_what_cannot_be(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        ConsumerSettings("g", ["t"], **{name: value})
    assert (caught.value.setting, caught.value.value) == (name, value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("removed", "keep", "with 'keep' for removed messages: it must be 'skip' or 'raise'"),
        ("batch", 0, "with a batch of 0 messages: the number must be at least 1"),
    ],
)
def test_the_setting_and_its_values_are_named(name: str, value: Any, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        ConsumerSettings("g", ["t"], **{name: value})


def test_what_can() -> None:
    assert ConsumerSettings("g", ["t"], start="latest", batch=1, removed="raise").batch == 1
