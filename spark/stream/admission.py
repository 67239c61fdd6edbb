"""Spark's admission control, which newer versions have. 4.0 and 4.1 have none: Spark passes no such object, latestOffset gets
no argument, and the stream reader keeps count by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxRows", "ReadMinRows", "SupportsTriggerAvailableNow"]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:

        class ReadLimit: ...

        class ReadAllAvailable(ReadLimit): ...

        class ReadMaxRows(ReadLimit):
            def __init__(self, max_rows: int) -> None:
                self.max_rows = max_rows

        class ReadMinRows(ReadLimit):
            def __init__(self, min_rows: int) -> None:
                self.min_rows = min_rows

        class SupportsTriggerAvailableNow: ...
