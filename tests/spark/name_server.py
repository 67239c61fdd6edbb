"""A name server that knows what a test tells it: where topics are."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.native import remoting_model as model
from tests.native.remoting_model import JSON, Header

ROUTE, TOPICS = 105, 206
NO_TOPIC = 17


class Held(NamedTuple):
    """What a broker has of a topic."""

    broker: str
    address: str
    queues: int


Routes = dict[str, list[Held]]


@contextmanager
def name_server(routes: Routes) -> Iterator[str]:
    """Answers with what is in `routes` at that moment. Yields its address."""

    class Serving(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            came = b""
            while some := self.request.recv(1 << 16):
                came += some
                while (size := model.border(came)) is not None and len(came) >= size:
                    header = model.read_json(model.split(came[:size])[1])
                    came = came[size:]
                    self.request.sendall(answer(header))

    def answer(header: Header) -> bytes:
        topic = (header.fields or {}).get(b"topic", b"").decode()
        code, content = 0, json.dumps({"topicList": sorted(routes)}).encode()
        if header.code == ROUTE:
            code, content = (0, route_of(routes[topic])) if topic in routes else (NO_TOPIC, b"")
        return model.frame(JSON, model.write_json(Header(code, 0, 407, header.opaque, 1, None, {})), content)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Serving) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def route_of(brokers: list[Held]) -> bytes:
    data = {
        "brokerDatas": [{"brokerName": each.broker, "brokerAddrs": {"0": each.address}} for each in brokers],
        "queueDatas": [
            {"brokerName": each.broker, "readQueueNums": each.queues, "writeQueueNums": each.queues, "perm": 6}
            for each in brokers
        ],
    }
    return json.dumps(data).encode()
