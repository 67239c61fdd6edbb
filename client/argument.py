"""What a program passes to a call, checked before the call does or asks anything.

Programs that are not type-checked pass texts for numbers, and None for names. Unchecked, these would fail somewhere inside with
an error that names no argument, or would count as something else: every text is true, "no" too."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from numbers import Real
from operator import index
from typing import Any, SupportsIndex

from orbitmq.errors import SettingError, TopicNameError
from orbitmq.store.index_file import TIME_END

FOR_EVER_S = 1e9  # what no clock of a wait refuses; a longer timeout is as good as this
WHOLE_MAX = 2**63 - 1  # what a question to the broker can carry
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check_flag(value: object, doing: str, name: str) -> None:
    """Raises: SettingError: neither True nor False."""
    if not isinstance(value, bool):
        text = f"could not {doing} with {name}={value!r:.100}: it is True or False"
        raise SettingError(text, name=name, setting=name, value=value)


def whole(value: object, doing: str, name: str) -> int:
    """The value as an int, also if it is a number of NumPy's.

    Raises: SettingError: no whole number, or one that no question can carry."""
    number = index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else None
    if number is None or abs(number) > WHOLE_MAX:
        limit = "" if number is None else f" of at most {WHOLE_MAX:,}"
        text = f"could not {doing} with {name}={value!r:.100}: it is a whole number{limit}"
        raise SettingError(text, name=name, setting=name, value=value, limit=WHOLE_MAX)
    return number


def moment_ms(value: object, doing: str, name: str) -> int:
    """The first whole millisecond since the epoch at this moment or later, as a store time can be: from 0 to TIME_END. value: a
    number of milliseconds, or a datetime; one without a time zone is in this machine's.

    Raises: SettingError: neither of both."""
    number: float | None = None
    if isinstance(value, datetime):
        # Whole microseconds: a float would miss the millisecond that the datetime names.
        with suppress(OverflowError, ValueError, OSError):  # its local time is before the year 1, or after the year 9999
            number = -(-((value.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)) // 1000)
    elif isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = index(value)
    elif isinstance(value, float) and not math.isnan(value):
        number = value
    if number is None:
        text = f"could not {doing} with {name}={value!r:.100}: it is a number of milliseconds since 1970, or a datetime"
        raise SettingError(text, name=name, setting=name, value=value)
    return math.ceil(min(max(0, number), TIME_END))


def most_or_all(value: object, doing: str) -> int | None:
    """How many at most; None: all. Raises: SettingError: no number from 1 on."""
    if value is None:
        return None
    number = whole(value, doing, "most")
    if number < 1:
        text = f"could not {doing} with {number} as the most: the number must be at least 1"
        raise SettingError(text, setting="most", value=number)
    return number


def seconds(value: Any, doing: str, *, setting: str = "timeout", or_none: bool = False) -> float:
    """The value as a float that each clock takes: what is longer than FOR_EVER_S is as long as that, and what is below 0 is
    over at once. or_none: how the error says it; the caller has looked for None.

    Raises: SettingError: no number of seconds."""
    if type(value) in (float, int) and -1 <= value <= FOR_EVER_S:  # the usual ones, quickly
        return float(value)
    if _is_real(value):
        try:
            number = float(value)
        except OverflowError:  # an int, or a fraction, that no float holds
            number = math.inf if value > 0 else -math.inf
        if not math.isnan(number):
            return max(-1.0, min(number, FOR_EVER_S))
    text = f"could not {doing} with {setting}={value!r:.100}: it is a number of seconds{', or None' if or_none else ''}"
    raise SettingError(text, setting=setting, value=value)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def seconds_or_none(value: Any, doing: str) -> float | None:
    """The same of a timeout that may be None. Raises: SettingError."""
    return None if value is None else seconds(value, doing, or_none=True)


def deadline(timeout: float | None, doing: str) -> float | None:
    """When the time is over, by time.monotonic(); None: never. Raises: SettingError: neither None nor a number of seconds."""
    limit = seconds_or_none(timeout, doing)
    return None if limit is None else time.monotonic() + limit


def check_topic_type(name: object) -> None:
    """Raises: TopicNameError: it is no text."""
    if not isinstance(name, str):
        raise TopicNameError(f"cannot name a topic {name!r:.100}: a name is a str", hint="give the name as a str", topic=name)
