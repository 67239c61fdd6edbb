"""A note of a start to the users of a store: a sentence, and whether it says that something is lost."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """text: a sentence. lost: the file, relative to the store, of which something that somebody relied on may be missing for
    good. "": nothing is missing, or that was to be expected, such as the last moments before a power cut, or a member's own
    fault."""

    text: str
    lost: str = ""
