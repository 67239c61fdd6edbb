"""Stores with dead letters as RocketMQ writes them: topic %DLQ%GROUP, one queue, no CRC property."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL


def store_with_letters(
    path: Path,
    count: int,
    *,
    group: str = "billing",
    topic: str = "orders",
    perm: int = 6,
    only: Mapping[int, dict[str, str]] | None = None,
) -> None:
    """The group has given up `count` messages of the topic, which has two queues and no message. Letter n has the body n, the
    key k-n and the tag paid. only: by letter, all the properties that it has instead."""
    layout = StoreLayout.at(path)
    layout.make_folders()
    dead = f"%DLQ%{group}"
    topics = {topic: TopicConfig(topic, 2, 2, perm=6), dead: TopicConfig(dead, 1, 1, perm=perm)}
    config.store_topics(layout, topics, DataVersion())
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    for n in range(count):
        properties = {
            "KEYS": f"k-{n}",
            "TAGS": "paid",
            "UNIQ_KEY": f"7F0000016B085FFD2B27679AE243{n:04X}",
            "table": "7",
            "RETRY_TOPIC": topic,
            "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{n:016X}",
            "DELAY": "18",
            "REAL_TOPIC": f"%RETRY%{group}",
            "REAL_QID": "0",
            "WAIT": "false",
        }
        log.append(dead, body=b"%d" % n, properties=(only or {}).get(n, properties), flag=n, reconsume_times=16, sealed=False)
