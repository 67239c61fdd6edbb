"""Goal: a stream's distance from the latest offsets is reported as Spark's Kafka source reports it. Method: progress made by
hand, as Spark has it in JSON and as objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.errors import SettingError
from orbitmq.spark.stream.progress import behind_latest

END, LATEST = '{"t": {"0": 5, "1": 3}}', '{"t": {"0": 5, "1": 10, "2": 2}}'


@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_behind(make: Any) -> None:
    source = make(endOffset=END, latestOffset=LATEST)
    assert behind_latest(source) == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "7",
        "avgOffsetsBehindLatest": "3.0",
    }


def test_before_the_first_look_and_other_sources() -> None:
    assert behind_latest({"endOffset": END, "latestOffset": None}) == {}
    assert behind_latest({"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 4}}})["maxOffsetsBehindLatest"] == "0"
    with pytest.raises(SettingError):
        behind_latest({"endOffset": "17", "latestOffset": "18"})
