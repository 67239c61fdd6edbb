"""Goal: the head of a record alone says when it was stored, and nothing else is mistaken for a record. Method: composed logs,
also with addresses of IPv6."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.commit_log import log_head
from orbitmq.store.commit_log.log_head import newest_ms, stored_ms
from orbitmq.store.commit_log.record import BLANK_MAGIC
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import FILE_SIZE, LogBuilder


def never() -> bool:
    return False


def blank_at(log: LogBuilder, offset: int) -> None:
    log.spoil(offset, (FILE_SIZE - offset % FILE_SIZE).to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big") + bytes(100))


def test_every_record_of_a_log(log: LogBuilder) -> None:
    log.fill(2 * FILE_SIZE + 1000)
    for record in log.written:
        assert stored_ms(log.layout, FILE_SIZE, record.offset) == record.store_ms


def test_what_is_no_record(log: LogBuilder) -> None:
    """The middle of one, the end of the log, the last bytes of a file, a file that is not there, a blank marker."""
    log.fill(FILE_SIZE // 2)
    for offset in (log.written[3].offset + 1, log.end, FILE_SIZE - 8, 5 * FILE_SIZE):
        assert stored_ms(log.layout, FILE_SIZE, offset) is None
    blank_at(log, log.end)
    assert stored_ms(log.layout, FILE_SIZE, log.end) is None


def test_a_file_of_which_a_repair_left_nothing(log: LogBuilder) -> None:
    """Its blank marker begins where a record at offset 0 would; it was not stored in 1970."""
    log.fill(1000)
    blank_at(log, 0)
    assert stored_ms(log.layout, FILE_SIZE, 0) is None
    assert newest_ms(log.layout, FILE_SIZE, 0, never) == (None, True)


@pytest.mark.parametrize("window", [200, 5000, 1 << 20])
def test_the_newest_of_a_file(log: LogBuilder, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """Store times that fall, too. Method: windows that end anywhere within a record."""
    monkeypatch.setattr(log_head, "_WINDOW", window)
    for number in range(40):
        log.append(body=bytes(number * 17 % 300), store_ms=5000 + number * 7 % 31)
    last = log.written[-1].offset
    newest = max(record.store_ms for record in log.written)
    assert newest_ms(log.layout, FILE_SIZE, 0, never) == (newest, False), "it has no blank marker yet"
    blank_at(log, log.end)
    assert newest_ms(log.layout, FILE_SIZE, 0, never) == (newest, True)
    log.spoil(last, b"\xff" * 8)
    assert newest_ms(log.layout, FILE_SIZE, 0, never) == (max(record.store_ms for record in log.written[:-1]), False)


def test_it_stops_when_it_is_told(log: LogBuilder) -> None:
    log.fill(FILE_SIZE // 2)
    assert newest_ms(log.layout, FILE_SIZE, 0, lambda: True) == (None, False)


def test_a_born_host_of_ipv6(log: LogBuilder) -> None:
    """The host after the born time then takes 20 bytes, and the store time is 12 bytes further on."""
    record = log.append(body=b"x" * 50)
    content = bytearray(log.read(record.offset, record.size))
    content[36:40] = (0x10).to_bytes(4, "big")
    content[68:76] = (1234567).to_bytes(8, "big")
    log.spoil(record.offset, bytes(content))
    assert stored_ms(log.layout, FILE_SIZE, record.offset) == 1234567


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    layout.log_file(0).mkdir()
    with pytest.raises(OSError):
        stored_ms(layout, FILE_SIZE, 0)
