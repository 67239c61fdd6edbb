"""Who is at the other end of a connection, as its heartbeats say."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.remoting import heartbeat
from orbitmq.remoting.producers import HEARTBEAT
from orbitmq.remoting.request import Client, Origin, Request

LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS")


@dataclass(frozen=True, slots=True)
class Known:
    client_id: str
    origin: Origin

    def described(self) -> dict[str, object]:
        """As mqadmin reads it."""
        at = self.origin
        language = LANGUAGES[at.language] if 0 <= at.language < len(LANGUAGES) else "OTHER"
        return {"clientAddr": at.address, "clientId": self.client_id, "language": language, "version": at.version}


class Clients:
    def __init__(self) -> None:
        self._known: dict[Client, Known] = {}

    def hear(self, request: Request) -> None:
        """A heartbeat; of others it learns nothing."""
        if request.code == HEARTBEAT:
            self._known[request.client] = Known(heartbeat.read(request.body).client_id, request.origin)

    def gone(self, client: Client) -> None:
        """Its connection has ended."""
        self._known.pop(client, None)

    def described(self, clients: tuple[Client, ...]) -> list[dict[str, object]]:
        return [self._known[client].described() for client in clients if client in self._known]
