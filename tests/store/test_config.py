"""Goal: the config files have RocketMQ's shapes, byte for byte, survive a crash at any step, and lose nothing they
hold.

Method: golden text taken from the shapes that a 4.9.3 broker writes; broken, missing and foreign files put in by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import StoreFailed
from orbitmq.store import config, json_text
from orbitmq.store.config import DataVersion, GroupConfig, TopicConfig
from orbitmq.store.layout import StoreLayout

TOPICS = """{
\t"dataVersion":{
\t\t"counter":8,
\t\t"timestamp":1795843862000
\t},
\t"topicConfigTable":{
\t\t"T_one":{
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":4,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"T_one",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":4
\t\t}
\t}
}"""
OFFSETS = """{
\t"offsetTable":{
\t\t"%RETRY%g@g":{
\t\t\t0:3
\t\t},
\t\t"T_one@g":{
\t\t\t0:12,
\t\t\t1:7,
\t\t\t10:1
\t\t}
\t}
}"""
GROUPS = """{
\t"dataVersion":{
\t\t"counter":1,
\t\t"timestamp":5
\t},
\t"subscriptionGroupTable":{
\t\t"g":{
\t\t\t"brokerId":0,
\t\t\t"consumeBroadcastEnable":true,
\t\t\t"consumeEnable":true,
\t\t\t"consumeFromMinEnable":true,
\t\t\t"groupName":"g",
\t\t\t"notifyConsumerIdsChangedEnable":true,
\t\t\t"retryMaxTimes":16,
\t\t\t"retryQueueNums":1,
\t\t\t"whichBrokerWhenConsumeSlowly":1
\t\t}
\t}
}"""


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def test_topics_are_rocketmqs(layout: StoreLayout) -> None:
    topics = {"T_one": TopicConfig("T_one", read_queues=4, write_queues=4)}
    version = DataVersion(8, 1795843862000)
    config.store_topics(layout, topics, version)
    assert (layout.config / "topics.json").read_text() == TOPICS
    assert config.load_topics(layout) == (topics, version)
    assert version.next().counter == 9


def test_offsets_are_rocketmqs(layout: StoreLayout) -> None:
    offsets = {("T_one", "g"): {10: 1, 0: 12, 1: 7}, ("%RETRY%g", "g"): {0: 3}}
    config.store_offsets(layout, offsets)
    assert (layout.config / "consumerOffset.json").read_text() == OFFSETS
    assert config.load_offsets(layout) == offsets


def test_groups_are_rocketmqs(layout: StoreLayout) -> None:
    config.store_groups(layout, {"g": GroupConfig("g")}, DataVersion(1, 5))
    assert (layout.config / "subscriptionGroup.json").read_text() == GROUPS
    assert config.load_groups(layout) == ({"g": GroupConfig("g")}, DataVersion(1, 5))


@pytest.mark.parametrize("text", ['{"offsetTable":{"t@g":{0:5,1:6}}}', '{"offsetTable": {"t@g": {"0": 5, "1" : 6}}}'])
def test_integer_keys_with_and_without_quotes(layout: StoreLayout, text: str) -> None:
    (layout.config / "consumerOffset.json").write_text(text)
    assert config.load_offsets(layout) == {("t", "g"): {0: 5, 1: 6}}


def test_fields_of_another_version_are_kept(layout: StoreLayout) -> None:
    (layout.config / "topics.json").write_text(TOPICS.replace('"order":false', '"attributes":{"k":1},"order":true'))
    topics, version = config.load_topics(layout)
    assert topics["T_one"].order and topics["T_one"].other == {"attributes": {"k": 1}}
    config.store_topics(layout, topics, version)
    assert '"attributes":{\n\t\t\t\t"k":1' in (layout.config / "topics.json").read_text()
    assert config.load_topics(layout) == (topics, version)


def test_tables_of_another_version_are_kept(layout: StoreLayout) -> None:
    """RocketMQ 5 has a second table in the file of groups."""
    path = layout.config / "subscriptionGroup.json"
    forbidden = '{\n\t"forbiddenTable":{\n\t\t"g":{\n\t\t\t"T_one":1\n\t\t}\n\t},'
    path.write_text(GROUPS.replace("{", forbidden, 1))
    before = path.read_text()
    groups, version = config.load_groups(layout)
    config.store_groups(layout, {**groups, "h": GroupConfig("h")}, version)
    assert '"h"' in path.read_text()
    config.store_groups(layout, groups, version)
    assert json_text.loads(path.read_text()) == json_text.loads(before)


def test_fields_of_our_own(layout: StoreLayout) -> None:
    """In addition to RocketMQ's, and only if a topic has a value; what another version put there comes back unchanged."""
    foreign = '"durability":"replicated","durabilityOfLater":[1]'
    path = layout.config / "topics.json"
    topics = {"T_one": TopicConfig("T_one", 4, 4, retention_hours=24, durability="flushed"), "T_two": TopicConfig("T_two")}
    config.store_topics(layout, topics, DataVersion())
    assert path.read_text().count("durability") == path.read_text().count("retentionHours") == 1
    assert config.load_topics(layout) == (topics, DataVersion())
    assert '"durability":"flushed"' in path.read_text() and '"retentionHours":24' in path.read_text()
    path.write_text(TOPICS.replace('"order":false', foreign))
    topics, version = config.load_topics(layout)
    assert topics["T_one"].durability == "replicated" and topics["T_one"].other == {"durabilityOfLater": [1]}
    config.store_topics(layout, topics, version)
    assert config.load_topics(layout) == (topics, version)


def test_missing_files_are_empty(layout: StoreLayout) -> None:
    assert config.load_topics(layout) == ({}, DataVersion())
    assert config.load_groups(layout) == ({}, DataVersion())
    assert config.load_offsets(layout) == {}


@pytest.mark.parametrize("broken", [None, "", "  \n", "{", "[]", '{"offsetTable":5}'])
def test_the_backup_stands_in(layout: StoreLayout, broken: str | None) -> None:
    """After two writes the .bak holds the first; it is read when the file itself is missing, empty or unreadable."""
    config.store_offsets(layout, {("t", "g"): {0: 1}})
    config.store_offsets(layout, {("t", "g"): {0: 2}})
    path = layout.config / "consumerOffset.json"
    path.unlink()
    if broken is not None:
        path.write_text(broken)
    assert config.load_offsets(layout) == {("t", "g"): {0: 1}}
    assert sorted(each.name for each in layout.config.iterdir() if each != path) == ["consumerOffset.json.bak"]


def test_nothing_readable_is_an_error(layout: StoreLayout) -> None:
    path = layout.config / "topics.json"
    path.write_text("{{")
    with pytest.raises(StoreFailed) as caught:
        config.load_topics(layout)
    assert caught.value.path == str(path)
