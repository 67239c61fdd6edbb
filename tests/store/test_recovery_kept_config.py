"""Goal: after recovery no group points past the end of its queue, and no topic of the log is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.kept_config import lower_offsets, missing_topics
from orbitmq.store.recovery.report import Lowered, QueueState


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def test_topics_that_only_the_log_knows(layout: StoreLayout) -> None:
    """Each with as many queues as it was seen with, in the order of their names."""
    config.store_topics(layout, {"known": TopicConfig("known", 1, 1)}, DataVersion())
    seen = [("b", 0), ("known", 7), ("a", 5), ("b", 3), ("b", 1)]
    states = tuple(QueueState(topic, queue, 0, 0, 0, 0) for topic, queue in seen)
    assert missing_topics(layout, states) == (("a", 6), ("b", 4))
    assert missing_topics(layout, ()) == ()


OFFSETS = {("t", "g"): {0: 5, 1: 9}, ("t", "h"): {0: 4}, ("gone", "g"): {0: 3}}


@pytest.mark.parametrize("read_only", [False, True])
def test_offsets_past_the_end(layout: StoreLayout, read_only: bool) -> None:
    config.store_offsets(layout, OFFSETS)
    lowered = lower_offsets(layout, {("t", 0): 4, ("t", 1): 9}, None, read_only=read_only)
    assert lowered == (Lowered("t", "g", 0, 5, 4),)
    kept = {**OFFSETS, ("t", "g"): {0: 4, 1: 9}}
    assert config.load_offsets(layout) == (OFFSETS if read_only else kept)


def test_queues_that_are_not_there(layout: StoreLayout) -> None:
    config.store_offsets(layout, OFFSETS)
    lowered = lower_offsets(layout, {("t", 0): 9, ("t", 1): 9}, 0, read_only=False)
    assert lowered == (Lowered("gone", "g", 0, 3, 0),)
    assert lower_offsets(layout, {("t", 0): 9, ("t", 1): 9}, 0, read_only=False) == ()
