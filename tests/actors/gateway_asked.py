"""What the requests of a generator asked the gateway to store, and whether the log has anything else. Read by the readable
model of the protocol, which knows what each connection's bytes say up to the first that say nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from orbitmq.store.commit_log import record as records_on_disk
from tests.native import remoting_model as model

SENDS_LONG, SENDS_SHORT = (10, 324), (310, 320, 325)
BATCH = 320
REAL_TOPIC = "REAL_TOPIC"
OF_ENDS = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # records of the broker's own
DERIVED = ("%RETRY%", "%DLQ%")  # copies of what is in the log, or sent there


class Asked:
    """others: topics into which somebody else writes."""

    def __init__(self, others: tuple[str, ...] = ()) -> None:
        self._others = others
        self._sent: set[int] = set()  # hashes of (topic, body)
        self._bodies: set[int] = set()
        self._read = 0  # of the log

    def note(self, stream: bytes) -> None:
        """All that a connection was to bring."""
        while stream:
            try:
                size = model.border(stream)
                if size is None or size > len(stream):
                    return
                form, head, body = model.split(stream[:size])
                header = (model.read_json if form == model.JSON else model.read_binary)(head)
            except model.Malformed:
                return
            stream = stream[size:]
            self._request(header, body)

    def _request(self, header: model.Header, body: bytes) -> None:
        fields = header.fields or {}
        if header.code in SENDS_LONG:
            topic, batch = fields.get(b"topic"), fields.get(b"batch")
        elif header.code in SENDS_SHORT:
            topic, batch = fields.get(b"b"), fields.get(b"m")
        else:
            return
        whole = batch != b"true" if batch is not None else header.code != BATCH
        for each in [body] if whole else _entries(body):
            self._sent.add(hash((topic, each)))
            self._bodies.add(hash(each))

    def judge(self, store: Path) -> int:
        """Looks at what has come to the log since this was asked last. Returns how many messages that were. Raises:
        AssertionError: nobody has asked for one."""
        found = 0
        for record in self._records(store):
            name, body = record.properties.get(REAL_TOPIC, record.topic), bytes(record.body)
            if name in self._others:
                self._bodies.add(hash(body))  # somebody may give it back
            if record.topic == OF_ENDS or name in self._others:
                continue
            found += 1
            if name.startswith(DERIVED):
                assert hash(body) in self._bodies, ("nobody has sent this", record.topic, body)
            else:
                assert hash((name.encode(), body)) in self._sent, ("nobody has sent this", record.topic, name, body)
        return found

    def _records(self, store: Path) -> Iterator[records_on_disk.Record]:
        for file in sorted((store / "commitlog").iterdir()):
            begin = int(file.name)
            if begin + file.stat().st_size <= self._read:
                continue
            data = file.read_bytes()
            while self._read - begin < len(data):
                record = records_on_disk.parse(data, self._read - begin)
                if record is records_on_disk.Fault.END:
                    return
                if record is records_on_disk.Fault.IS_BLANK:
                    self._read = begin + len(data)
                    break
                assert isinstance(record, records_on_disk.Record), (record, self._read)
                yield record
                self._read += record.size


def _entries(body: bytes) -> Iterator[bytes]:
    """The bodies of the messages of a batch."""
    while len(body) >= 22:
        size, _, _, _, length = struct.unpack(">IIIII", body[:20])
        if not 22 <= size <= len(body) or length > size - 22:
            return
        yield body[20 : 20 + length]
        body = body[size:]
