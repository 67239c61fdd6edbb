"""What the console may change if it was started so: a group's offsets, dead letters that are sent again, and topics that go.
Each is one call of the client's, with its errors and its permissions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from orbitmq.cli.web import message_json
from orbitmq.cli.web.answer import Answer, refused
from orbitmq.cli.web.link import Link
from orbitmq.errors import SettingError

CONTENT_MAX = 1 << 20
Content = dict[str, Any]


class Changes:
    """The paths and what they do."""

    def __init__(self, to: Link) -> None:
        self._link = to

    def routes(self) -> list[Route]:
        return [
            _route("/api/groups/{group}/reset", self._reset, "POST", {"to", "topic", "queue", "dry_run"}),
            _route("/api/dead-letters/{group}/redrive", self._redrive, "POST", {"offsets"}),
            _route("/api/topics/{topic}", self._delete, "DELETE", set()),
        ]

    def _reset(self, place: dict[str, str], content: Content) -> Answer:
        """dry_run: only what would be done."""
        if "to" not in content:
            raise SettingError('could not reset a group: the field "to" is missing', setting="to")
        to, dry = content["to"], content.get("dry_run", False)
        client, topic, queue = self._link.client, content.get("topic"), content.get("queue")
        moves = client.reset_group(place["group"], to, topic=topic, queue=queue, dry_run=dry)
        return Answer({"moves": [asdict(each) for each in moves]})

    def _redrive(self, place: dict[str, str], content: Content) -> Answer:
        """offsets: of the letters; absent: all that were not sent again."""
        sent = self._link.client.dead_letters(place["group"]).redrive(content.get("offsets"))
        return Answer({"sent": [message_json.letter_in_list(each) for each in sent]})

    def _delete(self, place: dict[str, str], _: Content) -> Answer:
        self._link.client.delete_topic(place["topic"])
        return Answer({"deleted": place["topic"]})


def _route(path: str, change: Callable[[dict[str, str], Content], Answer], method: str, known: set[str]) -> Route:
    async def answer(request: Request) -> Answer:
        raw = b""
        async for part in request.stream():
            raw += part
            if len(raw) > CONTENT_MAX:
                return refused(413, f"could not take more than {CONTENT_MAX:,} bytes at once")
        return await run_in_threadpool(lambda: change(request.path_params, _content(raw, known)))

    return Route(path, answer, methods=[method])


def _content(raw: bytes, known: set[str]) -> Content:
    """Raises: SettingError: it is no JSON object, or has fields that nobody knows."""
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SettingError("could not change anything: the request must hold a JSON object", setting="content")
    if unknown := sorted(found.keys() - known):
        raise SettingError(f"could not change anything: there is no field {unknown[0]!r:.40}", setting=unknown[0])
    return found
