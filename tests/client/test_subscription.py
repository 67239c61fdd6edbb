"""Goal: a consumer's request is checked before anything is opened, and a tag expression has the same meaning as in RocketMQ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer import subscription
from orbitmq.client.consumer.subscription import TAGS_MAX, look_up, room_for, tag_list, topic_names
from orbitmq.errors import NoPermission, OrbitError, SettingError, TopicNameError, UnknownTopic
from orbitmq.native._core import ffi, lib
from tests.native.composed_store import ComposedStore

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|"), min_size=1).filter(
    lambda word: word.strip(bytes(range(33)).decode())
)
AROUND = st.sampled_from(["", " ", "\t", "\n ", "\0"])


@given(st.lists(st.tuples(AROUND, WORDS, AROUND), min_size=1, max_size=8))
def test_tags_come_back(parts: list[tuple[str, str, str]]) -> None:
    """Each once, in order, without the characters around them."""
    wanted = list(dict.fromkeys(word.strip(bytes(range(33)).decode()) for _, word, _ in parts))
    if wanted == ["*"]:
        wanted = []
    assert tag_list("||".join(map("".join, parts))) == [word.encode() for word in wanted]


@given(st.text(alphabet="a| *\t"))
def test_any_expression_is_tags_or_an_error(expression: str) -> None:
    try:
        assert all(tag_list(expression)) or not tag_list(expression)
    except SettingError as error:
        assert error.setting == "tags" and error.value == expression


def test_no_filter() -> None:
    assert tag_list(None) == tag_list("*") == tag_list(" * ") == []
    assert tag_list("* || a") == [b"*", b"a"], "a tag like any other, beside another"


def test_too_many_tags() -> None:
    most = [f"t{number}" for number in range(TAGS_MAX)]
    assert len(tag_list("||".join(most))) == TAGS_MAX
    with pytest.raises(SettingError, match=str(TAGS_MAX)):
        tag_list("||".join([*most, "one more"]))


def test_topics() -> None:
    assert topic_names(["b", "a", "b"]) == ("b", "a")


@pytest.mark.parametrize(
    ("topics", "kind"), [("orders", SettingError), ([], SettingError), (["no way"], TopicNameError), ([5], TopicNameError)]
)
def test_what_are_no_topics(topics: Any, kind: type[OrbitError]) -> None:
    with pytest.raises(kind):
        topic_names(topics)


def test_a_name_alone_is_no_list() -> None:
    """It would be read as one topic per letter."""
    with pytest.raises(SettingError) as caught:
        topic_names("orders")
    assert "['orders']" in str(caught.value.hint)


@pytest.fixture
def topics(tmp_path: Path) -> Callable[[], int]:
    store = ComposedStore(tmp_path)
    store.add_topic("four", 4)
    store.add_topic("five", 5)
    name = b"closed"
    assert lib.topics_add(store.topics, name, len(name), 1, 1, lib.PERM_WRITE, ffi.new("uint32_t *")) == 0
    return lambda: int(ffi.cast("uintptr_t", store.topics))


def test_a_topic_is_looked_up(topics: Callable[[], int]) -> None:
    assert look_up(topics(), "five").queues == 5
    with pytest.raises(UnknownTopic, match="could not consume topic 'six'") as caught:
        look_up(topics(), "six")
    assert "orbitmq topic create six" in str(caught.value.hint)
    with pytest.raises(NoPermission, match="it may not be read") as refused:
        look_up(topics(), "closed")
    assert "orbitmq topic permissions closed --read" in str(refused.value.hint)


def test_the_room_that_a_session_needs(topics: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Including what the topics may grow to, but no more than a session can have."""
    whole = look_up(topics(), "four").slot_capacity + look_up(topics(), "five").slot_capacity
    assert room_for(topics(), ["four", "five"]) == whole >= 9
    monkeypatch.setattr(subscription, "QUEUES_MAX", 9)
    assert room_for(topics(), ["four", "five"]) == 9
    monkeypatch.setattr(subscription, "QUEUES_MAX", 8)
    with pytest.raises(SettingError, match="9 queues"):
        room_for(topics(), ["four", "five"])
