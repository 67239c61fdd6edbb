"""The errors about an option."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.errors import SettingError


def refused(option: str, value: object, why: str, hint: str | None = None) -> SettingError:
    """It has .option and .value."""
    return SettingError(f"cannot read with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)


def unknown_hint(option: str, known: Sequence[str]) -> str:
    """What to do about an option that there is not."""
    if option.lower().startswith("kafka."):
        return "it is for a client of Kafka, and there is none: leave it out; broker or path says where the topics are"
    return f"the options are {', '.join(known)}"
