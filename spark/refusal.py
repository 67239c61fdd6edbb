"""The error about an option."""

from __future__ import annotations

from orbitmq.errors import SettingError


def refused(option: str, value: object, why: str, hint: str | None = None) -> SettingError:
    """It has .option and .value."""
    return SettingError(f"cannot read with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)
