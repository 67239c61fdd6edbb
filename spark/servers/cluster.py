"""Topics, queues and messages of a cluster, as its name servers and brokers tell over TCP. A request that meets a closed
connection, nobody or a busy broker is made again for as long as the option timeout allows: all of them only read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orbitmq.errors import ProtocolError, SettingError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.spark.servers.connection import Answer, Connection, DamagedError
from orbitmq.store.listen_address import ListenAddress, listen_address, server_addresses

PULL, MAX_OFFSET, MIN_OFFSET, ROUTE, TOPICS = 11, 30, 31, 105, 206
SUCCESS, BUSY, UNAVAILABLE, NO_TOPIC = 0, 2, 14, 17
NOT_FOUND, AGAIN, MOVED = 19, 20, 21
SUBSCRIPTION = 4  # flag of a pull that brings its own subscription, so that its group needs no heartbeat
GROUP = "TOOLS_CONSUMER"  # every RocketMQ broker knows it; nothing is committed for it
AT_ONCE = 1024  # messages wanted of a pull; brokers give fewer
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)
_NAMES = {
    PULL: "a pull",
    MAX_OFFSET: "a maximum offset",
    MIN_OFFSET: "a minimum offset",
    ROUTE: "a route",
    TOPICS: "the topics",
}
_BARE_KEY = re.compile(r"([{,])(-?\d+):")  # as RocketMQ writes the keys of maps by number


@dataclass(frozen=True, slots=True)
class Route:
    """The broker that has a topic, and how many queues it has."""

    address: ListenAddress
    queues: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """next: the offset to go on with. minimum, maximum: what the queue holds now."""

    code: int
    next: int
    minimum: int
    maximum: int
    records: bytes


class Patience:
    """Lets pass the time that somebody may need to come back, with longer and longer pauses. seconds: of all of them."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pauses = 0

    @property
    def left(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def over(self) -> bool:
        """False after another pause."""
        pause = min(PAUSES_S[min(self._pauses, len(PAUSES_S) - 1)], self._deadline - time.monotonic())
        if pause <= 0:
            return True
        self._pauses += 1
        time.sleep(pause)
        return False


class Cluster:
    """servers: addresses of name servers, or of OrbitMQ's gateway, between semicolons. timeout: seconds for which a request is
    made again. One thread at a time may use it.

    Every call raises: TimedOut: nobody gave an answer for that long. ProtocolError: the answer is damaged, or refuses.
    """

    def __init__(self, servers: str, timeout: float) -> None:
        self._servers = server_addresses(servers)
        self._timeout = timeout
        self._open: dict[ListenAddress, Connection] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def patience(self) -> Patience:
        return Patience(self._timeout)

    def topics(self) -> list[str]:
        content = self._read(self._ask(self._servers, TOPICS, {}), TOPICS)
        return sorted(str(name) for name in content.get("topicList") or [])

    def route(self, topic: str) -> Route | None:
        """None: there is no such topic. Raises: SettingError: several brokers have queues of it."""
        answer = self._ask(self._servers, ROUTE, {"topic": topic}, topic, [NO_TOPIC])
        if answer.code == NO_TOPIC:
            return None
        content = self._read(answer, ROUTE)
        try:
            queues = {data["brokerName"]: int(data["readQueueNums"]) for data in content["queueDatas"]}
            brokers = {data["brokerName"]: dict(data["brokerAddrs"]) for data in content["brokerDatas"]}
            having = [name for name, count in queues.items() if count and brokers.get(name)]
            if len(having) > 1:
                raise _several(topic, having)
            if not having:
                return None
            addresses = {int(number): str(address) for number, address in brokers[having[0]].items()}
            address = listen_address(addresses[min(addresses)])  # 0 is the master
        except SettingError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(ROUTE, self._servers, f"it is no route: {error!r}", topic) from None
        if address is None:
            raise _damaged(ROUTE, self._servers, "it names no address", topic)
        return Route(address, queues[having[0]])

    def bounds(self, route: Route, topic: str, queue: int) -> tuple[int, int]:
        """The offsets [minimum, maximum) that a queue holds."""
        least, most = (self._offset(route, code, topic, queue) for code in (MIN_OFFSET, MAX_OFFSET))
        return min(least, most), most

    def pull(self, route: Route, topic: str, queue: int, offset: int, most: int = AT_ONCE) -> Pulled:
        """Messages from an offset on, as they are stored; for nobody, so nothing is committed."""
        fields: dict[str, object] = {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": queue,
            "queueOffset": offset,
            "maxMsgNums": most,
            "sysFlag": SUBSCRIPTION,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        }
        answer = self._ask([route.address], PULL, fields, topic, [NOT_FOUND, AGAIN, MOVED])
        after, least, most_held = (
            self._field(answer, name, PULL, route, topic) for name in ("nextBeginOffset", "minOffset", "maxOffset")
        )
        return Pulled(answer.code, after, least, most_held, answer.body)

    def _offset(self, route: Route, code: int, topic: str, queue: int) -> int:
        answer = self._ask([route.address], code, {"topic": topic, "queueId": queue}, topic)
        return self._field(answer, "offset", code, route, topic)

    def _field(self, answer: Answer, name: str, code: int, route: Route, topic: str) -> int:
        text = answer.fields.get(name, "")
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise _damaged(code, [route.address], f"it has {name} = {text!r}", topic)
        return max(0, int(text))

    def _read(self, answer: Answer, code: int) -> dict[str, Any]:
        text = answer.body.decode(errors="replace")
        for each in (text, _BARE_KEY.sub(r'\1"\2":', text)):
            with suppress(ValueError, RecursionError):
                found = json.loads(each)
                if isinstance(found, dict):
                    return found
        raise _damaged(code, self._servers, "its body is no JSON object")

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
        while True:
            address = addresses[attempt % len(addresses)]
            why = ""
            try:
                if address not in self._open:
                    self._open[address] = Connection(address, patience.left)
                answer = self._open[address].ask(code, fields, patience.left)
                if answer.code == SUCCESS or answer.code in also:
                    return answer
                why = f"code {answer.code}, {answer.remark!r}"
                if answer.code not in (BUSY, UNAVAILABLE):
                    raise _refused(code, address, why, topic, answer.code)
            except OSError as error:
                self._drop(address)
                why = str(error) or type(error).__name__
            except DamagedError as error:
                self._drop(address)
                raise _damaged(code, [address], str(error), topic) from None
            attempt += 1
            if attempt % len(addresses) == 0 and patience.over():
                raise _silent(code, addresses, why, topic, self._timeout)

    def _drop(self, address: ListenAddress) -> None:
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()


def _what(code: int, addresses: Sequence[ListenAddress], topic: str | None) -> str:
    of = f" of topic {topic!r}" if topic else ""
    return f"could not get {_NAMES[code]}{of} from {', '.join(map(str, addresses))} of option servers"


def _silent(code: int, addresses: Sequence[ListenAddress], why: str, topic: str | None, timeout: float) -> TimedOut:
    return TimedOut(
        f"{_what(code, addresses, topic)} within {timeout:g} s: {why}",
        hint=hint("give another address in {servers of spark} || wait longer with {timeout of spark}"),
        timeout=timeout,
        topic=topic,
        operation=_NAMES[code],
        option="timeout",
    )


def _damaged(code: int, addresses: Sequence[ListenAddress], why: str, topic: str | None = None) -> ProtocolError:
    return ProtocolError(
        f"{_what(code, addresses, topic)}: the answer is damaged: {why}",
        hint=hint("{servers of spark} names a server of RocketMQ's protocol, such as OrbitMQ's gateway"),
        operation=_NAMES[code],
        topic=topic,
    )


def _refused(code: int, address: ListenAddress, why: str, topic: str | None, number: int) -> ProtocolError:
    text = f"{_what(code, [address], topic)}: it answers {why}"
    return ProtocolError(text, operation=_NAMES[code], topic=topic, code=number)


def _several(topic: str, brokers: Sequence[str]) -> SettingError:
    return SettingError(
        f"cannot read topic {topic!r}: {len(brokers)} brokers have queues of it, {', '.join(sorted(brokers))}, and a queue "
        "has to have one number",
        hint="give in option servers the address of a name server that knows one of them",
        option="servers",
        value=topic,
    )
