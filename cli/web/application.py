"""The console as a web application: its files, and its API under /api, which they poll."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orbitmq.cli.web import link, message_json, query
from orbitmq.cli.web.answer import Answer, of_error, refused
from orbitmq.cli.web.browse import Damaged, page_of
from orbitmq.cli.web.changes import Changes
from orbitmq.cli.web.guard import Guard, Rules
from orbitmq.client.dead_letter.dead_letter import PREFIX, letter_of
from orbitmq.client.dead_letter.redrive import sent_again
from orbitmq.client.message import Message
from orbitmq.errors import OrbitError

PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOUND_MAX = 100  # messages with a key


class Api:
    """Starlette calls each in a thread of its pool, because the broker's client waits."""

    def __init__(self, to: link.Link, rules: Rules) -> None:
        self._link, self._rules = to, rules

    def status(self, _: Request) -> Answer:
        """GET /api/status: all that `orbitmq status` shows, with rates."""
        now, between = self._link.look()
        return Answer(link.as_json(now, between) | {"changes": self._rules.changes})

    def group(self, request: Request) -> Answer:
        """GET /api/groups/GROUP: with what its workers have in hand and its retries."""
        return Answer(link.group_json(self._link.client.group(request.path_params["group"])))

    def messages(self, request: Request) -> Answer:
        """GET /api/topics/TOPIC/messages: a page. query.py has what may be asked."""
        wanted = query.asked(request.path_params["topic"], request.query_params)
        page = page_of(self._link.client.connection.attachment, wanted)
        return Answer(message_json.of_page(page, [message_json.in_list(each) for each in page.messages]))

    def with_key(self, request: Request) -> Answer:
        """GET /api/topics/TOPIC/keys?key=...: newest first."""
        query.check_names(request.query_params, {"key"})
        topic, key = request.path_params["topic"], request.query_params.get("key", "")
        found = self._link.client.find(topic, key, most=FOUND_MAX)
        return Answer({"messages": [message_json.in_list(each) for each in found], "most": FOUND_MAX})

    def message(self, request: Request) -> Answer:
        """GET /api/messages/ID."""
        return Answer(message_json.alone(self._message(request)))

    def body(self, request: Request) -> Response:
        """GET /api/messages/ID/body: the bytes, for a file."""
        message = self._message(request)
        name = {"content-disposition": f'attachment; filename="{message.id}.bin"'}
        return Response(bytes(message), media_type="application/octet-stream", headers=name)

    def letters(self, request: Request) -> Answer:
        """GET /api/dead-letters/GROUP: a page of them, newest first; sent again or not."""
        group = request.path_params["group"]
        attached = self._link.client.connection.attachment
        if not self._link.client.dead_letters(group).bounds.maximum:
            return Answer({"messages": [], "places": "", "looked": 0, "whole": True})
        page = page_of(attached, query.asked(PREFIX + group, request.query_params))
        shown = []
        for each in page.messages:
            if isinstance(each, Damaged):
                shown.append(message_json.in_list(each))
            else:
                shown.append(message_json.letter_in_list(letter_of(group, each, sent_again(attached, each))))
        return Answer(message_json.of_page(page, shown))

    def _message(self, request: Request) -> Message:
        return self._link.client.message(request.path_params["id"])


def application(to: link.Link, rules: Rules) -> Starlette:
    """rules: who may do what."""
    api = Api(to, rules)
    routes = [
        Route("/api/status", api.status),
        Route("/api/groups/{group}", api.group),
        Route("/api/topics/{topic}/messages", api.messages),
        Route("/api/topics/{topic}/keys", api.with_key),
        Route("/api/messages/{id}", api.message),
        Route("/api/messages/{id}/body", api.body),
        Route("/api/dead-letters/{group}", api.letters),
        *Changes(to).routes(),  # the guard refuses them unless the rules allow it
    ]
    files = {f"/{each.name}": each for each in sorted(PAGE.iterdir()) if each.suffix in KINDS}
    files["/"] = PAGE / "index.html"
    routes += [Route(path, _file(file)) for path, file in files.items()]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={OrbitError: _error, 404: _absent, 405: _wrong_method},
    )


def _file(path: Path) -> Any:
    content = path.read_bytes()

    def answer(_: Request) -> Response:
        return Response(content, media_type=KINDS[path.suffix])

    return answer


def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OrbitError)
    return of_error(error)


def _absent(request: Request, _: Exception) -> Response:
    return refused(404, f"the console has nothing at {request.url.path!r:.100}")


def _wrong_method(request: Request, _: Exception) -> Response:
    return refused(405, f"the console does not know {request.method!r:.20} for {request.url.path!r:.100}")
