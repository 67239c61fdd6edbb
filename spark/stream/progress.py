"""How far a stream is behind, computed from the progress that Spark reports. Spark asks only Java sources for metrics of their
own, but the offsets that it reports contain the same information."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbitmq.shm import finite_json
from orbitmq.spark.stream.offsets import from_json


def behind_latest(source: Mapping[str, Any] | Any) -> dict[str, str]:
    """The metrics of Spark's Kafka source, under its names and as text: minOffsetsBehindLatest, maxOffsetsBehindLatest and
    avgOffsetsBehindLatest, over the queues that existed at the last look. Empty before the first one.

    source: one of the `sources` of a StreamingQueryProgress, or of its JSON.
    Raises: SettingError: it is not the progress of an orbitmq source.
    """
    ends, latest = (_offsets(source, name) for name in ("endOffset", "latestOffset"))
    behind = [offset - ends.get(place, 0) for place, offset in latest.items()]
    behind = [max(0, count) for count in behind]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _offsets(source: Any, name: str) -> dict[tuple[str, int], int]:
    found = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    if isinstance(found, str):
        found = finite_json.loads(found) if found.strip() not in ("", "null") else None
    return from_json(found) if found else {}
