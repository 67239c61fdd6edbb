"""A client that pops, and what a broker says to it step by step, in a form in which two brokers can be compared."""

from __future__ import annotations

import base64
import json
import time

from tests.actors.pop_client import ACK, BATCH_ACK, CHANGE, NOTIFICATION, POLLING_INFO, POP, SUCCESS, Popped, Popper, popped
from tests.actors.remoting_client import MAX_OFFSET, Remote, Said
from tests.waiting import until

MAKE_TOPIC = 17
# Of polls that find nothing, that look once more, and that wait for what is to come. RocketMQ 5.3.3 does not wake one for what
# comes again.
SHORT_MS, SOON_MS, LONG_MS = 200, 500, 20_000
REVIVE_QUEUES = 8  # RocketMQ's
NEAR_MS = 60_000


class Visit:
    """One client of one group and topic, both new to the broker. said: by step and part of the answer."""

    def __init__(self, listens: str, case: str, *, queues: int = 1, ordered: bool = False) -> None:
        self.said: dict[str, object] = {}
        self.popper = Popper(listens, f"g-{case}", f"t-{case}", order="true" if ordered else "false")
        self._waiting = Remote(listens)  # whatever has waited there may be answered at any time
        self._remote, self._ordered, self._count = self.popper.remote, ordered, dict.fromkeys(range(queues), 0)
        shape = {"readQueueNums": queues, "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        named = {"topic": self.popper.topic, "defaultTopic": "TBW102", "topicSysFlag": 0, "order": "false"}
        made = self._remote.ask(MAKE_TOPIC, **shape, **named)
        assert made.code == SUCCESS, made

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self._remote.socket.close()
        self._waiting.socket.close()

    def send(self, *bodies: bytes, queue: int = 0, tags: bytes = b"") -> None:
        """Returns when all of it can be popped."""
        properties = b"TAGS\1%s\2" % tags if tags else b""
        for body in bodies:
            sent = self._remote.send(self.popper.topic, body, queue, properties)
            assert sent.code == SUCCESS, sent
        self._count[queue] += len(bodies)
        place = {"topic": self.popper.topic, "queueId": queue}
        until(lambda: self._remote.ask(MAX_OFFSET, **place).fields["offset"] == str(self._count[queue]), "the messages")

    def pop(
        self, step: str, most: int = 32, *, poll_ms: int = SHORT_MS, invisible_ms: int = 60_000, **more: object
    ) -> list[Popped]:
        """One pop, and what a client reads of its answer."""
        fields = self.popper.pop_fields(most, poll_ms, invisibleTime=invisible_ms, **more)
        return self._popped(step, self._remote.ask(POP, **fields))

    def begin(self, code: int, poll_ms: int = LONG_MS) -> int:
        """A pop, or a question whether there is a message, that waits."""
        fields = self.popper.pop_fields(32, poll_ms) if code == POP else self._notice(poll_ms)
        return self._waiting.put(code, **fields)

    def end(self, step: str, opaque: int) -> list[Popped]:
        """The answer to it."""
        said = self._waiting.take()
        assert said.opaque == opaque
        if "hasMsg" not in said.fields:
            return self._popped(step, said)
        self._note(step, said)
        return []

    def gather(self, step: str, count: int, *, most: int = 32, **more: object) -> list[Popped]:
        """So many messages by as many pops as it takes: their bodies, how often they came before, places and receipts."""
        found: list[Popped] = []
        while len(found) < count:
            said = self._remote.ask(POP, **self.popper.pop_fields(most, SOON_MS, **more))
            found += self._read(said) if said.code == SUCCESS else []
        found.sort(key=lambda each: (each.body, each.reconsumed))
        self._tell_messages(step, found)
        return found

    def ack(self, step: str, message: Popped, **more: object) -> None:
        self._note(step, self._remote.ask(ACK, **{**self.popper.fields(message), **more}))

    def ack_all(self, step: str, messages: list[Popped]) -> None:
        """In one body, as Java's client writes it."""
        acks = []
        for each in messages:
            start, moment, invisible, revive, mark = each.receipt.split(" ")[:5]
            bits = base64.b64encode((1 << each.offset - int(start)).to_bytes(16, "little").rstrip(b"\0")).decode()
            place = {"c": self.popper.group, "t": self.popper.topic, "r": mark, "q": each.queue, "so": int(start)}
            acks.append({**place, "rq": int(revive), "pt": int(moment), "it": int(invisible), "b": bits})
        body = json.dumps({"brokerName": "broker", "acks": acks}).encode()
        self._note(step, self._remote.ask(BATCH_ACK, body))

    def change(self, step: str, message: Popped, invisible_ms: int) -> Popped:
        """Returns the message with its new receipt; as it was, if there is none."""
        said = self._remote.ask(CHANGE, **self.popper.fields(message), invisibleTime=invisible_ms)
        self._note(step, said, invisible_ms)
        if said.code != SUCCESS or "popTime" not in said.fields:
            return message
        words = message.receipt.split(" ")
        words[1:4] = [said.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        return message._replace(receipt=" ".join([str(message.offset), *words[1:]]))

    def notified(self, step: str, poll_ms: int = SHORT_MS, **more: object) -> None:
        self._note(step, self._remote.ask(NOTIFICATION, **{**self._notice(poll_ms), **more}))

    def polls(self) -> int:
        """How many pops of no particular queue wait."""
        place = {"consumerGroup": self.popper.group, "topic": self.popper.topic, "queueId": -1}
        return int(self._remote.ask(POLLING_INFO, **place).fields["pollingNum"])

    def refused(self, step: str, code: int, **fields: object) -> None:
        """The code alone: each broker has words of its own."""
        self._tell(step, "code", self._remote.ask(code, **fields).code)

    def _notice(self, poll_ms: int) -> dict[str, object]:
        return self.popper.notice(poll_ms, **({"order": "true"} if self._ordered else {}))

    def _popped(self, step: str, said: Said) -> list[Popped]:
        self._note(step, said)
        self._tell(step, "remark", said.remark)
        if said.code != SUCCESS or "popTime" not in said.fields:
            return []
        found = self._read(said)
        self._tell_messages(step, found)
        return found

    def _read(self, said: Said) -> list[Popped]:
        """As Java's client, which has the number of deliveries of a pop in order from the answer's head."""
        found = popped(said)
        if "orderCountInfo" not in said.fields:
            return found
        counts = dict(each.rsplit(" ", 1) for each in said.fields["orderCountInfo"].split(";") if each)
        read = []
        for each in found:
            mark = each.receipt.split(" ")[4]
            times = counts.get(f"{mark} qo{each.queue}%{each.offset}", counts.get(f"{mark} {each.queue}", "0"))
            read.append(each._replace(reconsumed=int(times) or each.reconsumed))
        return read

    def _tell_messages(self, step: str, found: list[Popped]) -> None:
        self._tell(step, "messages", [(each.body, each.reconsumed) for each in found])
        self._tell(step, "places", list(map(_place, found)))
        words = (each.receipt.split(" ") for each in found)
        self._tell(step, "receipts", {" ".join("number" if word.isdecimal() else word for word in each) for each in words})

    def _note(self, step: str, said: Said, asked_ms: int = 0) -> None:
        self._tell(step, "code", said.code)
        for name, value in said.fields.items():
            self._tell(step, name, self._form(name, value, asked_ms))

    def _form(self, name: str, value: str, asked_ms: int) -> str:
        """What differs from run to run, by its form."""
        if name == "popTime" and abs(int(value) - 1000 * time.time()) < NEAR_MS:
            return "now, in ms"
        if name == "invisibleTime" and self._ordered and asked_ms <= int(value) < asked_ms + NEAR_MS and asked_ms:
            return "as asked, from the pop on"
        if name == "reviveQid" and not self._ordered and int(value) in range(REVIVE_QUEUES):
            return "a number below 8"
        return value

    def _tell(self, step: str, part: str, value: object) -> None:
        assert f"{step}: {part}" not in self.said, f"two steps are named {step!r}"
        self.said[f"{step}: {part}"] = value


def _place(message: Popped) -> tuple[str, str, int, int]:
    """Topic, mark of the topic in the receipt, queue and offset."""
    return message.topic, message.receipt.split(" ")[4], message.queue, message.offset
