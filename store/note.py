"""What a start tells whoever looks at a store: a sentence, and whether it says that something is lost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """text: a sentence. lost: the file, below the store, of which something that somebody relied on may be missing for good;
    "": nothing is, or it was to be expected, such as the last moments before a power cut, or what a member did to itself."""

    text: str
    lost: str = ""
