"""What a program gives as the name of a group. The broker has the rule for names (actors/groups.py)."""

from __future__ import annotations

from orbitmq.errors import GroupNameError


def check_group_type(name: object) -> None:
    """Raises: GroupNameError: it is no text."""
    if not isinstance(name, str):
        raise GroupNameError(f"cannot name a group {name!r}: a name is a str", hint="give the name as a str", group=name)
