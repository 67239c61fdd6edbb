"""Goal: a name is refused exactly when it breaks the rule, and the error says where. Method: any text against the rule as a
regular expression. What names are reserved: tests/native/test_reserved.py."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.errors import TopicNameError
from orbitmq.shm.topic_name import NAME_MAX, check_new_topic_name, check_topic_name, how_to_make, possible

RULE = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{NAME_MAX}}}")
NAMES = st.text(alphabet=st.one_of(st.sampled_from("aZ09%|_- ./é€"), st.characters()), max_size=NAME_MAX + 3)


@given(NAMES)
@example("a" * NAME_MAX)
@example("a" * (NAME_MAX + 1))
@example("a\ud800")
def test_a_name_is_good_or_says_where_it_is_not(name: str) -> None:
    try:
        check_topic_name(name)
    except TopicNameError as error:
        assert not RULE.fullmatch(name)
        if "character" in error.values:
            assert name[error.at] == error.character and not RULE.fullmatch(error.character)
            assert RULE.fullmatch(name[: error.at]) or error.at == 0, "the first one"
    else:
        assert RULE.fullmatch(name)


@pytest.mark.parametrize("name", [None, 5, b"orders", ["orders"]])
def test_a_name_is_text(name: object) -> None:
    with pytest.raises(TopicNameError, match="a name is a str"):
        check_topic_name(name)


def test_a_reserved_name_may_be_read_and_not_made() -> None:
    check_topic_name("SCHEDULE_TOPIC_XXXX")
    with pytest.raises(TopicNameError, match="SCHEDULE_TOPIC_XXXX"):
        check_new_topic_name("SCHEDULE_TOPIC_XXXX")
    assert "nobody can make" in how_to_make("SCHEDULE_TOPIC_XXXX")
    assert how_to_make("orders") == "create it: orbitmq topic create orders"


@given(st.binary(max_size=NAME_MAX + 1), st.integers(0, 1 << 32))
def test_what_another_brokers_log_may_name(name: bytes, queue: int) -> None:
    """Any bytes as a topic: the function says whether such a queue can exist, and never raises."""
    text = name.decode(errors="surrogateescape")
    assert not possible(text, queue) or (RULE.fullmatch(text) and queue < 1 << 16)
