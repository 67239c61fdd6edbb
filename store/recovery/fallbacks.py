"""Names the small files that a start cannot read, and replaces by an older copy or does without, so that nobody has to find out
by what is missing. Changes nothing. Files that a start cannot do without, such as store.json, are not among them; the start
reports those."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orbitmq.store import checkpoint, config, delays, positions, rising
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note
from orbitmq.store.reput_commit import ReputCommit


def fallbacks(layout: StoreLayout) -> tuple[Note, ...]:
    """Each note says which file, what is wrong with it, and what is used instead."""
    return (*config.fallbacks(layout), *_of_positions(layout), *(Note(text) for text in _of_others(layout)))


def _of_positions(layout: StoreLayout) -> Iterator[Note]:
    path = layout.positions
    content = _content(path)
    damaged = positions.damaged_slots(content)
    if content and damaged is None:
        text = f"{path} cannot be read: how the last broker ended and what was on disk is judged without it"
        yield Note(text, lost=str(path.relative_to(layout.root)))
    elif damaged:
        yield Note(f"one of the two records in {path} is damaged: the other one counts, which may be older")


def _of_others(layout: StoreLayout) -> Iterator[str]:
    content = _content(layout.checkpoint)
    if content and len(content) != checkpoint.SIZE:
        yield f"{layout.checkpoint} has {len(content):,} bytes instead of {checkpoint.SIZE:,}: more of the log is read"
    if _content(layout.reput) and ReputCommit.load(layout) is None:
        yield f"{layout.reput} cannot be read: the log is indexed from further back"
    content = _content(layout.rising)
    if content and rising.parse(content) is None:
        yield f"{layout.rising} cannot be read: searches by time look at every message of what the log has now"
    content = _content(layout.delayed)
    if content and delays.parse(content) is None:
        yield f"{layout.delayed} cannot be read: the whole log is read to see which delayed messages were delivered"
    group = layout.own / "group"
    content = _content(group)
    if content and not content.strip().isdigit():
        yield f"{group} cannot be read: files that an earlier start let a unix group read may stay readable for it"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # missing, as in a new store; or the start itself says why not
