"""The errors about options."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Hint


def refused(option: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    """It has .option and .value."""
    return SettingError(f"cannot read with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)


def unknown_hint(option: str, known: Sequence[str]) -> str:
    """The hint about an option that does not exist: similar ones, else all. Spark may have changed the case."""
    if option.lower().startswith("kafka."):
        return "it is for a client of Kafka, and there is none: leave it out; broker or path says where the topics are"
    spelled = {name.lower(): name for name in known}
    close = get_close_matches(option.lower(), spelled, cutoff=0.6)
    return f"did you mean {' or '.join(spelled[name] for name in close)}" if close else f"the options are {', '.join(known)}"
