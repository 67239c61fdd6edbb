"""Opens the session of a worker."""

from __future__ import annotations

from typing import Any

from orbitmq.client.connection.session import ConsumerOpener
from orbitmq.client.work.handed import HandOut, Session
from orbitmq.client.work.session import WorkSession
from orbitmq.client.work.worker_settings import WorkerSettings


def open_session(opener: ConsumerOpener, asked: WorkerSettings) -> Session[HandOut]:
    """Raises as WorkSession does."""
    session: Any = WorkSession(
        opener,
        asked.group,
        asked.topics,
        visibility=asked.visibility,
        in_hand=asked.in_hand,
        max_tries=asked.max_tries,
        key_ordered=asked.key_ordered,
        tags=asked.tags,
        sql=asked.sql,
        start=asked.start,
        wait=asked.wait or 0.0,
        of_worker=True,
    )
    return session  # type: ignore[no-any-return]  # it takes its own hand-outs only, which are all that a worker has
