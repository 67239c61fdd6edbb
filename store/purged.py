"""orbitmq/purged: up to which queue offset somebody has purged each queue. The log still holds these messages until retention
removes its files; nobody gets them.

    {"purged": {topic: {queue: offset}}, "crc": CRC-32 of the first value as it stands there}

The file is replaced whole, and durable before a purge is acknowledged. It is kept state: the log does not tell. If it is lost,
purged messages come back for as long as their log files exist."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress

from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note

Purged = dict[str, dict[int, int]]  # by topic and queue: the first offset that is left


def load(layout: StoreLayout) -> Purged:
    """The value for a store in which nothing was purged, and if the file cannot be read, which `faults` says."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return _read(layout)
    return {}


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
    content = {topic: {str(queue): offset for queue, offset in queues.items()} for topic, queues in purged.items()}
    atomic_file.replace(layout.purged, json.dumps({"purged": content, "crc": _crc(content)}).encode())
    crash_point("purged_stored")


def _read(layout: StoreLayout) -> Purged:
    stored = finite_json.loads(layout.purged.read_bytes())
    if _crc(stored["purged"]) != stored["crc"]:
        raise ValueError("its checksum does not hold")
    return {topic: {int(queue): int(offset) for queue, offset in queues.items()} for topic, queues in stored["purged"].items()}


def _crc(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
