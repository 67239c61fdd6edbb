"""The errors about options, and how they list what exists instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Hint

NAMED_MOST = 20


def refused(option: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    """It has .option and .value."""
    return SettingError(f"cannot read with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)


def unknown_hint(option: str, known: Sequence[str]) -> str:
    """The hint about an option that does not exist: similar ones, else all. Spark may have changed the case."""
    if option.lower().startswith("kafka."):
        return "it is for a client of Kafka, and there is none: leave it out; broker or path says where the topics are"
    spelled = {name.lower(): name for name in known}
    close = get_close_matches(option.lower(), spelled, cutoff=0.6)
    return f"perhaps {' or '.join(spelled[name] for name in close)}" if close else f"the options are {', '.join(known)}"


def topics_there(names: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - NAMED_MOST:,} more" if len(known) > NAMED_MOST else ""
    return f"{', '.join(known[:NAMED_MOST]) or 'no topic'}{more}"
