"""What a program gives as the name of a group. The broker has the rule for names (actors/groups/groups.py)."""

from __future__ import annotations

from orbitmq.errors import GroupNameError
from orbitmq.native._core import lib


def check_group_type(name: object) -> None:
    """Raises: GroupNameError: it is no text."""
    if not isinstance(name, str):
        raise GroupNameError(f"cannot name a group {name!r}: a name is a str", hint="give the name as a str", group=name)


def check_producer_group(name: object) -> None:
    """The name of a producer group, which the broker keeps as it is. Raises: GroupNameError."""
    check_group_type(name)
    assert isinstance(name, str)
    if not 1 <= len(name.encode(errors="surrogatepass")) <= lib.SEND_GROUP_MAX:
        text = f"cannot name a producer group {name!r:.64}: a name has 1 to {lib.SEND_GROUP_MAX} bytes"
        raise GroupNameError(text, group=name, limit=lib.SEND_GROUP_MAX)
    for at, character in enumerate(name):
        if not ("!" <= character <= "~"):
            text = f"cannot name a producer group {name!r}: {character!r} is not allowed in a name"
            remedy = "use ASCII letters, digits and signs"
            raise GroupNameError(text, hint=remedy, group=name, at=at, character=character)
