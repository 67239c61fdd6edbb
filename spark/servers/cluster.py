"""Topics, queues and messages of a cluster, as its name servers and brokers tell over TCP. A request that meets a closed
connection, nobody or a busy broker is made again for as long as the option timeout allows: all of them only read, but for a
send, which is made once."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orbitmq.spark.servers import failures
from orbitmq.spark.servers.connection import Answer, Connection, DamagedError
from orbitmq.spark.servers.failures import Patience
from orbitmq.spark.servers.route import STRIDE, Holder, Route
from orbitmq.spark.servers.servers import Servers
from orbitmq.store.settings.listen_address import ListenAddress

PULL, CONFIG, RUNTIME, OFFSET_AT, MAX_OFFSET, MIN_OFFSET, ROUTE, TOPICS = 11, 26, 28, 29, 30, 31, 105, 206
SUCCESS, ERROR, BUSY, UNAVAILABLE, NO_TOPIC = 0, 1, 2, 14, 17
NOT_FOUND, AGAIN, MOVED = 19, 20, 21
SUBSCRIPTION = 4  # flag of a pull that brings its own subscription, so that its group needs no heartbeat
GROUP = "TOOLS_CONSUMER"  # every RocketMQ broker knows it; nothing is committed for it
AT_ONCE = 1024  # messages wanted of a pull; brokers give fewer
_NAMES = {
    PULL: "a pull",
    CONFIG: "the settings",
    RUNTIME: "the state",
    OFFSET_AT: "the offset at a time",
    MAX_OFFSET: "a maximum offset",
    MIN_OFFSET: "a minimum offset",
    ROUTE: "a route",
    TOPICS: "the topics",
}
_BARE_KEY = re.compile(r"([{,])(-?\d+):")  # as RocketMQ writes the keys of maps by number


@dataclass(frozen=True, slots=True)
class Place:
    """A queue on its broker."""

    holder: Holder
    topic: str
    queue: int

    @property
    def address(self) -> ListenAddress:
        return self.holder.address


@dataclass(frozen=True, slots=True)
class Pulled:
    """next: the offset to go on with. minimum, maximum: what the queue holds now."""

    code: int
    next: int
    minimum: int
    maximum: int
    records: bytes


class Cluster:
    """One thread at a time may use it.

    Every call raises: TimedOut: nobody gave an answer for as long as `servers` allows. ProtocolError: the answer is damaged, or
    refuses.
    """

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._names = servers.addresses
        self._open: dict[ListenAddress, Connection] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def patience(self) -> Patience:
        return Patience(self.servers.timeout)

    def topics(self) -> list[str]:
        content = self._read(self._ask(self._names, TOPICS, {}), TOPICS)
        return sorted(str(name) for name in content.get("topicList") or [])

    def route(self, topic: str) -> Route | None:
        """None: there is no such topic, or none that can be used."""
        answer = self._ask(self._names, ROUTE, {"topic": topic}, topic, [NO_TOPIC])
        if answer.code == NO_TOPIC:
            return None
        content = self._read(answer, ROUTE)
        try:
            found = Route.of(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise failures.damaged(_NAMES[ROUTE], self._names, f"it is no route: {error!r}", topic) from None
        return found if found.holders else None

    def place(self, topic: str, partition: int, order: Sequence[str]) -> Place | None:
        """Waits for a broker that is not in the route for the moment. None: there is no such topic.

        Raises: TimedOut: its broker does not come back.
        """
        patience = self.patience()
        position, queue = divmod(partition, STRIDE)
        while True:
            route = self.route(topic)
            if route is None:
                return None
            names = order or sorted(route.holders)
            if len(names) == len(route.holders) == 1:
                names = list(route.holders)  # the only one, which has another name after a start if nobody gave it one
            name = names[position] if position < len(names) else ""
            if name in route.holders:
                return Place(route.holders[name], topic, queue)
            if patience.over():
                why = f"broker {name!r}, which has partition {partition}, is not in it"
                raise failures.silent(_NAMES[ROUTE], self._names, why, topic, self.servers.timeout)

    def bounds(self, place: Place) -> tuple[int, int]:
        """The offsets [minimum, maximum) that a queue holds."""
        least, most = (self._offset(place, code) for code in (MIN_OFFSET, MAX_OFFSET))
        return min(least, most), most

    def maximum(self, place: Place) -> int:
        return self._offset(place, MAX_OFFSET)

    def offset_at(self, place: Place, moment_ms: int) -> int:
        """Near the first message that was stored then or later: brokers differ in how near."""
        return self._offset(place, OFFSET_AT, timestamp=moment_ms)

    def pull(self, place: Place, offset: int, most: int = AT_ONCE) -> Pulled:
        """Messages from an offset on, as they are stored; for nobody, so nothing is committed."""
        fields: dict[str, object] = {
            "consumerGroup": GROUP,
            "topic": place.topic,
            "queueId": place.queue,
            "queueOffset": offset,
            "maxMsgNums": most,
            "sysFlag": SUBSCRIPTION,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        }
        answer = self._ask([place.address], PULL, fields, place.topic, [NOT_FOUND, AGAIN, MOVED])
        after, least, most_held = (
            self._field(answer, name, PULL, place) for name in ("nextBeginOffset", "minOffset", "maxOffset")
        )
        return Pulled(answer.code, after, least, most_held, answer.body)

    def settings(self, address: ListenAddress) -> dict[str, str]:
        """Of a broker: names and values."""
        lines = self._ask([address], CONFIG, {}).body.decode(errors="replace").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def state(self, address: ListenAddress) -> dict[str, str] | None:
        """Of a broker: what `brokerStatus` shows. None: it does not say so yet, as RocketMQ's in its first second."""
        answer = self._ask([address], RUNTIME, {}, None, [ERROR])
        if answer.code == ERROR and "NoSuchElementException" in answer.remark:
            return None
        if answer.code == ERROR:
            raise failures.refused(_NAMES[RUNTIME], address, f"code {answer.code}, {answer.remark!r}", None, answer.code)
        content = self._read(answer, RUNTIME)
        found = content.get("table")
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def once(self, address: ListenAddress, code: int, fields: dict[str, object], body: bytes) -> Answer:
        """A request that is made once, whatever its answer. Raises: OSError: whether it was done is not known; DamagedError."""
        try:
            return self._connection(address, self.servers.timeout).ask(code, fields, self.servers.timeout, body)
        except (OSError, DamagedError):
            self.drop(address)
            raise

    def drop(self, address: ListenAddress) -> None:
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def _connection(self, address: ListenAddress, timeout: float) -> Connection:
        if address not in self._open:
            self._open[address] = Connection(address, self.servers, timeout)
        return self._open[address]

    def _offset(self, place: Place, code: int, **more: object) -> int:
        answer = self._ask([place.address], code, {"topic": place.topic, "queueId": place.queue, **more}, place.topic)
        return self._field(answer, "offset", code, place)

    def _field(self, answer: Answer, name: str, code: int, place: Place) -> int:
        text = answer.fields.get(name, "")
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise failures.damaged(_NAMES[code], [place.address], f"it has {name} = {text!r}", place.topic)
        return max(0, int(text))

    def _read(self, answer: Answer, code: int) -> dict[str, Any]:
        text = answer.body.decode(errors="replace")
        for each in (text, _BARE_KEY.sub(r'\1"\2":', text)):
            with suppress(ValueError, RecursionError):
                found = json.loads(each)
                if isinstance(found, dict):
                    return found
        raise failures.damaged(_NAMES[code], self._names, "its body is no JSON object")

    def _ask(
        self,
        addresses: Sequence[ListenAddress],
        code: int,
        fields: dict[str, object],
        topic: str | None = None,
        also: Sequence[int] = (),
    ) -> Answer:
        """The answer of the first address that gives one, with success or a code of `also`."""
        patience = self.patience()
        attempt = 0
        why = ""
        while True:
            address = addresses[attempt % len(addresses)]
            try:
                answer = self._connection(address, patience.left).ask(code, fields, patience.left)
                if answer.code == SUCCESS or answer.code in also:
                    return answer
                why = f"code {answer.code}, {answer.remark!r}"
                if answer.code not in (BUSY, UNAVAILABLE):
                    raise failures.refused(_NAMES[code], address, why, topic, answer.code)
            except ssl.SSLCertVerificationError as error:
                raise failures.not_believed(_NAMES[code], address, error.verify_message, topic) from None
            except OSError as error:
                self.drop(address)
                if not (why and isinstance(error, TimeoutError)):  # that the time is over says less than the last answer
                    why = str(error) or type(error).__name__
            except DamagedError as error:
                self.drop(address)
                raise failures.damaged(_NAMES[code], [address], str(error), topic) from None
            attempt += 1
            if attempt % len(addresses) == 0 and patience.over():
                raise failures.silent(_NAMES[code], addresses, why, topic, self.servers.timeout)
