"""orbitmq/queue_locks: which queues are locked for ordered consumers, by whom and until when.

    {"queue_locks": {"boot": hex, "locks": [[group, topic, queue, owner, uid or null, until], ...]}, "crc":}

`until` is in milliseconds of CLOCK_MONOTONIC, so it has no meaning after another start of the machine, whose id is `boot`. The
CRC-32 is that of the first value, as JSON with sorted keys. The file is replaced whole and not synced: the page cache keeps it
whichever process dies. If it is lost, a queue may be locked before the lease of its last owner is over."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout


class Lock(NamedTuple):
    """owner: in its own words; mark: of the user that it belongs to (actors/sessions/caller.py)."""

    owner: str
    mark: int | None
    until_ms: int


Locks = Mapping[tuple[str, QueueKey], Lock]  # by group and queue


def load(layout: StoreLayout) -> dict[tuple[str, QueueKey], Lock]:
    """Nothing, if there is no intact file of this start of the machine."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = finite_json.loads(layout.queue_locks.read_bytes())
        content = stored["queue_locks"]
        if stored["crc"] == _crc(content) and content["boot"] == positions.boot_id().hex():
            return {(group, (topic, queue)): Lock(*rest) for group, topic, queue, *rest in content["locks"]}
    return {}


def store(layout: StoreLayout, locks: Locks) -> None:
    """Raises: OSError: nothing has changed."""
    listed = [[group, *queue, *lock] for (group, queue), lock in locks.items()]
    content = {"boot": positions.boot_id().hex(), "locks": listed}
    temporary = layout.queue_locks.with_name("queue_locks.tmp")
    temporary.write_text(json.dumps({"queue_locks": content, "crc": _crc(content)}))
    crash_point("locked_queues_written")
    temporary.rename(layout.queue_locks)
    crash_point("locked_queues_stored")


def _crc(content: object) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
