"""How safe a message is when its receipt comes. docs/acknowledgement.md says what each level survives."""

from __future__ import annotations

from typing import Literal

Durability = Literal["appended", "flushed"]
APPENDED: Durability = "appended"
FLUSHED: Durability = "flushed"
