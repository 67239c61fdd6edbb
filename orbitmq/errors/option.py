"""The error for an option that a call does not have. C raises it too (native/python/module.c)."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.errors.requests import UnknownOption


def unknown_option(doing: str, option: str, value: object, known: Iterable[str]) -> UnknownOption:
    """It names the one that may be meant. doing: what could not be done, such as "send"."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(option, names, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}" if close else f"its options are {', '.join(names)}"
    text = f"could not {doing} with {option}={value!r:.100}: there is no such option"
    return UnknownOption(text, hint=hint, name=option, setting=option, value=value)
