"""Goal: only a whole backup that nobody has used is known as one.

Method: notes that are missing, damaged, foreign or outlived.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.store.backup import backup_note
from orbitmq.store.layout import StoreLayout


def test_kept_until_a_broker_starts(tmp_path: Path) -> None:
    layout, source = StoreLayout.at(tmp_path / "backup"), StoreLayout.at(tmp_path / "store")
    layout.make_folders()
    assert backup_note.load(layout) is None
    layout.positions.write_bytes(b"as they were")
    note = backup_note.store(layout, source, 1, 2, 3, 4)
    assert (note.store, note.made_ms, note.begin, note.end, note.closed) == (str(source.root), 1, 2, 3, 4)
    assert backup_note.load(layout) == note
    layout.positions.write_bytes(b"as a start has left them")
    assert backup_note.load(layout) is None
    layout.positions.write_bytes(b"as they were")
    backup_note.remove(layout)
    assert backup_note.load(layout) is None
    backup_note.remove(layout)


@pytest.mark.parametrize("change", [{"version": 2}, {"foreign": 1}, {"end": None}])
def test_not_understood(tmp_path: Path, change: dict[str, object]) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    backup_note.store(layout, layout, 1, 2, 3, 4)
    noted = json.loads(layout.backup_json.read_text()) | change
    layout.backup_json.write_text(json.dumps({name: value for name, value in noted.items() if value is not None}))
    assert backup_note.load(layout) is None
    for content in ("", "[]", "{"):
        layout.backup_json.write_text(content)
        assert backup_note.load(layout) is None
