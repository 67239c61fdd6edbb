"""A client that pops, and reads receipts as RocketMQ's Java client does (MQClientAPIImpl.processPopResponse, ExtraInfoUtil)."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

import orbitmq
from tests.actors import test_gateway_holds as holds
from tests.actors.remoting_client import Remote, Said, body_of, records
from tests.actors.shared_broker import OWN_TOPIC
from tests.waiting import until

POP, ACK, CHANGE, NOTIFICATION, POLLING_INFO, BATCH_ACK = 200050, 200051, 200053, 200054, 200055, 200151
SUCCESS, NO_MESSAGE, POLLING_TIMEOUT = 0, 208, 210
TRIES_AT = 72
POLL_MS = 60_000  # a pop that waits is answered by a message, or the test has failed

# the lead serves all pops, wherever their clients are
asleep, counted = partial(holds.asleep, name="gateway"), partial(holds.counted, name="gateway")


class Popped(NamedTuple):
    """A message. receipt: its extra info."""

    body: bytes
    topic: str
    queue: int
    offset: int
    reconsumed: int
    receipt: str


class Popper:
    """One connection, of one group and topic."""

    def __init__(self, listens: str, group: str, topic: str, *, invisible_ms: int = 600_000, **more: object) -> None:
        self.remote = Remote(listens)
        self.group, self.topic, self.invisible_ms = group, topic, invisible_ms
        self._more = more

    def __enter__(self) -> Popper:
        return self

    def __exit__(self, *_: object) -> None:
        self.remote.socket.close()

    def put(self, most: int = 32, poll_ms: int = POLL_MS, *, spoil: bool = False, **more: object) -> int:
        """Asks, and does not wait. spoil: QQ is bytes that are no text. Returns the request's number."""
        fields = self.pop_fields(most, poll_ms, **more)
        if not spoil:
            return self.remote.put(POP, **fields)
        self.remote.socket.sendall(self.remote.frame(POP, **fields).replace(b"QQ", b"\xff\xfe"))
        return -1

    def pop_fields(self, most: int = 32, poll_ms: int = POLL_MS, **more: object) -> dict[str, object]:
        fields = {"consumerGroup": self.group, "topic": self.topic, "queueId": -1, "maxMsgNums": most}
        fields |= {"invisibleTime": self.invisible_ms, "pollTime": poll_ms, "bornTime": int(1000 * time.time()), "initMode": 0}
        return {**fields, "expType": "TAG", "exp": "*", "order": "false", **self._more, **more}

    def notice(self, poll_ms: int = POLL_MS, **more: object) -> dict[str, object]:
        """The fields of a question whether there is a message."""
        place = {"consumerGroup": self.group, "topic": self.topic, "queueId": -1, "pollTime": poll_ms, "bornTime": 0}
        return {**place, **more}

    def has(self, poll_ms: int = POLL_MS, **more: object) -> bool:
        """Whether there is a message."""
        return told(self.remote.ask(NOTIFICATION, **self.notice(poll_ms, **more)))

    def take(self) -> list[Popped]:
        """The answer to a pop that was put."""
        return self.read(self.remote.take())

    def pop(self, most: int = 32, poll_ms: int = POLL_MS, **more: object) -> list[Popped]:
        opaque = self.put(most, poll_ms, **more)
        said = self.remote.take()
        assert said.opaque == opaque
        return self.read(said)

    def read(self, said: Said) -> list[Popped]:
        assert said.code in (SUCCESS, POLLING_TIMEOUT), said
        found = popped(said)
        assert bool(found) == (said.code == SUCCESS)
        return found

    def ack(self, popped: Popped) -> int:
        return self.remote.ask(ACK, **self.fields(popped)).code

    def change(self, popped: Popped, invisible_ms: int) -> tuple[int, Popped]:
        """The code, and the message with its new receipt."""
        said = self.remote.ask(CHANGE, **self.fields(popped), invisibleTime=invisible_ms)
        times = [said.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        words = [str(popped.offset), *times, *popped.receipt.split(" ")[4:]]
        return said.code, popped._replace(receipt=" ".join(words))

    def fields(self, popped: Popped) -> dict[str, object]:
        mark = popped.receipt.split(" ")[4]
        topic = self.topic if mark == "0" else f"%RETRY%{self.group}_{self.topic}"
        place = {"topic": topic, "queueId": popped.queue, "offset": popped.offset}
        return {"consumerGroup": self.group, "extraInfo": popped.receipt, **place}


def told(said: Said) -> bool:
    """Whether there is a message, as the broker has answered."""
    assert (said.code, said.fields["pollingFull"]) == (SUCCESS, "false"), said
    return {"true": True, "false": False}[said.fields["hasMsg"]]


def popped(said: Said) -> list[Popped]:
    """The messages of an answer, with their receipts."""
    found = []
    for record in records(said.body):
        topic, queue, offset, receipt = _place(record)
        tried, fields = int.from_bytes(record[TRIES_AT : TRIES_AT + 4]), said.fields
        if receipt:
            found.append(Popped(body_of(record), topic, queue, offset, tried, receipt))
            continue
        mark = "1" if topic.startswith("%RETRY%") else "0"
        starts = dict(each.rsplit(" ", 1) for each in fields["startOffsetInfo"].split(";"))
        offsets = dict(each.rsplit(" ", 1) for each in fields["msgOffsetInfo"].split(";"))
        assert str(offset) in offsets[f"{mark} {queue}"].split(",")
        words = [starts[f"{mark} {queue}"], *(fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))]
        receipt = " ".join([*words, mark, "broker", str(queue), str(offset)])
        found.append(Popped(body_of(record), topic, queue, offset, tried, receipt))
    return found


def _place(record: bytes) -> tuple[str, int, int, str]:
    """Topic, queue, offset, and the receipt that RocketMQ writes into what it stores again."""
    queue, offset = int.from_bytes(record[12:16]), int.from_bytes(record[20:28])
    at = 84 + 4 + int.from_bytes(record[84:88])
    topic, properties = record[at + 1 : at + 1 + record[at]], record[at + 1 + record[at] + 2 :]
    receipt = [each[7:] for each in properties.split(b"\2") if each.startswith(b"POP_CK\1")]
    return topic.decode(), queue, offset, receipt[0].decode() if receipt else ""


def send(broker: orbitmq.Client, *bodies: bytes, topic: str = OWN_TOPIC, **how: object) -> None:
    with broker.producer() as producer:
        for number, body in enumerate(bodies):
            producer.send(topic, body, queue=number % 4, **how)  # type: ignore[arg-type]


def one(popper: Popper, **how: object) -> Popped:
    """The next message, alone, however long it takes."""
    found: list[Popped] = until(lambda: popper.pop(1, **how), "a message")  # type: ignore[arg-type]
    return found[0]
