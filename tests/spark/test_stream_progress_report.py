"""Goal: a stream shows how far it is without saying the same again and again. Method: looks one after the other. With a broker:
test_stream_source.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orbitmq.shm.topic_table import QueueKey
from orbitmq.spark.stream import progress_report
from orbitmq.tables.extents import Snapshot


def test_a_stream_tells_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once that no broker runs, however often it is asked; again when one does."""
    told: list[tuple[str | None, int]] = []

    def note(snapshot: Snapshot, group: str, offsets: Mapping[QueueKey, int]) -> bool:
        told.append((snapshot.broker, offsets["orders", 0]))
        return snapshot.broker is not None

    monkeypatch.setattr(progress_report, "report", note)
    stream = progress_report.StreamReport("dashboard")
    for broker, offset in ((None, 1), (None, 1), (None, 2), ("default", 2), ("default", 2), ("default", 3), (None, 4)):
        stream.tell(Snapshot(tmp_path, 1, 1, broker, {}), {("orders", 0): offset})
    assert told == [(None, 1), ("default", 2), ("default", 3)]
