"""The choice about a damaged log, and what it gives up."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Choice(enum.StrEnum):
    """What to do about damage in the log itself."""

    NONE = "none"
    SKIP = "skip"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Loss:
    """What a choice gives up. messages: lost with the damaged bytes, whatever is chosen. records: good ones that are lost
    beside them; None: their number is not known. size: bytes."""

    messages: int
    records: int | None
    size: int
