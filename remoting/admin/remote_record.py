"""A stored record as remote clients see it (native/remoting/gateway/gateway_record.c does the same for pulls)."""

from __future__ import annotations

import re
import struct

from orbitmq.store.commit_log.record import CRC_PROPERTY

_SEAL = f"{CRC_PROPERTY}\1".encode()
_MARK = re.compile(rb"ATOMIC\x01\d+:\d+\x02")  # of an atomic batch
_REQUEST = re.compile(rb"(?:^|\x02)CORRELATION_ID\x01(?!.*\x02CLUSTER\x01)")
_CLUSTER = b"CLUSTER\1DefaultCluster\2"
_SEAL_SIZE = len(_SEAL) + 10 + 1  # ten digits, and the separator behind them
_FLAG_AT, _BORN_HOST_AT = 36, 48
_BORN_V6, _STORE_V6 = 0x10, 0x20
_INT, _SHORT = struct.Struct(">I"), struct.Struct(">H")


def remote_record(record: bytes) -> bytes:
    """The record without the CRC property that OrbitMQ ends it with, and without the mark of an atomic batch."""
    if record[-_SEAL_SIZE:-11] != _SEAL:
        return record
    (flag,) = _INT.unpack_from(record, _FLAG_AT)
    hosts = (20 if flag & _BORN_V6 else 8) + (20 if flag & _STORE_V6 else 8)
    body_at = _BORN_HOST_AT + hosts + 8 + 4 + 8  # store time, reconsume times, prepared offset
    topic_at = body_at + 4 + _INT.unpack_from(record, body_at)[0]
    size_at = topic_at + 1 + record[topic_at]
    whole = record[size_at + 2 : -_SEAL_SIZE]
    mark = _MARK.match(whole)
    properties = whole[mark.end() :] if mark is not None else whole
    if _REQUEST.search(properties):  # RocketMQ's clients find the topic of replies by it
        properties += _CLUSTER
    size = _INT.pack(len(record) - len(whole) + len(properties) - _SEAL_SIZE)
    return size + record[4:size_at] + _SHORT.pack(len(properties)) + properties
