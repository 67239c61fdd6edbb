"""Requests as RocketMQ's own classes write them, one after the other, and what RocketMQ's broker and name server answered.

known_exchanges.json has the bytes of each request, in both forms of headers, and each answer. It was recorded with the
RocketMQ of tests/interop/judge/pom.xml; tests/interop/test_known_exchanges.py asks again. What is asked stands in
known_requests.py; here is how it is written down: without what differs from run to run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.store.commit_log import record as records_on_disk
from tests.actors.remoting_client import Remote, Said, records
from tests.native import remoting_model as model
from tests.native.remoting_model import BINARY, JSON
from tests.waiting import until

ANSWERS = Path(__file__).with_name("known_exchanges.json")
NAMES, BROKER = "name server", "broker"
SAID = "nobody"  # it is not asked: only what is written counts
OPAQUE = 7
FORMS = {"JSON": JSON, "ROCKETMQ": BINARY}
CLIENT = "10.0.0.1@known"
BORN_MS = 1_700_000_000_123
OWN = ("CLUSTER", "__CRC32#", "WAIT")  # properties that one of the brokers adds, or leaves in batches
RECORDS = (11, 12, 33)  # codes whose bodies are records
ENOUGH = 1_400_000_000_000
PLACES = {"physicOffset", "physicSize", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset", "msgId"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """header: RocketMQ's class, below its package of headers; without a name the request has no fields. body_class: likewise of
    a body, which is told as JSON. waits: the request is repeated until the answer has this code; offset: until it names this
    one. only: "keys": of the body these are compared alone; "names": of the answer the names of its fields."""

    name: str
    whom: str
    code: int
    header: str = ""
    fields: dict[str, object] = field(default_factory=dict)
    body: bytes = b""
    body_class: str = ""
    waits: int | None = None
    offset: str = ""
    only: str | None = None


def as_json(**told: object) -> bytes:
    return json.dumps(told).encode()


def topic(name: str, queues: int = 2, perm: int = 6) -> dict[str, object]:
    fixed = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
    return {"topic": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": perm, **fixed}


def sent(name: str = "orders", queue: int = 1, properties: str = "", **others: object) -> dict[str, object]:
    """The fields of a send, in the short form."""
    fixed = {"a": "desk", "c": "TBW102", "d": 4, "f": 0, "g": BORN_MS, "h": 3, "j": 0, "k": False, "m": False}
    return {"b": name, "e": queue, "i": properties or None, **fixed, **others}


def pulled(name: str = "orders", queue: int = 1, offset: int = 0, **others: object) -> dict[str, object]:
    fixed = {"consumerGroup": "readers", "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0}
    more = {"subscription": "*", "subVersion": BORN_MS, "expressionType": "TAG"}
    return {"topic": name, "queueId": queue, "queueOffset": offset, **fixed, **more, **others}


def answer(said: Said, code: int, only: str | None) -> dict[str, Any]:
    """What is compared of it. RocketMQ's words for an answer that says nothing are no words, and behind some of its remarks it
    names the address of its questions and answers."""
    remark = None if said.remark == "not set any response code" else said.remark
    told: dict[str, Any] = {"code": said.code, "remark": None if remark is None else plain(remark.partition("\n")[0]).strip()}
    told["fields"] = {name: "..." if name in PLACES and value != "0" else _time(value) for name, value in said.fields.items()}
    if only == "names":
        told["fields"] = sorted(said.fields)
    elif said.body and said.code == 0:
        told["body"] = [shown(each) for each in records(said.body)] if code in RECORDS else read(said.body, only)
    return told


def shown(data: bytes) -> dict[str, Any]:
    """A record."""
    found = records_on_disk.parse(data)
    assert isinstance(found, records_on_disk.Record)
    names = ("queue_id", "queue_offset", "flag", "sys_flag", "born_ms", "reconsume_times", "topic", "body_crc")
    kept = {name: value for name, value in found.properties.items() if name not in OWN}
    return {**{name: getattr(found, name) for name in names}, "body": bytes(found.body).decode(), "properties": kept}


def read(body: bytes, only: str | None) -> Any:
    """A body: JSON, whose keys may be numbers or queues; or a text of settings."""
    text = plain(body.decode())
    if not text.startswith("{"):
        return sorted(line.partition("=")[0] for line in text.splitlines() if "=" in line)
    text = re.sub(r"(?<=[{,])(\{[^{}]*\})(?=:)", lambda found: json.dumps(_queue(found[1])), text)
    told = _same(json.loads(re.sub(r"(?<=[{,])(\d+)(?=:)", r'"\1"', text)))
    return sorted(told) if only == "keys" else told


def _queue(text: str) -> str:
    told = json.loads(text)
    return f"{told['topic']}/{told['queueId']} at {told['brokerName']}"


def plain(text: str) -> str:
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)


def _time(text: str) -> str:
    return "TIME" if text.isdecimal() and int(text) > ENOUGH else text


def _same(told: Any) -> Any:
    """Without times and places; lists, which have no order in Java's sets, in order."""
    if isinstance(told, dict):
        return {name: "..." if name in PLACES else _same(value) for name, value in told.items()}
    if isinstance(told, list):
        return sorted((_same(each) for each in told), key=repr)
    return "TIME" if isinstance(told, int) and told > ENOUGH else told


def frame_of(recorded: dict[str, str], form: str) -> bytes:
    """A request. What is recorded of it: its header as JSON, its header in the binary form in hexadecimal, and its body."""
    head = recorded["JSON"].encode() if form == "JSON" else bytes.fromhex(recorded["ROCKETMQ"])
    return model.frame(FORMS[form], head, recorded["body"].encode("latin-1"))


def recorded(frames: Mapping[str, bytes]) -> dict[str, str]:
    """What is written down of a request, by form."""
    (_, text, body), (_, binary, same) = model.split(frames["JSON"]), model.split(frames["ROCKETMQ"])
    assert body == same
    found = {"JSON": text.decode(), "ROCKETMQ": binary.hex(), "body": body.decode("latin-1")}
    assert all(frame_of(found, form) == frame for form, frame in frames.items())
    return found


def ask(remotes: Mapping[str, Remote], exchange: Exchange, frame: bytes) -> dict[str, Any]:
    """The answer, as it is written down."""

    def once() -> Said | None:
        remote = remotes[exchange.whom]
        remote.socket.sendall(frame)
        said = remote.answered()
        assert said.opaque == OPAQUE
        ready = exchange.waits in (None, said.code) and exchange.offset in ("", said.fields.get("offset"))
        return said if ready else None

    return answer(until(once, exchange.name), exchange.code, exchange.only)
