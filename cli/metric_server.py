"""The address at which Prometheus and probes ask: /metrics, /health and /ready."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from orbitmq.cli.broker_looks import BrokerLooks
from orbitmq.cli.metric_text import registry_of
from orbitmq.errors import OrbitError
from orbitmq.store.settings.listen_address import ListenAddress

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

IDLE_S = 30.0  # that a connection may say nothing
PLAIN = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
READS = ("GET", "HEAD")


class MetricServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, so that one that says nothing holds up nobody. Raises: OSError: it cannot listen."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, where: ListenAddress) -> None:
        self.address_family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        super().__init__((where.host, where.port), _Quiet)

    def server_bind(self) -> None:
        """Without the base's question to the name service."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone: no news."""


class _Quiet(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, format: str, *values: object) -> None:
        """A line for each scrape would help nobody."""


def application(looks: BrokerLooks) -> WSGIApplication:
    metrics = make_wsgi_app(registry_of(lambda: looks.look().metrics))

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path not in ("/metrics", "/health", "/ready"):
            return _said(start, "404 Not Found", "there are /metrics, /health and /ready")
        if environ["REQUEST_METHOD"] not in READS:
            start("405 Method Not Allowed", [*PLAIN, ("Allow", ", ".join(READS))])
            return []
        try:
            if path == "/metrics":
                page: Iterable[bytes] = metrics(environ, start)
                return page
            health = looks.look().health
        except OrbitError as error:
            return _said(start, "503 Service Unavailable", error.message)
        well = health.live if path == "/health" else health.ready
        return _said(start, "200 OK" if well else "503 Service Unavailable", health.state, *health.reasons)

    return answer


def _said(start: StartResponse, code: str, *lines: str) -> list[bytes]:
    start(code, [*PLAIN])  # a list of its own, to which the server adds
    return ["".join(f"{line}\n" for line in lines).encode()]
