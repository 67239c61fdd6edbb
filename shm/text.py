"""Encoding text that leaves Python: a str may hold characters that cannot be encoded."""

from __future__ import annotations

from orbitmq.errors import UsageError

WHY = "it holds a lone surrogate, which is half a character"
HINT = "decode what it came from with another encoding, or with errors='replace'"


def utf8(text: str, doing: str) -> bytes:
    """The text in UTF-8. doing: what cannot be done otherwise, such as "find key".

    Raises: UsageError: has .value.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"could not {doing} {text!r}: {WHY}", hint=HINT, value=text) from None
