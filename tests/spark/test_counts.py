"""Goal: the text of an option gives its value, or an error that names the option; no text raises another exception."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.errors import SettingError
from orbitmq.spark.source.counts import count, moment_ms, seconds, switch


@given(st.text() | st.integers().map(str))
@example("9" * 5000)
@example("1e5")
def test_any_count(text: str) -> None:
    try:
        assert count({"x": text}, "x") >= 1
    except SettingError as error:
        assert (error.option, error.value) == ("x", text)


def test_what_is_not_given() -> None:
    assert count({}, "x") == 0 and seconds({}, "x", 7.5) == 7.5 and switch({}, "x", True) is True


@pytest.mark.parametrize(("text", "value"), [("true", True), (" False ", False), ("TRUE", True)])
def test_switches(text: str, value: bool) -> None:
    assert switch({"x": text}, "x", not value) is value


@pytest.mark.parametrize("text", ["yes", "1", "", "truefalse"])
def test_no_switches(text: str) -> None:
    with pytest.raises(SettingError, match="true or false"):
        switch({"x": text}, "x", True)


@pytest.mark.parametrize(
    ("text", "value"), [("500", 0.5), ("500ms", 0.5), ("90s", 90.0), (" 2 min ", 120.0), ("1.5h", 5400.0), ("1d", 86400.0)]
)
def test_lengths_of_time(text: str, value: float) -> None:
    """A plain number means milliseconds, as with Spark's Kafka source."""
    assert seconds({"x": text}, "x", 0) == value


@given(st.text("0123456789.-+ esmhd"))
def test_any_length_of_time(text: str) -> None:
    try:
        assert seconds({"x": text}, "x", 0) >= 0
    except SettingError as error:
        assert error.option == "x"


ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1970, 1, 3), datetime(9999, 12, 1), timezones=ZONES))
def test_any_moment_is_rounded_up(moment: datetime) -> None:
    """A message of the millisecond before was stored before the moment."""
    ms = moment_ms("x", moment.isoformat())
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert timedelta(0) <= at - moment < timedelta(milliseconds=1)
    assert moment_ms("x", str(ms)) == moment_ms("x", ms) == ms


@pytest.mark.parametrize(
    "value", ["yesterday", "2024-05-01T12:00:00", "1969-12-31T23:59:59Z", -1, True, 1.5, None, "", "9" * 16]
)
def test_what_is_no_moment(value: object) -> None:
    with pytest.raises(SettingError, match="milliseconds since the epoch are wanted"):
        moment_ms("x", value)
