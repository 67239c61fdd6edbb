"""The settings of a store, checked: sizes that its files keep for ever, and how often it is flushed."""

from __future__ import annotations

from dataclasses import dataclass, fields

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Hint

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

# RocketMQ counts bytes of one file in a signed int, so its readers open nothing larger.
FILE_SIZE_MAX = (1 << 31) - 1
LOG_FILE_SIZE_MIN = 64 * KIB
MESSAGE_USUAL = 4 * MIB  # as RocketMQ, without a setting
MESSAGE_REMOTE = MESSAGE_USUAL + 64 * KIB  # RocketMQ's clients send bodies of that size, with all properties that there may be
MESSAGE_MAX = 16 * MIB - 64 * KIB  # fits with its header into a frame of RocketMQ's protocol, so its clients can read it
PAGE = 4096
DEDUP_WINDOW_MAX_S = 7 * 86_400
DEDUP_IDS_MAX = 100_000_000  # 24 bytes each, and 8 to 16 more to find it

# The sizes that are part of the files and therefore cannot change in an existing store.
FILE_SETTINGS = ("log_file_size", "queue_file_units", "index_slots", "index_entries")
FLUSH_MODES = ("timed", "batch")
AFTER_FAILED_SYNC = ("refuse", "go-on")
_CHOICES = {"flush": FLUSH_MODES, "after_failed_sync": AFTER_FAILED_SYNC}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A store's settings. Sizes are bytes; the defaults are RocketMQ 4.9's.

    Raises: SettingError: a value is not valid; has .name and .value.
    """

    log_file_size: int = GIB  # of one CommitLog file
    queue_file_units: int = 300_000  # 20-byte units of one ConsumeQueue file
    index_slots: int = 5_000_000  # hash slots of one IndexFile
    index_entries: int = 20_000_000  # entries of one IndexFile; entry 0 is never used
    message_max: int = 0  # largest record; 0: 4 MiB, or a quarter of a log file if that is smaller
    flush_interval_ms: int = 500  # timed: longest time that a message is in memory only
    flush: str = "timed"  # or "batch": every message is on disk before its receipt
    # What happens to messages that do not wait for the disk after a sync of the log has failed: "refuse", or "go-on", which
    # accepts them although the disk may never have them.
    after_failed_sync: str = "refuse"
    # For how long the id of a message is remembered, under which a second one is not stored, and how many ids there may be.
    dedup_window_s: int = 120
    dedup_ids: int = 4_000_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _CHOICES and (not isinstance(value, int) or isinstance(value, bool)):
                raise _refused(field.name, value, "it must be a whole number")
        _within("log_file_size", self.log_file_size, LOG_FILE_SIZE_MIN, FILE_SIZE_MAX)
        if self.log_file_size % PAGE:
            raise _refused("log_file_size", self.log_file_size, f"it must be a multiple of {PAGE}")
        _within("queue_file_units", self.queue_file_units, 1, FILE_SIZE_MAX // 20)
        _within("index_slots", self.index_slots, 1, FILE_SIZE_MAX // 4)
        _within("index_entries", self.index_entries, 2, FILE_SIZE_MAX // 20)
        if self.index_file_size > FILE_SIZE_MAX:
            raise _refused("index_entries", self.index_entries, f"an index file would be larger than {FILE_SIZE_MAX:,} bytes")
        if self.message_max == 0:
            object.__setattr__(self, "message_max", min(MESSAGE_USUAL, self.log_file_size // 4))
        # A record of more than half a file would leave most of a file blank.
        _within("message_max", self.message_max, KIB, min(MESSAGE_MAX, self.log_file_size // 2))
        _within("flush_interval_ms", self.flush_interval_ms, 1, 60_000)
        _within("dedup_window_s", self.dedup_window_s, 1, DEDUP_WINDOW_MAX_S)
        _within("dedup_ids", self.dedup_ids, 1, DEDUP_IDS_MAX)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise _refused(name, getattr(self, name), f"it must be one of {', '.join(allowed)}")

    @property
    def index_file_size(self) -> int:
        """Bytes of one IndexFile: header, slots, entries."""
        return 40 + 4 * self.index_slots + 20 * self.index_entries


def _refused(name: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    return SettingError(f"cannot set {name} to {value!r}: {why}", hint=hint, name=name, value=value)


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise _refused(name, value, f"it must be from {least:,} to {most:,}")
