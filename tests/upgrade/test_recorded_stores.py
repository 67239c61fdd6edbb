"""Goal: this version opens the stores of earlier ones, whether their broker was stopped or killed, and a version opens what a
later one leaves, as docs/upgrade.md says. Method: stores that earlier versions recorded (program.py), and one of this version
with notes that it does not know."""

from __future__ import annotations

import json
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import StoreVersion
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.verify import verify
from tests.upgrade.program import FEATURES, SIZES, Told, body, record, visit
from tests.waiting import until

STORES = sorted(Path(__file__).with_name("stores").glob("*.tar.xz"))
LATER = 99  # version of a note
# Magic, u32 version, ..., u32 CRC-32 of all before.
NOTES = ("delayed", "transactions", "group_commits", "rising")
# Magic, u32 version, zeros up to 512.
SLOTTED = ("positions", "unsynced")


def whole(root: Path) -> bool:
    return verify(StoreLayout.at(root), StoreSettings(**SIZES), print).whole


# Python 3.11 has it from 3.11.4 on.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@pytest.mark.parametrize("archive", STORES, ids=lambda path: path.name.partition(".")[0])
def test_of_an_earlier_version(archive: Path, tmp_path: Path) -> None:
    """Everything is there, it goes on where it was, and what it adds is there the next time."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, **SAFELY)
    told: Told = json.loads((tmp_path / "told.json").read_text())
    assert len(told["messages"]) >= 160 and sum(told["committed"].values()) == 50
    assert told["killed"] == ("killed" in archive.name) == (tmp_path / "store" / "abort").exists()
    assert told["killed"] or whole(tmp_path / "store")
    for _ in range(2):
        visit(tmp_path / "store", told)
    assert whole(tmp_path / "store")


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, Told]:
    told = record(tmp_path / "store", killed=False)
    assert told["features"] == [act.__name__ for act in FEATURES]
    return tmp_path / "store", told


def later(path: Path) -> None:
    """Gives a note the number of a version that is not known, and other content."""
    content = bytearray(path.read_bytes())
    struct.pack_into(">I", content, 8, LATER)
    content[12:-4] = b"\xff" * (len(content) - 16)
    if path.name in NOTES:
        struct.pack_into(">I", content, len(content) - 4, zlib.crc32(content[:-4]))
    path.write_bytes(content)


@pytest.mark.parametrize("note", [*NOTES, *SLOTTED, "files"])
def test_of_a_later_version(store: tuple[Path, Told], note: str) -> None:
    """Nothing is missing, nothing comes twice, and groups go on where they were."""
    root, told = store
    layout = StoreLayout.at(root)
    if note == "files":
        (layout.own / "later").write_bytes(b"what it may be")
        (layout.own / "later.d").mkdir()
        (layout.own / "later.d" / "1").write_bytes(b"")
        described: dict[str, Any] = json.loads(layout.store_json.read_text())
        layout.store_json.write_text(json.dumps({**described, "later": True}))
        topics = layout.config / "topics.json"
        topics.write_text(topics.read_text().replace('"perm":', '"later":{"a":1},"perm":'))
    else:
        later(layout.own / note)
    for _ in range(2):
        visit(root, told)
    with orbitmq.Broker(root, handlers=1) as broker:
        until(lambda: [each.body for each in broker.delayed()] == [body(4001)], "the message that waits")
        assert sum(each.committed or 0 for each in broker.group("exact").queues) == 1, "what was committed with a batch"
    assert whole(root)
    if note == "files":
        assert (layout.own / "later").exists() and (layout.own / "later.d" / "1").exists()
        assert '"later"' in (layout.config / "topics.json").read_text()


def test_of_another_layout(store: tuple[Path, Told]) -> None:
    """It is refused, and nothing of it is changed."""
    root, _ = store
    layout = StoreLayout.at(root)
    described = json.loads(layout.store_json.read_text())
    layout.store_json.write_text(json.dumps({**described, "layout": described["layout"] + 1}))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(StoreVersion, match="its layout has version 2, not 1") as caught:
        orbitmq.Broker(root)
    assert (caught.value.version, caught.value.known) == (2, 1)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "holder"} == before
