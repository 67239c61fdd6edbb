"""Goal: a damaged file of config/ is restored from its .bak, or from what log and queues know; nothing that can be read is
changed, and what is replaced is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import config
from orbitmq.store.config import DataVersion, GroupConfig, TopicConfig
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
