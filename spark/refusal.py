"""The errors about options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Hint

SECRET = r"(?i)secret|password|token|access[.]?key"  # as spark.redaction.regex, by which Spark hides options in its plans
HIDDEN = "*(hidden)"


def refused(option: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    """It has .option and .value."""
    return for_option("read", option, value, why, hint)


def for_option(what: str, option: str, value: object, why: str, hint: Hint | str | None = None) -> SettingError:
    """What looks like a secret is not shown: errors go into logs."""
    value = HIDDEN if re.search(SECRET, option) else value
    return SettingError(f"cannot {what} with option {option} = {value!r}: {why}", hint=hint, option=option, value=value)


def unknown_hint(option: str, known: Sequence[str]) -> str:
    """The hint about an option that does not exist: similar ones, else all. Spark may have changed the case."""
    if option.lower().startswith("kafka."):
        return "it is for a client of Kafka, and there is none: leave it out; broker or path says where the topics are"
    spelled = {name.lower(): name for name in known}
    close = get_close_matches(option.lower(), spelled, cutoff=0.6)
    return f"did you mean {' or '.join(spelled[name] for name in close)}" if close else f"the options are {', '.join(known)}"
