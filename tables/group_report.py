"""Shows how far an export or a stream is, as the offsets of a group without members.

They keep their offsets themselves, so this is for people alone: `orbitmq status` has the group's lag. What cannot be shown is
told in the log, and disturbs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from orbitmq.client.admin.administration import AT_ONCE
from orbitmq.client.client import connect
from orbitmq.errors import OrbitError
from orbitmq.shm.topic_table import QueueKey
from orbitmq.tables.extents import Snapshot

_log = logging.getLogger("orbitmq")


def report(snapshot: Snapshot, group: str, offsets: Mapping[QueueKey, int]) -> bool:
    """offsets: of the next message, by topic and queue. False: no broker runs on the store, or it refuses; the log says why."""
    if snapshot.broker is None:
        _log.warning("cannot show how far the group %r is: no broker runs on %s", group, snapshot.root)
        return False
    known = [[*key, offset] for key, offset in sorted(offsets.items()) if key[1] in snapshot.topics.get(key[0], {})]
    try:
        with connect(store=snapshot.root) as client:
            for begin in range(0, len(known), AT_ONCE):
                client.connection.ask("report_group", group=group, offsets=known[begin : begin + AT_ONCE])
    except OrbitError as error:
        _log.warning("cannot show how far the group %r is: %s", group, error)
        return False
    return True
