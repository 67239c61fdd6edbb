"""A client of the gateway that speaks RocketMQ's protocol by the readable model of its frames."""

from __future__ import annotations

import random
import select
import socket
from collections import deque
from typing import NamedTuple, TypeAlias

from orbitmq.store.commit_log.record import Record, parse
from orbitmq.store.settings.listen_address import listen_address
from tests.native import remoting_model as model
from tests.native.remoting_model import JSON, Header
from tests.waiting import WATCHDOG_S

SEND, PULL, QUERY_OFFSET, MAX_OFFSET, MIN_OFFSET = 10, 11, 14, 30, 31
HEARTBEAT, UNREGISTER, ROUTE, CLUSTER, SEND_V2 = 34, 35, 105, 106, 310
ONE_WAY = 2
SUSPEND, SUBSCRIPTION = 2, 4

_Frame: TypeAlias = tuple[int, Header, dict[str, str], bytes]  # form, header, its fields, body


def damaged(rng: random.Random, frame: bytes) -> bytes:
    """The frame with some bytes changed, lost and doubled."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1 if len(data) > 1:
                del data[at]
            case _:
                data[at:at] = data[at : at + rng.randrange(9)]
    return bytes(data)


class Said(NamedTuple):
    """An answer."""

    opaque: int
    code: int
    remark: str | None
    fields: dict[str, str]
    body: bytes
    form: int


class Remote:
    """One connection. form: of the headers that it sends. host: its own address. version: of RocketMQ's client that it is."""

    connect = staticmethod(socket.create_connection)
    version = 407

    def __init__(self, listens: str, form: int = JSON, host: str = "127.0.0.1") -> None:
        address = listen_address(listens)
        assert address is not None
        self.socket = self.connect(address, timeout=WATCHDOG_S, source_address=(host, 0))
        self.form = form
        self._came = b""
        self._kept: deque[_Frame] = deque()  # requests of the broker that came before an answer
        self._opaque = 0

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, code: int, body: bytes = b"", *, mark: int = 0, **fields: object) -> bytes:
        """The bytes of a request, with an opaque of its own."""
        self._opaque += 1
        told = {name.encode(): value if isinstance(value, bytes) else str(value).encode() for name, value in fields.items()}
        header = Header(code, 0, self.version, self._opaque, mark, None, told)
        return model.frame(self.form, (model.write_json if self.form == JSON else model.write_binary)(header), body)

    def put(self, code: int, body: bytes = b"", *, mark: int = 0, **fields: object) -> int:
        """Sends a request. Returns its opaque."""
        self.socket.sendall(self.frame(code, body, mark=mark, **fields))
        return self._opaque

    def reply(self, opaque: int, code: int, body: bytes = b"", remark: bytes | None = None, **fields: object) -> None:
        """Answers a request of the broker's."""
        told = {name.encode(): str(value).encode() for name, value in fields.items()}
        write = model.write_json if self.form == JSON else model.write_binary
        self.socket.sendall(model.frame(self.form, write(Header(code, 0, 407, opaque, 1, remark, told)), body))

    def take(self) -> Said:
        """The next answer, before which no request comes. Raises: ConnectionError: the connection was closed."""
        assert not self._kept
        form, header, fields, body = self._receive()
        assert header.flag == 1 and header.version >= 232
        return Said(header.opaque, header.code, header.remark.decode() if header.remark else None, fields, body, form)

    def asked(self) -> Said:
        """The next request of the broker, which wants no answer. Raises: as take."""
        form, header, fields, body = self._next()
        assert header.flag == ONE_WAY and form == JSON
        return Said(header.opaque, header.code, None, fields, body, form)

    def answer_amid(self, opaque: int) -> Said:
        """The answer of this request; requests that come before it are kept for `asked` and `next_one`. Raises: as take."""
        while (came := self._receive())[1].flag != 1:
            self._kept.append(came)
        form, header, fields, body = came
        assert header.opaque == opaque and form == self.form
        return Said(opaque, header.code, header.remark.decode() if header.remark else None, fields, body, form)

    def answered(self) -> Said:
        """The next answer; requests that come before it are left unheeded. Raises: as take."""
        while (came := self._next())[1].flag != 1:
            pass
        form, header, fields, body = came
        return Said(header.opaque, header.code, header.remark.decode() if header.remark else None, fields, body, form)

    def next_one(self) -> Said:
        """The next answer, or request of the broker. Raises: as take."""
        form, header, fields, body = self._next()
        return Said(header.opaque, header.code, None, fields, body, form)

    def until(self, opaque: int) -> None:
        """Takes what comes up to the answer of this request."""
        while (header := self._next()[1]).flag != 1 or header.opaque != opaque:
            pass

    @property
    def has_come(self) -> bool:
        """Something has, or the connection's end."""
        return bool(self._kept or self._came) or bool(select.select([self.socket], [], [], 0)[0])

    def _next(self) -> _Frame:
        return self._kept.popleft() if self._kept else self._receive()

    def _receive(self) -> _Frame:
        while (size := model.border(self._came)) is None or len(self._came) < size:
            some = self.socket.recv(1 << 20)
            if not some:
                raise ConnectionError("the gateway has closed the connection")
            self._came += some
        frame, self._came = self._came[:size], self._came[size:]
        form, head, body = model.split(frame)
        header = (model.read_json if form == JSON else model.read_binary)(head)
        fields = {name.decode(): value.decode(errors="replace") for name, value in (header.fields or {}).items()}
        return form, header, fields, body

    def ask(self, code: int, body: bytes = b"", **fields: object) -> Said:
        opaque = self.put(code, body, **fields)
        said = self.take()
        assert said.opaque == opaque and said.form == self.form
        return said

    def send_fields(self, topic: str, queue: int, properties: bytes = b"", **others: object) -> dict[str, object]:
        """Of the short form."""
        fields = {"a": "group", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1_700_000_000_123, "h": 0}
        return {**fields, **({"i": properties} if properties else {}), "m": "false", **others}

    def send(self, topic: str, body: bytes, queue: int = 0, properties: bytes = b"", **others: object) -> Said:
        return self.ask(SEND_V2, body, **self.send_fields(topic, queue, properties, **others))

    def pull_fields(
        self, topic: str, queue: int, offset: int, *, tags: str = "*", suspend_ms: int = 0, most: int = 32
    ) -> dict[str, object]:
        flag = SUBSCRIPTION | (SUSPEND if suspend_ms else 0)
        fields = {"consumerGroup": "group", "topic": topic, "queueId": queue, "queueOffset": offset, "maxMsgNums": most}
        more = {"sysFlag": flag, "commitOffset": 0, "suspendTimeoutMillis": suspend_ms, "subVersion": 0, "subscription": tags}
        return {**fields, **more}

    def pull(self, topic: str, queue: int, offset: int, **how: object) -> Said:
        return self.ask(PULL, **self.pull_fields(topic, queue, offset, **how))  # type: ignore[arg-type]


def records(body: bytes) -> list[bytes]:
    """The records of an answer to a pull."""
    found = []
    while body:
        size = int.from_bytes(body[:4], "big")
        found.append(body[:size])
        body = body[size:]
    return found


def body_of(record: bytes) -> bytes:
    """The body of a record of such an answer."""
    read = parse(record)
    assert isinstance(read, Record)
    return bytes(read.body)
