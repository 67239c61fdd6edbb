"""Staged rows as requests of RocketMQ's protocol: batches of messages for one queue (code 320). Everything is done a column at
a time, in Arrow and numpy.

Which rows a batch has depends on the staged files and on the intent's places alone. So a repetition makes the same batches, and
the id of each, which names its first row, stands for the same rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.spark.sink import commit
from orbitmq.spark.sink.state import Intent, Query

ROWS = 256  # most in a batch, and bytes, unless one row alone has more: brokers have limits that they do not tell
BYTES = 256 << 10
HEAD = 22  # bytes of a message beside body and properties
_HEAD = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")])


class Batch(NamedTuple):
    """place: index into the topic's places. numbers: of its rows."""

    topic: str
    place: int
    numbers: Any
    id: str
    body: bytes


def batches(query: Query, intent: Intent) -> Iterator[Batch]:
    """In the order of their first rows, more or less: rows of a queue are in order. Raises: as commit.named_rows."""
    for messages, numbers in commit.named_rows(query, intent):
        for topic in pc.unique(messages["topic"]).to_pylist():
            mine = np.flatnonzero(pc.equal(messages["topic"], topic).to_numpy(zero_copy_only=False))
            rows = messages.take(pa.array(mine))
            queued = _places(rows, numbers[mine], [place[0] for place in intent.places[topic]])
            for place in np.unique(queued):
                chosen = np.flatnonzero(queued == place)
                own = numbers[mine[chosen]]
                data, sizes = _encoded(rows.take(pa.array(chosen)))
                ends = np.concatenate(([0], np.cumsum(sizes)))
                for begin, end in _cuts(sizes):
                    name = f"{query.mark}-{intent.batch}-{intent.nonce}-{own[begin]}"
                    yield Batch(topic, int(place), own[begin:end], name, data[ends[begin] : ends[end]])


def _places(rows: pa.RecordBatch, numbers: Any, places: Sequence[int]) -> Any:
    """For each row the index of its place: of the partition that it asks for, else by its key, else in turn."""
    asked = rows["queue"].to_numpy(zero_copy_only=False)
    found = numbers % len(places)
    keys = rows["queue_key"].dictionary_encode()
    hashes = np.array([zlib.crc32(key) if key else -1 for key in keys.dictionary.to_pylist()], np.int64)
    hashed = hashes[keys.indices.to_numpy(zero_copy_only=False)] if len(hashes) else np.full(len(asked), -1)
    found = np.where(hashed >= 0, hashed % len(places), found)
    order = np.argsort(places)
    at = np.minimum(np.searchsorted(np.array(places)[order], asked), len(places) - 1)
    return np.where(asked >= 0, order[at], found)


def _encoded(rows: pa.RecordBatch) -> tuple[bytes, Any]:
    """All messages one after the other, and the size of each."""
    count = rows.num_rows
    body, properties = rows["body"], rows["properties"]
    bodies, texts = (pc.binary_length(column).to_numpy(zero_copy_only=False) for column in (body, properties))
    heads = np.zeros(count, _HEAD)
    heads["size"], heads["body"] = HEAD + bodies + texts, bodies
    heads["flag"] = rows["flag"].to_numpy(zero_copy_only=False)
    lengths = texts.astype(">u2")
    nothing = pa.scalar(b"", pa.large_binary())
    joined = pc.binary_join_element_wise(_fixed(heads), body, _fixed(lengths), properties, nothing)
    _, _, data = joined.buffers()
    return data.to_pybytes()[: int(heads["size"].sum(dtype=np.int64))], HEAD + bodies.astype(np.int64) + texts


def _fixed(values: Any) -> pa.Array:
    """As binary, of one size each."""
    ends = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(values.tobytes())]
    )


def _cuts(sizes: Any) -> Iterator[tuple[int, int]]:
    begin = weight = 0
    for at, size in enumerate(sizes.tolist()):
        if at > begin and (at - begin == ROWS or weight + size > BYTES):
            yield begin, at
            begin, weight = at, 0
        weight += size
    yield begin, len(sizes)
