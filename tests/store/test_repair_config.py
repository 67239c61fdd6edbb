"""Goal: a damaged file of config/ is restored from its .bak, or from what log and queues know; nothing that can be read is
changed, and what is replaced is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbitmq.store import config, delays
from orbitmq.store.config import DataVersion, GroupConfig, TopicConfig
from orbitmq.store.delays import Delays
from orbitmq.store.layout import StoreLayout
from orbitmq.store.repair.config import offsets_of, plan_config
from orbitmq.store.verify.findings import QueueSeen, Verdict

QUEUES = {("t", 0): QueueSeen(0, 10), ("t", 2): QueueSeen(0, 5), ("u", 0): QueueSeen(None, 7), ("no way", 0): QueueSeen(0, 1)}
VERDICT = Verdict(0, 0, 0, 0, False, QUEUES, {}, 0, 0, 0.0)


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def carry_out(layout: StoreLayout) -> dict[str, str]:
    """What was reported about each file."""
    deeds = plan_config(layout, VERDICT)
    said = {deed.path.name: deed.text for deed in deeds}
    for deed in deeds:
        deed.do()
    assert plan_config(layout, VERDICT) == [], "then all is right"
    return said


def kept(layout: StoreLayout) -> list[bytes]:
    return sorted(path.read_bytes() for path in layout.cut.iterdir())


def test_nothing_is_wrong(layout: StoreLayout) -> None:
    topics = {name: TopicConfig(name, 3, 3) for name in "tu"}
    config.store_topics(layout, topics, DataVersion())
    config.store_offsets(layout, {("t", "g"): {0: 10, 2: 5}, ("gone", "g"): {0: 99}})
    assert carry_out(layout) == {} and kept(layout) == []
    assert plan_config(StoreLayout.at(layout.root / "nowhere"), VERDICT) == []


def test_topics_that_are_missing_or_too_small(layout: StoreLayout) -> None:
    """A topic's other fields are kept; a name that no topic can have is left alone."""
    config.store_topics(layout, {"t": TopicConfig("t", 1, 1, retention_hours=5)}, DataVersion(3, 4))
    assert carry_out(layout)["topics.json"].startswith("gets t, u from log and queues")
    topics, version = config.load_topics(layout)
    assert topics == {"t": TopicConfig("t", 3, 3, retention_hours=5), "u": TopicConfig("u", 1, 1)} and version.counter == 4


def test_offsets_past_the_end(layout: StoreLayout) -> None:
    config.store_topics(layout, {name: TopicConfig(name, 3, 3) for name in "tu"}, DataVersion())
    config.store_offsets(layout, {("t", "g"): {0: 11, 1: 99, 2: 5}, ("u", "h"): {0: 8}})
    assert carry_out(layout)["consumerOffset.json"].startswith("2 group offsets past the end")
    assert offsets_of(layout) == {("t", "g"): {0: 10, 1: 99, 2: 5}, ("u", "h"): {0: 7}}


@pytest.mark.parametrize("ours", [True, False])
def test_delayed_messages_that_the_log_does_not_have(layout: StoreLayout, ours: bool) -> None:
    """Of levels and of times. ours: beside RocketMQ's file there is OrbitMQ's."""
    queues = {(delays.DELAY_TOPIC, 0): QueueSeen(0, 4), (delays.DELAY_TOPIC, 2): QueueSeen(None, 9)}
    seen = replace(VERDICT, queues=QUEUES | queues | {(delays.TIMER_TOPIC, 0): QueueSeen(0, 6)}, end=700)
    config.store_topics(layout, {name: TopicConfig(name, 18, 18) for name in ("t", "u", *delays.DELAY_TOPICS)}, DataVersion())
    rest = (0,) * (delays.LEVELS - 4)
    if ours:
        delays.store(layout, Delays((4, 3, 9, 0, *rest), (6, 1000, 5, 6), 700))
    else:
        config.store_delay_offsets(layout, {1: 5, 2: 3, 3: 9})
    (deed,) = plan_config(layout, seen)
    assert deed.path.name == config.DELAYS and "is taken back" in deed.text
    deed.do()
    assert plan_config(layout, seen) == []
    assert delays.load(layout).next == (4, 0, 9, 0, *rest)
    if ours:
        delays.store(layout, Delays((4, 0, 9, 0, *rest), (9, 1000, 8, 7), 800))
        (deed,) = plan_config(layout, seen)
        deed.do()
        assert delays.load(layout) == Delays((4, 0, 9, 0, *rest), (6, 1000, 8, 6), 700)
    assert layout.delayed.exists() is ours


@pytest.mark.parametrize("name", [config.TOPICS, config.OFFSETS, config.GROUPS])
@pytest.mark.parametrize("backup", ["whole", "damaged", "missing"])
def test_a_damaged_file(layout: StoreLayout, name: str, backup: str) -> None:
    config.store_offsets(layout, {("t", "g"): {0: 3}})
    config.store_topics(layout, {name: TopicConfig(name, 3, 3, perm=4) for name in "tu"}, DataVersion())
    config.store_groups(layout, {"g": GroupConfig("g"), "alone": GroupConfig("alone")}, DataVersion())
    path = layout.config / name
    bak = path.with_name(f"{name}.bak")
    if backup == "whole":
        bak.write_bytes(path.read_bytes())
    elif backup == "damaged":
        bak.write_text("[")
    path.write_text("{damaged")
    said = carry_out(layout)[name]
    assert ("is put back from its .bak" in said) is (backup == "whole")
    assert b"{damaged" in kept(layout) and ((b"[" in kept(layout)) is (backup == "damaged"))
    topics, _ = config.load_topics(layout)
    groups, _ = config.load_groups(layout)
    assert topics["t"].read_queues == 3 and "u" in topics and "g" in groups
    if backup == "whole":
        assert topics["t"].perm == 4 and "alone" in groups and offsets_of(layout)
    elif name == config.OFFSETS:
        assert not offsets_of(layout)
