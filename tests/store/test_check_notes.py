"""Of store/check_notes.py. Goal: what was written before a death is read after it, and damage costs the damaged entries only.
Method: random notes against a dict, over many readings; then each byte flipped, and each length."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orbitmq.store.check_notes import ENTRY_SIZE, CheckNote, CheckNotes, parse
from orbitmq.store.layout import StoreLayout


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    made = StoreLayout(tmp_path)
    made.own.mkdir(parents=True)
    return made


def test_the_last_note_of_each_counts(layout: StoreLayout) -> None:
    rng = random.Random(1)
    notes, wanted = CheckNotes(layout), dict[int, CheckNote]()
    assert notes.load() == {}
    for _ in range(200):
        step = rng.random()
        if step < 0.7:
            some = [CheckNote(rng.randrange(9), rng.randrange(1 << 63), rng.randrange(1 << 44), rng.randrange(1 << 32))
                    for _ in range(rng.randrange(1, 4))]  # fmt: skip
            notes.add(some)
            wanted |= {each.half: each for each in some}
        elif step < 0.8:
            wanted = {half: note for half, note in wanted.items() if rng.random() < 0.5}
            notes.replace(wanted)
        else:
            notes = CheckNotes(layout)
            assert notes.load() == wanted
    assert len(wanted) > 3


def test_damage_costs_what_is_damaged(layout: StoreLayout) -> None:
    some = [CheckNote(half, 100 + half, 1000 + half, 1 + half) for half in range(4)]
    notes = CheckNotes(layout)
    notes.add(some)
    content = layout.transaction_checks.read_bytes()
    assert len(content) == 4 * ENTRY_SIZE
    for at in range(len(content)):
        damaged = parse(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert damaged == {each.half: each for each in some if each.half != at // ENTRY_SIZE}
        assert parse(content[:at]) == {each.half: each for each in some if each.half < at // ENTRY_SIZE}
    assert parse(bytes(3 * ENTRY_SIZE)) == {}


def test_half_an_entry_is_written_over(layout: StoreLayout) -> None:
    first, second, third = (CheckNote(half, 1, 2, 3) for half in range(3))
    CheckNotes(layout).add([first, second])
    content = layout.transaction_checks.read_bytes()
    layout.transaction_checks.write_bytes(content[: ENTRY_SIZE + 7])
    notes = CheckNotes(layout)
    assert notes.load() == {0: first}
    notes.add([third])
    assert CheckNotes(layout).load() == {0: first, 2: third}
