"""What a request asks for, read from its address."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import cast

from orbitmq.cli.web.browse import Asked, Direction
from orbitmq.errors import SettingError

DIGITS_MAX = 19
OF_A_PAGE = {"direction", "most", "tags", "sql", "queue", "since_ms", "places"}


def check_names(query: Mapping[str, str], known: Set[str]) -> None:
    """Raises: SettingError: something is asked for that nobody knows, and would be left out without a word."""
    for name in query:
        if name not in known:
            text = f"could not use {name!r:.40}: there is no such parameter"
            raise SettingError(text, hint=f"the parameters are {', '.join(sorted(known))}", setting=name)


def number(query: Mapping[str, str], name: str) -> int | None:
    """None: it is not given. Raises: SettingError."""
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        raise SettingError(f"could not use {text!r:.40} as {name}: it is a whole number, 0 or more", setting=name, value=text)
    return int(text)


def places(text: str) -> dict[int, int]:
    """ "0:17,1:4", as pages tell where they ended. Raises: SettingError."""
    found = {}
    for part in text.split(",") if text else ():
        queue, _, offset = part.partition(":")
        pair = {"queue": queue, "offset": offset}
        at = number(pair, "queue"), number(pair, "offset")
        if at[0] is None or at[1] is None:
            why = "it must be a queue and an offset, such as 0:17"
            raise SettingError(f"could not go on at {part!r:.40}: {why}", setting="places", value=part)
        found[at[0]] = at[1]
    return found


def asked(topic: str, query: Mapping[str, str]) -> Asked:
    """Raises: SettingError, TopicNameError."""
    check_names(query, OF_A_PAGE)
    most = number(query, "most")
    return Asked(
        topic,
        direction=cast("Direction", query.get("direction", "older")),  # Asked looks at it
        most=50 if most is None else most,
        tags=query.get("tags") or None,
        sql=query.get("sql") or None,
        queue=number(query, "queue"),
        since_ms=number(query, "since_ms"),
        places=places(query.get("places", "")),
    )
