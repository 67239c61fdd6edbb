"""A half message as a remote producer is asked about it: with the topic and the queue that its message is for."""

from __future__ import annotations

import struct

from orbitmq.store.commit_log.record import CRC_PROPERTY, Record, pack_host

_MAGIC = 0xDAA320A7
TOPIC_MAX = 127  # bytes; RocketMQ's limit
_BEGIN = struct.Struct(">IIIIIQQIQ")


def asked_fields(half: Record) -> dict[str, str]:
    """Of the request CHECK_TRANSACTION_STATE, by which the client names the transaction when it ends it."""
    fields = {"tranStateTableOffset": str(half.queue_offset), "commitLogOffset": str(half.physical_offset)}
    id = half.properties.get("UNIQ_KEY")
    fields["offsetMsgId"] = str(half.message_id)
    # An id that is no text would come back as another one. Without one, the place alone names the transaction.
    return fields if id is None or "\ufffd" in id else {**fields, "msgId": id, "transactionId": id}


def asked_record(half: Record) -> bytes:
    """Its body: a record."""
    names = half.properties
    topic, queue = names.get("REAL_TOPIC", "").encode()[:TOPIC_MAX], names.get("REAL_QID", "")
    number = int(queue) if queue.isascii() and queue.isdecimal() and len(queue) < 10 else 0
    properties = _own_properties(bytes(half.raw_properties))
    tail = b"".join(
        (
            pack_host(half.born_host),
            half.store_ms.to_bytes(8, "big"),
            pack_host(half.store_host),
            half.reconsume_times.to_bytes(4, "big"),
            half.prepared_offset.to_bytes(8, "big"),
            len(half.body).to_bytes(4, "big"),
            half.body,
            len(topic).to_bytes(1, "big"),
            topic,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )
    size = _BEGIN.size + len(tail)
    places = half.queue_offset, half.physical_offset
    return _BEGIN.pack(size, _MAGIC, half.body_crc, number, half.flag, *places, half.sys_flag, half.born_ms) + tail


def _own_properties(raw: bytes) -> bytes:
    """Without the CRC property, which comes last. They may be any bytes."""
    at = raw.rfind(CRC_PROPERTY.encode() + b"\1")
    return raw[:at].removesuffix(b"\2") if at >= 0 and raw[at - 1 : at] in (b"", b"\2") else raw
