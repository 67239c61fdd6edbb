"""What stands before every answer of the console: whom it talks to, and what browsers may do with its pages.

* The Host header must name this console. So a page of another site whose name was made to lead here (DNS rebinding) gets
  nothing.
* The API wants the token in a header. The console sets no cookie, so what another site has a browser send carries nothing that
  this console would accept (cross-site request forgery).
* A change needs a console that was started with leave to change, and comes from its own page, if from a page at all.
* Its pages run only scripts of the console's own files, and no text can become markup (Content-Security-Policy, Trusted Types).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orbitmq.cli.web.answer import Answer, refused

API = "/api/"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
READING = ("GET", "HEAD")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """token: what the API wants. hosts: names under which browsers reach the console, beside those of this machine alone.
    changes: whether it may change the broker."""

    token: str
    hosts: frozenset[str] = frozenset()
    changes: bool = False

    def knows_host(self, hosts: Iterable[str]) -> bool:
        """hosts: the Host headers of a request, of which there must be one."""
        found = [name_of(each) for each in hosts]
        return len(found) == 1 and (found[0] in LOOPBACK or found[0] in self.hosts)

    def knows_origin(self, origin: str, host: str) -> bool:
        """origin: the Origin header, which browsers send with every change: the site of the page that makes it. host: the Host
        header, which may be that of a proxy's."""
        site = origin.partition("://")[2]
        return site == host or name_of(site) in self.hosts - {*LOOPBACK}

    def knows_token(self, given: Iterable[str]) -> bool:
        """given: the Authorization headers of a request."""
        found = list(given)
        kind, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
        same = hmac.compare_digest(token.strip().encode(), self.token.encode())  # takes as long wherever they differ
        return same and kind.lower() == "bearer"


def name_of(host: str) -> str:
    """A Host header without its port: "localhost:8480" -> "localhost"."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower().rstrip(".")


class Guard:
    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Answer | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if not self._rules.knows_host(hosts):
            return refused(421, f"this console does not answer to the name {', '.join(hosts)!r:.100}", option="host")
        if not scope["path"].startswith(API):
            return None
        if not self._rules.knows_token(headers.getlist("authorization")):
            return refused(401, "the console's token is missing or wrong")
        return None if scope["method"] in READING else self._refusal_to_change(hosts[0], headers.getlist("origin"))

    def _refusal_to_change(self, host: str, origins: list[str]) -> Answer | None:
        if not all(self._rules.knows_origin(each, host) for each in origins):
            return refused(403, "this console takes no changes from pages of other sites")
        return None if self._rules.changes else refused(403, "this console only reads", option="allow-changes")
