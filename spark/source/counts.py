"""Options that are numbers, switches or times, converted from text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from orbitmq.spark.refusal import refused

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def count(values: Mapping[str, str], option: str) -> int:
    """A whole number of at least 1; 0 if the option is not given."""
    text = values.get(option)
    if text is None:
        return 0
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise refused(option, text, "a whole number of at least 1 is wanted")
    return number


def switch(values: Mapping[str, str], option: str, default: bool) -> bool:
    text = values.get(option)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise refused(option, text, "true or false is wanted")
    return text.strip().lower() == "true"


def seconds(values: Mapping[str, str], option: str, default: float) -> float:
    """A length of time such as 500ms, 30s, 15m, 1h; a plain number means milliseconds, as with Spark's Kafka source."""
    text = values.get(option)
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*", text)
    if found is None:
        raise refused(option, text, "a length of time such as 500ms, 30s, 15m or 1h is wanted")
    return float(found[1]) * _UNITS[found[2] or "ms"]


def moment_ms(option: str, value: object) -> int:
    """Milliseconds since the epoch: a whole number of them, as text or not, or ISO 8601 with a time zone."""
    text = str(value).strip()
    if not isinstance(value, bool):
        if re.fullmatch(r"\d{1,15}", text):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None and moment >= _EPOCH:
            return -((_EPOCH - moment) // timedelta(milliseconds=1))  # rounded up: a message stored earlier must not match
    why = "milliseconds since the epoch are wanted, or a time with its zone such as 2024-05-01T12:00:00+00:00"
    raise refused(option, value, why)
