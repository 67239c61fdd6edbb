"""A store of old messages, for the deaths in retention: three full log files, and one that stays."""

from __future__ import annotations

from pathlib import Path

import orbitmq
from orbitmq.errors import StoreLocked
from orbitmq.store import config
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import BLANK_MAGIC, encode
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.findings import Finding
from orbitmq.store.verify.verify import verify
from tests.crash import crash_build

FILE_SIZE = 64 << 10
FIRST_MS = 1_700_000_000_000
TOPICS = ("short", "usual")
SETTINGS = StoreSettings(log_file_size=FILE_SIZE, queue_file_units=20, index_slots=61, index_entries=100)
# Files whose points only this store's broker passes, because the load of the other tests has nothing old.
PARTS = {"retention", "trim"}


def points() -> list[str]:
    return [point for point, part in crash_build.points().items() if part in PARTS]


def make_old_store(root: Path) -> Path:
    """Messages of 2023 in turn to two queues of each topic, each with a key; queues and index by a broker that keeps them."""
    layout = StoreLayout.at(root)
    layout.make_folders()
    end = number = 0
    while end < 3 * FILE_SIZE + FILE_SIZE // 2:
        topic, queue = TOPICS[number % 2], number // 2 % 2
        fields = {
            "queue_id": queue,
            "queue_offset": number // 4,
            "store_ms": FIRST_MS + number,
            "properties": {"KEYS": f"k{number}"},
        }
        size = len(encode(topic, bytes(500), **fields))  # type: ignore[arg-type]
        left = FILE_SIZE - end % FILE_SIZE
        if size + 8 > left:
            _write(layout, end, left.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big"))
            end += left
        _write(layout, end, encode(topic, bytes(500), physical_offset=end, **fields))  # type: ignore[arg-type]
        end += size
        number += 1
    sizes = {name: getattr(SETTINGS, name) for name in ("log_file_size", "queue_file_units", "index_slots", "index_entries")}
    with orbitmq.Broker(root, handlers=1, retention_hours=0, **sizes):
        pass
    topics = {name: TopicConfig(name, 2, 2, retention_hours=1 if name == "short" else None) for name in TOPICS}
    config.store_topics(layout, topics, DataVersion())
    return root


def faults(store: Path) -> list[Finding] | None:
    """None: a tree still holds the store."""
    found: list[Finding] = []
    try:
        verdict = verify(StoreLayout.at(store), SETTINGS, found.append)
    except StoreLocked:
        return None
    return None if verdict.running else [each for each in found if each.damage]


def _write(layout: StoreLayout, offset: int, content: bytes) -> None:
    start = offset - offset % FILE_SIZE
    mapped_file.allocate(layout, start, FILE_SIZE)
    with layout.log_file(start).open("r+b") as file:
        file.seek(offset - start)
        file.write(content)
