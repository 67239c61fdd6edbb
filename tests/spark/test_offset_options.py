"""Goal: each queue begins and ends where the options say; without options, where Spark's Kafka source would. Method: options
against the choice of topics. Mistakes: tests/spark/test_options.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import SettingError
from orbitmq.spark.source import topic_options
from orbitmq.spark.source.offset_options import ending, starting
from orbitmq.tables.ends import EARLIEST, LATEST

BOTH = topic_options.parse({"subscribe": "a,b"})
ASSIGNED = topic_options.parse({"assign": '{"a": [0, 2]}'})
NUMBERS = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.integers(0, 5), st.integers(0, 1 << 60)), min_size=1)


@given(NUMBERS, st.integers(0, 6))
def test_offsets_of_single_queues(numbers: dict[str, dict[int, int]], queue: int) -> None:
    text = json.dumps(numbers)
    begin = starting({"startingOffsets": text}, BOTH, LATEST)
    end = ending({"endingOffsets": text}, BOTH)
    for topic in "ab":
        assert begin.of(topic, queue) == numbers.get(topic, {}).get(queue, EARLIEST)
        assert end.of(topic, queue) == numbers.get(topic, {}).get(queue, LATEST)
    assert not begin.timed and begin.moment_of("a", queue) is None


@given(NUMBERS, st.integers(0, 6))
def test_moments_of_single_queues(numbers: dict[str, dict[int, int]], queue: int) -> None:
    small = {topic: {number: ms % 10**14 for number, ms in queues.items()} for topic, queues in numbers.items()}
    begin = starting({"startingOffsetsByTimestamp": json.dumps(small)}, BOTH, LATEST)
    assert begin.timed and begin.strict
    assert begin.moment_of("a", queue) == small.get("a", {}).get(queue)


@pytest.mark.parametrize("default", [EARLIEST, LATEST])
def test_without_an_option(default: int) -> None:
    """A stream begins at the end, a batch at the beginning; both end at the end."""
    assert starting({}, BOTH, default).of("a", 0) == default
    assert ending({}, BOTH).of("a", 0) == LATEST


@pytest.mark.parametrize(("word", "offset"), [("earliest", EARLIEST), (" Latest ", LATEST)])
def test_words(word: str, offset: int) -> None:
    assert starting({"startingOffsets": word}, BOTH, 0).of("a", 3) == offset


def test_a_moment_for_all() -> None:
    begin = starting({"startingTimestamp": "1714564800000"}, BOTH, EARLIEST)
    assert begin.timed and begin.moment_of("b", 9) == 1714564800000 and begin.strict
    lenient = {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert not starting(lenient, BOTH, EARLIEST).strict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "[]",
        '{"a": 5}',
        '{"a": {"x": 1}}',
        '{"a": {"0": "1"}}',
        '{"a": {"0": 1e999}}',
        '{"a": {"0": -3}}',
        "[" * 100_000,
    ],
)
def test_what_are_no_offsets(text: str) -> None:
    with pytest.raises(SettingError, match="it cannot be understood") as caught:
        ending({"endingOffsets": text}, BOTH)
    assert caught.value.option == "endingOffsets"


def test_queues_that_nobody_reads() -> None:
    with pytest.raises(SettingError, match="it names topic 'c', which the option subscribe does not"):
        starting({"startingOffsets": '{"c": {"0": 1}}'}, BOTH, EARLIEST)
    assert starting({"startingOffsets": '{"a": {"2": 1}}'}, ASSIGNED, EARLIEST).of("a", 2) == 1
    with pytest.raises(SettingError, match="it names queue 1 of topic 'a', which the option assign does not"):
        starting({"startingOffsets": '{"a": {"1": 1}}'}, ASSIGNED, EARLIEST)
