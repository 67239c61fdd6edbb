"""Goal: exactly what was chosen is read, and what does not exist is named. Method: options against the extents of a store.
Mistakes in options: tests/spark/test_options.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import SettingError, UnknownQueue, UnknownTopic
from orbitmq.spark.source.topic_options import parse, words
from orbitmq.tables.choice import Choice

EXTENTS = {
    "orders": {queue: (0, 5) for queue in range(4)},
    "orders2": {0: (0, 1)},
    "bills": {0: (0, 1), 1: (0, 2)},
    "empty": dict[int, tuple[int, int]](),
    "%RETRY%orders": {0: (0, 1)},
    "SCHEDULE_TOPIC_XXXX": {0: (0, 1)},
    "rmq_sys_wheel_timer": {0: (0, 1)},
    "DefaultCluster_REPLY_TOPIC": {0: (0, 1)},
    "TRANS_CHECK_MAX_TIME_TOPIC": {0: (0, 1)},
    "TBW102": {0: (0, 1)},
}


def test_topics_in_the_order_that_was_given() -> None:
    assert list(parse({"subscribe": " orders2 ,orders,orders2"}).of(EXTENTS)) == ["orders2", "orders"]
    with pytest.raises(UnknownTopic, match="the store has no such topic") as caught:
        parse({"subscribe": "orders,ordres"}).of(EXTENTS)
    assert caught.value.topic == "ordres" and caught.value.option == "subscribe" and "orders2" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ["orders"]),
        ("o.*", ["orders", "orders2"]),
        (".*", ["bills", "empty", "orders", "orders2"]),
        ("%RETRY%.*", ["%RETRY%orders"]),
        ("S.*|T.*|D.*", []),
        ("DefaultCluster_REPLY_TOPIC|b.*", ["DefaultCluster_REPLY_TOPIC", "bills"]),
        ("nothing", []),
    ],
)
def test_topics_of_a_pattern(pattern: str, names: list[str]) -> None:
    """The whole name; names that brokers keep for themselves match only if the pattern says so."""
    assert list(parse({"subscribePattern": pattern}).of(EXTENTS)) == names


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(?P<n>a)(?P<n>b)", "[z-a]", "(" * 10_000])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(SettingError, match="it is no regular expression") as caught:
        parse({"subscribePattern": pattern})
    assert caught.value.option == "subscribePattern"


def test_queues_that_are_assigned() -> None:
    choice = parse({"assign": '{"orders": [2, 0, 2], "bills": [1]}'})
    assert {topic: list(queues) for topic, queues in choice.of(EXTENTS).items()} == {"orders": [2, 0], "bills": [1]}
    with pytest.raises(UnknownQueue, match="0 to 3") as caught:
        parse({"assign": '{"orders": [4]}'}).of(EXTENTS)
    assert (caught.value.option, caught.value.topic, caught.value.queue) == ("assign", "orders", 4)
    with pytest.raises(UnknownQueue) as caught:
        parse({"assign": '{"empty": [0]}'}).of(EXTENTS)
    assert caught.value.hint == "it has no queue"


NAMES = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool)


@given(st.lists(NAMES, min_size=1))
def test_any_names_come_back(names: list[str]) -> None:
    assert words("subscribe", " , ".join(names)) == tuple(names)


@given(st.dictionaries(st.text(), st.lists(st.integers(0, 1 << 70), min_size=1), min_size=1))
def test_any_assignment_comes_back(queues: dict[str, list[int]]) -> None:
    wanted = {topic: tuple(dict.fromkeys(numbers)) for topic, numbers in queues.items()}
    assert parse({"assign": json.dumps(queues)}) == Choice("assign", tuple(queues), queues=wanted)


@given(st.text("""{}[]":,0123456789e.-ax""") | st.text())
def test_any_text_is_an_assignment_or_an_error(text: str) -> None:
    try:
        choice = parse({"assign": text})
    except SettingError as error:
        assert error.option == "assign"
    else:
        assert choice.queues and all(choice.queues.values())


def test_exactly_one_of_them() -> None:
    with pytest.raises(SettingError, match="none is given"):
        parse({})
    with pytest.raises(SettingError, match="subscribe and assign are given"):
        parse({"subscribe": "a", "assign": "{}"})
