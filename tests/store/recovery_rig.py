"""What tests of recovery share: a store's settings, reput's commit file, and one call of recovery."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.recover import recover
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings.settings import StoreSettings
from tests.store.log_builder import FILE_SIZE, LogBuilder
from tests.store.queue_builder import UNITS

SETTINGS = StoreSettings(log_file_size=FILE_SIZE, queue_file_units=UNITS, index_slots=10, index_entries=20)


def set_reput(log: LogBuilder, position: int | None, index_file: str = "0") -> None:
    """reput's commit file with one commit, or none."""
    if position is None:
        log.layout.reput.unlink(missing_ok=True)
        return
    slot = struct.pack(">QQQQ40x", 1, position, position, int(index_file))
    content = b"OMQREPUT".ljust(192, b"\0") + slot + struct.pack(">I", zlib.crc32(slot))
    log.layout.reput.write_bytes(content.ljust(4096, b"\0"))


def run(layout: StoreLayout, *, read_only: bool = False) -> RecoveryReport:
    return recover(layout, SETTINGS, lambda line: None, read_only=read_only)


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
