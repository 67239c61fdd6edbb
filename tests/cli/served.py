"""A console that a test asks: the command itself, as a process, and requests as any HTTP client makes them."""

from __future__ import annotations

import http.client
import json
import re
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from tests.cli.commands import Background

SHOWN = re.compile(r"console at http://(?P<host>[^/]+):(?P<port>\d+)/#token=(?P<token>\S+)")


class Reply(NamedTuple):
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Console:
    """`orbitmq console` until the end of the block."""

    def __init__(self, *arguments: str) -> None:
        self._command = Background("console", "--listen", "127.0.0.1:0", *arguments)
        self.port, self.token = 0, ""

    def get(self, *path: str, **query: Any) -> Reply:
        """path: parts of a path below /api."""
        return self.request("GET", "/api/" + "/".join(quote(each, safe="") for each in path) + "?" + urlencode(query))

    def json(self, *path: str, **query: Any) -> Any:
        reply = self.get(*path, **query)
        assert reply.code == 200, reply
        return reply.json

    def request(
        self, method: str, target: str, headers: dict[str, str] | None = None, content: Any = None, host: str | None = None
    ) -> Reply:
        """headers: None: with the token."""
        given = {"Authorization": f"Bearer {self.token}"} if headers is None else headers
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        try:
            link.putrequest(method, target, skip_host=True)
            for value in (f"127.0.0.1:{self.port}",) if host is None else filter(None, host.split("|")):
                link.putheader("Host", value)
            body = b"" if content is None else json.dumps(content).encode()
            for name, value in ({"Content-Length": str(len(body))} | given).items():
                link.putheader(name, value)
            link.endheaders(body)
            answer = link.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            link.close()

    def address(self, *parts: str) -> str:
        """Of a page, for a browser."""
        place = "/".join(quote(each, safe="") for each in parts)
        return f"http://127.0.0.1:{self.port}/#token={quote(self.token, safe='')}/{place}"

    def interrupt(self) -> tuple[int, str, str]:
        self._command.interrupt()
        return self._command.end()

    def __enter__(self) -> Self:
        assert self._command.process.stdout is not None
        line = self._command.process.stdout.readline().decode()
        found = SHOWN.search(line)
        if found is None:
            self._command.process.kill()
            raise AssertionError((line, self._command.process.communicate()))
        self.port, self.token = int(found["port"]), found["token"]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._command.__exit__(kind, error, trace)
