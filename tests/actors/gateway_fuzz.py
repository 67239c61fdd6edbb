"""Requests of every kind with any content,
    for the gateway: whole frames whose fields and bodies are wrong in every way that a
generator can think of, and frames whose bytes are changed.

    python -m tests.actors.gateway_fuzz --count 10000000 --seed 7
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orbitmq
from tests.actors.gateway_asked import Asked
from tests.actors.remoting_client import HEARTBEAT, Remote, damaged
from tests.native.remoting_model import BINARY, FIELDS_MAX, JSON
from tests.trees import actors, indexed, small_broker

TOPICS = (
    "t",
    "u",
    "%RETRY%g",
    "%DLQ%g",
    "TBW102",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "none",
    "",
    "a b",
    "x" * 300,
    "\0",
    "é",
)
GROUPS = ("g", "group", "CID_RMQ_SYS_X", "", "x" * 300, "a\tb", "%RETRY%g")
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    15,
    -1,
    -2,
    255,
    65_535,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 32,
    (1 << 63) - 1,
    -(1 << 63),
    1 << 64,
    10**30,
)
WORDS = (
    "",
    "true",
    "false",
    "*",
    "a || b",
    "TAG",
    "SQL92",
    "price > 1",
    "price >",
    "127.0.0.1:1",
    "[::1]:7",
    "0x1",
    "1e3",
    " 1",
    "NaN",
    "\ud800",
)
TEXT_FIELDS = {
    "topic": TOPICS, "b": TOPICS, "consumerGroup": GROUPS, "producerGroup": GROUPS, "group": GROUPS, "groupName": GROUPS,
        "a": GROUPS,
    "c": TOPICS, "defaultTopic": TOPICS, "clientID": ("1@a", "", "x" * 300), "clientGroup": GROUPS, "srcGroup": GROUPS,
    "destGroup": GROUPS, "originTopic": TOPICS, "subscription": WORDS, "expressionType": WORDS, "transactionId": ("",
    "0A", "z" * 64),
    "msgId": ("", "0" * 32, "7F00000100002A9F0000000000000000", "g" * 32), "offsetMsgId": ("", "0" * 32),
    "originMsgId": ("", "0" * 32),
    "key": ("k", "", "x" * 5000), "brokerAddr": WORDS, "brokerName": WORDS, "namespace": WORDS, "topicFilterType": WORDS,
    "isForce": WORDS,
    "properties": ("KEYS\1k\2TAGS\1t", "\1\2\1\2", "A\1" * 9, "DELAY\x019\2", "TRAN_MSG\1true\2PGROUP\1g", "x" * 40_000,
    "WAIT\1no", "MSG_TYPE\1reply\2"),
    "i": ("KEYS\1k\2", "\2\2\2", "UNIQ_KEY\1" + "9" * 90, "DELAY\x0118\2", "TRAN_MSG\1true\2PGROUP\1g",
    "RETRY_TOPIC\1t\2MAX_RECONSUME_TIMES\0013\2"),
    "exp": WORDS, "expType": WORDS, "extraInfo": ("0 1 60000 1 0 b 0 0", "0 1 60000 1 1 b 0 0", "0 1", " ", "", "a b c d e f"),
    "invisibleTime": ("600000", "0", "-1", "9" * 30, "x"),  # nothing comes again while it runs
}  # fmt: skip
NUMBER_FIELDS = (
    "queueId", "e", "d", "f", "g", "h", "j", "k", "l", "m", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
    "suspendTimeoutMillis",
    "subVersion", "offset", "committed", "timestamp", "beginTimestamp", "endTimestamp", "maxNum", "delayLevel",
    "maxReconsumeTimes", "consumeRetryTimes",
    "commitOrRollback", "tranStateTableOffset", "commitLogOffset", "fromTransactionCheck", "readQueueNums",
    "writeQueueNums", "perm", "topicSysFlag",
    "defaultTopicQueueNums", "bornTimestamp", "flag", "reconsumeTimes", "unitMode", "batch", "order", "index", "count",
    "storeTimestamp", "pollTime", "initMode",
)  # fmt: skip
CODES = (
    10, 11, 12, 14, 15, 17, 25, 26, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 45, 46, 61, 101, 103,
    104, 105, 106, 200, 201, 202,
    203, 204, 205, 206, 207, 208, 215, 216, 217, 218, 219, 220, 221, 222, 223, 224, 225, 226, 227, 228, 229, 230, 300,
    301, 302, 303, 304, 305,
    306, 307, 308, 309, 310, 311, 312, 313, 314, 315, 316, 317, 318, 319, 320, 321, 322, 323, 324, 325, 326, 327, 328,
    329, 351, 361, 400, 401, 200_050, 200_051, 200_053, 200_151,
)  # fmt: skip
BODIES: tuple[dict[str, Any], ...] = (
    {"brokerName": "b", "acks": [{"c": "g", "t": "t", "r": "0", "so": 0, "q": 0, "rq": 1, "pt": 1, "it": 1, "b": "/w=="}]},
    {"topic": "t", "consumerGroup": "g", "clientId": "1@a", "strategyName": "AVG", "messageModel": "CLUSTERING", "mode": "POP"},
    {"clientID": "1@a", "producerDataSet": [{"groupName": "g"}], "consumerDataSet": [
        {"groupName": "g", "messageModel": "CLUSTERING", "consumeType": "CONSUME_PASSIVELY",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
         "subscriptionDataSet": [{"topic": "t", "subString": "*", "expressionType": "TAG", "tagsSet": [], "codeSet": [],
         "subVersion": 1}]}]},
    {"consumerGroup": "g", "clientId": "1@a", "mqSet": [{"topic": "t", "brokerName": "b", "queueId": 0}]},
    {"clientId": "1@a", "group": "g", "subscriptionData": {"topic": "t", "subString": "a", "expressionType": "SQL92"}},
    {"groupName": "g", "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0},
    {"topicConfigTable": {"t": {"topicName": "t", "readQueueNums": 4}}, "dataVersion": {"counter": 1, "timestamp": 2}},
    {"offsetTable": {"{\"topic\":\"t\",\"queueId\":0}": 1}},
)  # fmt: skip
SEND_FIELDS = (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag",
    "properties", "batch",
)  # fmt: skip
AT_ONCE = 40


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def heap(self, remote: Remote) -> bytes:
        """Many frames, of which the last one may be damaged: what follows such a one is never read."""
        frames = [self._request(remote) for _ in range(AT_ONCE)]
        if self._random.random() < 0.5:
            frames[-1] = damaged(self._random, frames[-1])
        return b"".join(frames)

    def _request(self, remote: Remote) -> bytes:
        draw = self._random
        code = draw.choice(CODES) if draw.random() < 0.98 else draw.randrange(-(1 << 31), 1 << 31)
        remote.form = draw.choice((JSON, BINARY))
        if draw.random() < 0.2:
            return self._send(remote)
        if draw.random() < 0.6:  # nearly what it should be
            fields: dict[str, object] = {name: draw.choice(values[:2]).encode() for name, values in TEXT_FIELDS.items()}
            fields |= {name: draw.choice((0, 1, 2, 4)) for name in draw.sample(NUMBER_FIELDS, FIELDS_MAX - len(fields))}
            for name in draw.sample(list(fields), draw.choice((0, 0, 1, 3))):
                fields[name] = self._text(draw.choice(TEXT_FIELDS[name])) if name in TEXT_FIELDS else self._number()
        else:
            fields = {name: self._text(draw.choice(values)) for name, values in self._some(list(TEXT_FIELDS.items()))}
            fields |= {name: self._number() for name in self._some(list(NUMBER_FIELDS))}
        return remote.frame(
            code if remote.form == JSON else code & 0x7FFF, self._body(), mark=draw.choice((0, 0, 0, 2, 1)), **fields
        )

    def _send(self, remote: Remote) -> bytes:
        """One that is good, or nearly, and so is mostly stored: other requests delete topics all the time."""
        draw = self._random
        short, batch = draw.random() < 0.7, draw.random() < 0.3
        named = "abcdefghim" if short else SEND_FIELDS
        values = ("g", draw.choice("tu"), "TBW102", 4, draw.choice((0, 0, 1, -1)), draw.choice((0, 0, 0, 1, 4)), 5, 7)
        kept: list[object] = [*values, draw.choice(TEXT_FIELDS["i"][:4]).encode(), b"true" if batch else b"false"]
        if draw.random() < 0.2:
            kept[draw.randrange(len(kept))] = draw.choice((self._number, lambda: self._text(draw.choice(TOPICS))))()
        bodies = [draw.randbytes(draw.choice((0, 1, 8, 300))) for _ in range(draw.randrange(1, 4) if batch else 1)]
        body = b"".join(_entry(each) for each in bodies) if batch else bodies[0]
        code = (320 if batch else 310) if short else 10
        return remote.frame(code, body, mark=draw.choice((0, 0, 2)), **dict(zip(named, kept, strict=True)))

    def _some(self, of: list[Any]) -> list[Any]:
        """Few of them, or nearly all."""
        draw = self._random
        return draw.sample(of, draw.choice((0, 2, 5, len(of) // 2, len(of) * 9 // 10)))[:28]

    def _text(self, text: str) -> object:
        draw = self._random
        data = text.encode(errors="surrogatepass")
        return bytes(draw.randrange(256) for _ in range(draw.randrange(20))) if draw.random() < 0.05 else data

    def _number(self) -> object:
        draw = self._random
        return draw.choice(WORDS).encode(errors="surrogatepass") if draw.random() < 0.1 else draw.choice(NUMBERS)

    def _body(self) -> bytes:
        draw = self._random
        kind = draw.random()
        if kind < 0.2:
            return b""
        if kind < 0.7:
            return json.dumps(self._wrong(draw.choice(BODIES), 0.15 if kind < 0.5 else 0.0)).encode()
        if kind < 0.8:
            return bytes(draw.randrange(256) for _ in range(draw.randrange(64)))
        if kind < 0.95:  # messages of a batch
            return b"".join(self._in_batch() for _ in range(draw.randrange(5)))
        return draw.choice(
            (
                b"[",
                b"{}",
                b"[]",
                b"null",
                b"1",
                b'"x"',
                b"[" * 3000,
                b'{"a":' * 2000,
                b"#" * 100,
                b"{" + b'"a":1,' * 999 + b'"b":2}',
            )
        )

    def _in_batch(self) -> bytes:
        draw = self._random
        properties, body = draw.choice((b"", b"KEYS\1k\2", b"\1\1\2")), bytes(draw.randrange(9))
        content = (
            struct.pack(">IIII", draw.choice((0, 0, 7, 1 << 31)), 0, 0, draw.choice((len(body), len(body), 1 << 30))) + body
        )
        content += struct.pack(">H", draw.choice((len(properties), len(properties), 65_535))) + properties
        return struct.pack(">I", draw.choice((4 + len(content), 4 + len(content), 0, 3, 1 << 31))) + content

    def _wrong(self, value: Any, share: float) -> Any:
        """The value with some parts replaced."""
        draw = self._random
        if draw.random() < share:
            return draw.choice(
                (
                    None,
                    0,
                    -1,
                    1 << 70,
                    1.5,
                    "",
                    "x",
                    True,
                    [],
                    {},
                    [[]],
                    [None],
                    {"a": None},
                    draw.choice(TOPICS).encode("utf-8", "ignore").decode(),
                )
            )
        if isinstance(value, dict):
            return {key: self._wrong(each, share) for key, each in value.items() if draw.random() > share / 3}
        if isinstance(value, list):
            return [self._wrong(each, share) for each in value for _ in range(draw.choice((1, 1, 1, 2)))]
        return value


def _entry(body: bytes) -> bytes:
    """A message of a batch."""
    content = struct.pack(">IIII", 0, 0, 0, len(body)) + body + bytes(2)
    return struct.pack(">I", 4 + len(content)) + content


def run(broker: orbitmq.Broker, generator: Generator, asked: Asked, count: int) -> Counter[str]:
    """Sends so many requests, a heap a connection, and reads all that is answered up to the connection's end. Raises:
    AssertionError: a good request was not answered behind them, the gateway has died, or something is stored that nobody has
    asked for."""
    told = Counter[str]()
    listens, pid = broker.status().listens, actors(broker)["gateway"].pid
    while told["sent"] < count:
        with Remote(listens) as remote:
            heap = generator.heap(remote)
            remote.form = JSON
            heap += remote.frame(HEARTBEAT, b"{}")
            asked.note(heap)
            try:
                remote.socket.sendall(heap)
                remote.socket.shutdown(socket.SHUT_WR)
                while True:
                    told[f"answer {remote.next_one().code}"] += 1
            except TimeoutError:
                raise
            except OSError:
                pass
        told["sent"] += AT_ONCE
        assert actors(broker)["gateway"].pid == pid, "the gateway has died"
    with Remote(listens) as remote:
        assert remote.ask(HEARTBEAT, b"{}").code == 0
    indexed(broker)
    told["stored"] = asked.judge(Path(broker.status().store))
    return told


def resident(pid: int) -> int:
    """Bytes of memory that the process has for itself."""
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in fields if line.startswith("Private")) << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, small_broker(Path(folder), listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 4)
        broker.create_topic("u", 1)
        generator, asked, began, done = Generator(chosen.seed), Asked(), time.monotonic(), 0
        while done < chosen.count:
            told = run(broker, generator, asked, min(10_000, chosen.count - done))
            done += told["sent"]
            speed, kept = done / (time.monotonic() - began), resident(actors(broker)["gateway"].pid) >> 10
            print(f"{done:,} requests, {speed:,.0f}/s, {kept:,} KiB; {told.most_common(6)}", flush=True)


if __name__ == "__main__":
    main()
