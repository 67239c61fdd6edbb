"""Settings as text: in the environment, after --set, and in the store's file. The type of a setting follows from its name: its
default in store/settings/settings.py or store/settings/tree_settings.py has that type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Face, Hint, all_of, environment

PREFIX = "ORBITMQ_"
OTHERS = {"ORBITMQ_BROKER", "ORBITMQ_RUNTIME_DIR"}  # variables that are no settings (shm/runtime.py)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmg])(?:i?b)?", re.IGNORECASE)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES = ("_hours", "_s", "_ms", "_us")  # endings of names: 1M is no number of hours
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def refused(name: str, value: Any, why: str, hint: Hint | str | None = None, deed: str = "set") -> SettingError:
    """The error for a setting that is not valid. deed: "set", or "unset", which needs no value."""
    what = f"set {name} to {value!r:.80}" if deed == "set" else f"{deed} {name!r:.80}"
    return SettingError(f"cannot {what}: {why}", hint=hint, name=name, value=value)


def value_of(name: str, kind: type, text: str) -> Any:
    """The value of a text: 65536, 64K, 0.5, true, or the text itself. Raises: SettingError: it has none."""
    text = text.strip()
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise refused(name, text, "it must be true or false")
        return _FLAGS[text.lower()]
    if kind is str:
        return text
    size = _SIZE.fullmatch(text) if kind is int and not name.endswith(_TIMES) else None
    try:
        if size is not None:
            from fractions import Fraction

            return int(Fraction(size[1]) * _UNITS[size[2].lower()])
        return kind(text)
    except ValueError:
        what = "a number" if kind is not int else "a whole number"
        more = "" if kind is not int or name.endswith(_TIMES) else ", or a size such as 64K or 1.5G"
        raise refused(name, text, f"it must be {what}{more}") from None


def variable_of(name: str) -> str:
    """retention_hours -> ORBITMQ_RETENTION_HOURS."""
    return PREFIX + name.upper()


def from_environment(kinds: Mapping[str, type], environ: Mapping[str, str]) -> dict[str, Any]:
    """What the environment sets of these settings. An empty variable counts as not set. Raises: SettingError: a variable is not
    a valid value."""
    found = {}
    for name, kind in kinds.items():
        text = environ.get(variable_of(name), "")
        if text.strip():
            try:
                found[name] = value_of(name, kind, text)
            except SettingError as error:
                raise located(error, f"the environment's {variable_of(name)}", environment) from None
    return found


def mistyped(kinds: Mapping[str, type], environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that look like misspelt settings, each with the setting that may have been meant."""
    known = [variable_of(name) for name in kinds]
    strange = [name for name in environ if name.startswith(PREFIX) and name not in known and name not in OTHERS]
    if not strange:
        return []
    from difflib import get_close_matches

    close = ((name, get_close_matches(name, known, n=1, cutoff=0.85)) for name in sorted(strange))
    return [(name, found[0]) for name, found in close if found]


def located(error: SettingError, where: str, face: Face, remedy: str | None = None) -> SettingError:
    """The same error, with the source of the value, how that spells settings, and what else would help."""
    told = error.reworded(f"{error.message} ({where})", all_of(error.remedy, remedy))
    told.face = face
    return told
