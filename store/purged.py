"""orbitmq/purged: what people have removed that the log still holds: messages of queues, and whole topics. Nobody gets them.

    {"purged": {"floors": {topic: {queue: offset}}, "deleted": {topic: counter}, "ends": {topic: {queue: offset}}}, "crc":}

The CRC-32 is that of the first value, as JSON with sorted keys. The file is replaced whole, and durable before a removal is
acknowledged. It is kept state: the log does not tell. If it is lost, purged messages come back for as long as their log files
exist, and a topic that was deleted may begin again at offset 0."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note

Offsets = Mapping[str, Mapping[int, int]]  # by topic and queue
AGAIN = -1


@dataclass(frozen=True, slots=True)
class Purged:
    """floors: the first offset that is left of a queue. deleted: topics that do not exist, whatever log and queues hold, with
    the counter in the dataVersion of topics.json then: if it is higher and the file names the topic, another program has made
    it again. AGAIN: the broker was about to make it again, and has done so if topics.json names it. ends: where the numbers of
    a queue go on whose topic was ever deleted."""

    floors: Offsets = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)


def load(layout: StoreLayout) -> Purged:
    """The value for a store in which nothing was removed, and if the file cannot be read, which `faults` says."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return _read(layout)
    return Purged()


def faults(layout: StoreLayout) -> list[Note]:
    """Raises: OSError."""
    try:
        _read(layout)
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{layout.purged} cannot be read ({error!r}): purged messages whose log files are left come again"
        return [Note(text, lost=str(layout.purged.relative_to(layout.root)))]
    return []


def store(layout: StoreLayout, purged: Purged) -> None:
    """Raises: OSError: nothing has changed."""
    content = {"floors": _plain(purged.floors), "deleted": dict(purged.deleted), "ends": _plain(purged.ends)}
    atomic_file.replace(layout.purged, json.dumps({"purged": content, "crc": _crc(content)}).encode())
    crash_point("purged_stored")


def _read(layout: StoreLayout) -> Purged:
    stored = finite_json.loads(layout.purged.read_bytes())
    content = stored["purged"]
    if _crc(content) != stored["crc"]:
        raise ValueError("its checksum does not hold")
    deleted = {name: int(counter) for name, counter in content["deleted"].items()}
    return Purged(_offsets(content["floors"]), deleted, _offsets(content["ends"]))


def _plain(offsets: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(queue): offset for queue, offset in queues.items()} for topic, queues in offsets.items()}


def _offsets(plain: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {topic: {int(queue): int(offset) for queue, offset in queues.items()} for topic, queues in plain.items()}


def _crc(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
