"""A Parquet file of an export: how it is encoded, what its metadata says, and that it is durable once it is finished."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.shm.crash_point import crash_point
from orbitmq.tables.export.manifest import ExportFile, Range

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 1 << 17  # most rows of a row group: readers skip whole groups by their statistics
# Keys in the files' metadata.
TOPIC_KEY, OFFSETS_KEY = "orbitmq.topic", "orbitmq.offsets"
# Their values only grow, or nearly so: the differences are short.
_GROWING = ("offset", "physical_offset", "timestamp", "born_timestamp")
_REPEATED = ("topic", "partition", "tags", "flag", "born_host", "store_host", "reconsume_times", "timestampType")


class ParquetFile:
    """One that is being written. Close it after use, whether it was finished or not."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        self._sink = pa.OSFile(str(path), "wb")
        self._writer: Any = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name in _REPEATED],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in _GROWING if name in schema.names} or None,
            # No statistics for bodies: nobody searches them by their first bytes, and these would be in each footer twice.
            write_statistics=[name for name in schema.names if name not in ("key", "value")],
        )

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """As one row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def finish(self, folder: str, topic: str, rows: int, offsets: Sequence[Range]) -> ExportFile:
        """folder: where readers will see it. Raises: OSError."""
        told = [[part.queue, part.begin, part.end, part.rows] for part in offsets]
        self._writer.add_key_value_metadata({TOPIC_KEY: topic, OFFSETS_KEY: json.dumps(told, separators=(",", ":"))})
        self._writer.close()
        self._sink.close()
        crash_point("export_parquet_file_written")
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        crash_point("export_parquet_file_synced")
        return ExportFile(f"{folder}/{self.path.name}", topic, rows, size, tuple(offsets))

    def close(self) -> None:
        self._writer.is_open = False  # or it would still write a footer when it is collected, and complain
        self._sink.close()
