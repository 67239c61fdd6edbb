"""Goal: every kind of finding of the native side becomes a sentence, with its place in numbers. Method: the struct, made by
hand; the kinds are those of native/cdef/verify.h."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log.record import Fault
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.finding_text import FindingTexts
from orbitmq.store.verify.findings import Finding, Kind

ROOT = Path(__file__).resolve().parents[2]
KINDS = sorted(set(re.findall(r"\bFINDING_\w+", (ROOT / "native/cdef/verify.h").read_text())) - {"FINDING_NONE"})
SETTINGS = StoreSettings(log_file_size=1 << 16, queue_file_units=40)
LAYOUT = StoreLayout.at("/store")


def tell(kind: str, **fields: Any) -> Finding:
    texts = FindingTexts(LAYOUT, SETTINGS, lambda number: ("T", number), [LAYOUT.index / "one", LAYOUT.index / "two"])
    return texts.tell(ffi.new("struct finding *", {"kind": getattr(lib, kind), "detail": 1, **fields}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2000])
def test_every_kind_has_a_sentence(kind: str, count: int) -> None:
    found = tell(kind, queue=1, offset=70_000, size=120, first=45, count=count, expected=5, found=6)
    assert found.path.startswith("/store/") and found.text and not found.text.endswith(".")
    assert "{" not in found.text and found.damage
    assert (found.topic, found.queue) in ((None, None), ("T", 1))


def test_where_a_record_is() -> None:
    found = tell("FINDING_RECORD", offset=70_000, size=1500, detail=int(Fault.BAD_CRC))
    assert found.kind is Kind.LOG_RECORD and (found.offset, found.size) == (70_000, 1500)
    assert found.path.endswith(f"commitlog/{1 << 16:020d}") and "1,500 bytes at 70,000" in found.text
    assert Fault.BAD_CRC.text in found.text
    unreadable = tell("FINDING_UNREADABLE", offset=70_000, size=4096, detail=5)
    assert unreadable.kind is Kind.LOG_UNREADABLE and "Input/output error" in unreadable.text


def test_which_units() -> None:
    """One is named, neighbours with the first and the last; the file is that of the first."""
    one = tell("FINDING_UNIT_MISSING", queue=3, first=45, count=1, offset=9)
    assert one.text == "unit 45 is missing; the first record is at 9" and one.path.endswith(f"T/3/{800:020d}")
    many = tell("FINDING_UNIT_EXTRA", first=1000, count=2000, found=7)
    assert many.text.startswith("2,000 units from 1,000 to 2,999 are too many") and (many.first, many.count) == (1000, 2000)
    before = tell("FINDING_UNIT_MISSING", first=0, count=2, detail=lib.UNIT_BEFORE)
    assert "before the first message" in before.text and before.offset is None


def test_a_tags_code_has_a_sign() -> None:
    found = tell("FINDING_UNIT_WRONG", count=1, detail=lib.UNIT_TAGS, found=(1 << 64) - 5, expected=7)
    assert "the tags code is -5 where" in found.text and found.text.endswith("has 7")
    place = tell("FINDING_UNIT_WRONG", count=1, detail=lib.UNIT_PLACE, found=(1 << 63) + 1, expected=7)
    assert f"the place is {(1 << 63) + 1:,}" in place.text


def test_lost_messages_that_nobody_knows_the_place_of() -> None:
    assert tell("FINDING_LOST", count=1, first=4).text == "message 4 is lost in damaged bytes of the log"
    assert tell("FINDING_LOST", count=1, first=4, found=99).offset == 99


def test_keys_of_one_record_and_of_several() -> None:
    assert tell("FINDING_KEY_MISSING", count=1, offset=8).text == "1 key is not in the index, of records at 8"
    assert tell("FINDING_KEY_MISSING", count=3, offset=8, size=1000).text.endswith("of records from 8 to 1,008")
