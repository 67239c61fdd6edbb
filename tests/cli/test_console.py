"""Goal: numbers are shown in short form, and never in an odd one: no 1,024.0 KiB, no 1000 ms."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.cli.console import clock_time, counted, duration, own_durability, rate, retention
from orbitmq.shm.disk_fault import BYTE_UNITS, byte_count


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 40, "5.0 TiB"),
        (3000 << 50, "3,000.0 PiB"),
    ],
)
def test_bytes(count: float, text: str) -> None:
    assert byte_count(count) == text


@given(st.floats(0, 1e18))
@example(1023.7)
@example((1 << 30) - 1.0)
def test_bytes_stay_within_their_unit(count: float) -> None:
    """And they show the right value, except for the rounding."""
    number, unit = byte_count(count).split(" ")
    shown = float(number.replace(",", ""))
    assert shown < 1024 or unit == BYTE_UNITS[-1]
    size = 1024 ** BYTE_UNITS.index(unit)
    assert abs(shown * size - count) <= (0.5 if unit == "bytes" else 0.051 * size)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0, "0"), (7.5, "7.5"), (9.97, "10"), (10.4, "10"), (1234, "1,234"), (999_999.9, "1.00 M"), (1_234_567, "1.23 M")],
)
def test_rates(per_second: float, text: str) -> None:
    assert rate(per_second) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (3.4, "3 ms"), (999.4, "999 ms"), (999.6, "1.0 s"), (1234, "1.2 s"), (119_990, "2 min"), (300_000, "5 min")],
)
def test_ages(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text


def test_counts() -> None:
    assert [counted(number, "message") for number in (0, 1, 2000)] == ["0 messages", "1 message", "2,000 messages"]


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0, "for ever"), (1, "1 hour"), (24, "24 hours"), (36, "36 hours"), (72, "72 hours (3 days)"), (73, "73 hours")],
)
def test_how_long_messages_are_kept(hours: int, text: str) -> None:
    assert retention(hours) == text


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_has_its_milliseconds(milliseconds: int) -> None:
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.{milliseconds % 1000:03d}", clock_time(milliseconds))


def test_only_a_durability_of_its_own_is_shown() -> None:
    assert (own_durability("appended"), own_durability("flushed")) == ("", "flushed")
