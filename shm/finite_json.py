"""JSON as files and users give it: whatever is not JSON is a ValueError.

Python's own parser takes more than JSON: Infinity, NaN, and 1e999, which becomes infinity. int() of these is an OverflowError,
which readers of damaged files do not expect. And the parser gives up on deep nesting with a RecursionError.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn


def loads(content: str | bytes) -> Any:
    """Raises: ValueError: this is not JSON, or it has numbers that no float holds, or is nested too deeply."""
    try:
        return json.loads(content, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse(text)
