"""Messages as the console's pages get them: in a list with the beginning of the body, alone with as much of it as a page can
show."""

from __future__ import annotations

from typing import Any

from orbitmq.cli.web.browse import Damaged, Found, Page
from orbitmq.client.dead_letter.dead_letter import DeadLetter
from orbitmq.client.message import Message

PREVIEW = 240  # bytes of a body in a list
SHOWN = 64 << 10  # of a body on its page; the whole of it can be downloaded


def in_list(found: Found) -> dict[str, Any]:
    if isinstance(found, Damaged):
        return {
            "topic": found.topic,
            "queue": found.queue,
            "offset": found.offset,
            "physical_offset": found.physical_offset,
            "damaged": found.why,
        }
    return _heading(found) | _body(found, PREVIEW)


def alone(message: Message) -> dict[str, Any]:
    return _heading(message) | {
        "properties": dict(message.properties),
        "born_ms": message.born_ms,
        "born_host": message.born_host,
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        **_body(message, SHOWN),
    }


def letter_in_list(letter: DeadLetter) -> dict[str, Any]:
    return in_list(letter.message) | {
        "group": letter.group,
        "original_topic": letter.topic,
        "tries": letter.tries,
        "reason": letter.reason,
        "died_ms": letter.died_ms,
        "first_id": letter.first_id,
        "redriven": letter.redriven,
    }


def of_page(page: Page, messages: list[dict[str, Any]]) -> dict[str, Any]:
    places = ",".join(f"{queue}:{offset}" for queue, offset in page.places.items())
    return {"messages": messages, "places": places, "looked": page.looked, "whole": page.whole}


def _heading(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "physical_offset": message.physical_offset,
        "size": message.size,
        "tags": message.tags,
        "keys": list(message.keys),
        "stored_ms": message.stored_ms,
    }


def _body(message: Message, most: int) -> dict[str, Any]:
    """text: None if it is not UTF-8; hex: of the same bytes. A character that the end cuts is left out."""
    body = message.body
    shown = bytes(body[:most])
    text: str | None
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        cut = len(shown) < len(body) and error.end == len(shown) and error.start > len(shown) - 4
        text = shown[: error.start].decode() if cut else None
    wanted = text is None or most == SHOWN
    return {"body": {"bytes": len(body), "shown": len(shown), "text": text, "hex": shown.hex() if wanted else None}}
