"""Goal: a setting's text gives its value, or an error that names the setting; no text raises another exception."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import settings_file
from orbitmq.store.settings.setting_text import from_environment, located, mistyped, refused, value_of, variable_of
from orbitmq.store.settings.tree_settings import KINDS


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "65536", 65536),
        (int, " 64K ", 65536),
        (int, "64kib", 65536),
        (int, "1.5G", 3 << 29),
        (int, "0.1k", 102),
        (int, "9007199254740993k", 9007199254740993 << 10),
        (float, "0.5", 0.5),
        (bool, "Yes", True),
        (bool, "off", False),
        (str, " batch ", "batch"),
        (str, "64K", "64K"),
    ],
)
def test_what_a_text_means(kind: type, text: str, value: object) -> None:
    found = value_of("x", kind, text)
    assert found == value and type(found) is kind


@pytest.mark.parametrize(
    ("kind", "text"), [(int, "64T"), (int, "many"), (int, ""), (int, "1.5"), (float, "64K"), (bool, "2"), (bool, "")]
)
def test_what_means_nothing(kind: type, text: str) -> None:
    with pytest.raises(SettingError, match="cannot set x to") as caught:
        value_of("x", kind, text)
    assert caught.value.values == {"name": "x", "value": text}


@given(st.sampled_from([int, float, bool]), st.text() | st.from_regex(r"\d+(\.\d*)?[kmgKMG]?i?b?", fullmatch=True))
@example(int, "9" * 400 + "k")
@example(int, "9" * 5000 + "k")
@example(int, "9" * 5000)
def test_any_text_is_a_value_or_an_error(kind: type, text: str) -> None:
    try:
        assert type(value_of("x", kind, text)) is kind
    except SettingError as error:
        assert len(error.message) < 200


def test_the_environment() -> None:
    assert variable_of("retention_hours") == "ORBITMQ_RETENTION_HOURS"
    kinds = {"handlers": int, "flush": str}
    assert from_environment(kinds, {"ORBITMQ_HANDLERS": "2", "ORBITMQ_FLUSH": " ", "FLUSH": "batch"}) == {"handlers": 2}
    with pytest.raises(SettingError, match="the environment's ORBITMQ_HANDLERS"):
        from_environment(kinds, {"ORBITMQ_HANDLERS": "x"})


def test_variables_that_look_like_settings() -> None:
    environ = {"ORBITMQ_RETENTION_HOUR": "0", "ORBITMQ_BROKER": "x", "ORBITMQ_RUNTIME_DIR": "/", "ORBITMQ_FLUSH": "batch"}
    assert mistyped(KINDS, environ) == [("ORBITMQ_RETENTION_HOUR", "ORBITMQ_RETENTION_HOURS")]


def test_a_usual_environment_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a start that sets what every program may set does not import difflib. Method: its import is refused."""
    monkeypatch.setitem(sys.modules, "difflib", None)
    assert mistyped(KINDS, {"ORBITMQ_BROKER": "x", "ORBITMQ_RUNTIME_DIR": "/", "ORBITMQ_FLUSH": "batch"}) == []
    with pytest.raises(ImportError):
        mistyped(KINDS, {"ORBITMQ_FLUHS": "batch"})


def test_an_error_that_says_where() -> None:
    """What the error knows stays; the hints are joined."""
    error = located(refused("handlers", 99, "it must be less", "try 4"), "the file", settings_file, "take the line out")
    assert error.message == "cannot set handlers to 99: it must be less (the file)"
    assert error.hint == "try 4, or take the line out" and error.values == {"name": "handlers", "value": 99}
    assert located(refused("x", 1, "why", deed="unset"), "here", settings_file).hint is None


@pytest.mark.parametrize("name", ["retention_hours", "dedup_window_s", "flush_interval_ms", "spin_us"])
def test_a_time_is_no_size(name: str) -> None:
    assert value_of(name, int, "72") == 72
    with pytest.raises(SettingError, match=r"it must be a whole number$"):
        value_of(name, int, "1K")
