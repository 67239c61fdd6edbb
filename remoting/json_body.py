"""Bodies of JSON from whoever is connected."""

from __future__ import annotations

import json
from typing import Any


def read_json(content: bytes) -> Any:
    """Raises: ValueError: it is no JSON, or is nested more deeply than Python reads."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
