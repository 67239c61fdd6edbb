"""Of handler_half.c: how many transactions may begin while the oldest is open. tests/client/test_transaction.py shows what it
stores."""

from __future__ import annotations

import struct
from pathlib import Path

from orbitmq.native._core import ffi, lib
from orbitmq.store.halves import HALF_TOPIC
from tests.native import pipeline as p

OPEN_MAX = 1 << 22  # HALVES_OPEN_MAX in halves.h
SEND_HALF = (1 << 32) - 3
FULL = 18  # VERDICT_HALVES_FULL
APPENDED = 1


def half() -> bytes:
    own = struct.pack("=Q", 4) + b"shop"
    content = p.MESSAGE.pack(1, len(own), 0, 0, 0, SEND_HALF) + own + b"x"
    return content + bytes(-len(content) % 8)


def test_what_is_gone_from_the_log_does_not_count(tmp_path: Path) -> None:
    """Goal: if retention has removed the oldest that are open, others may begin, although nobody ends one. Method: the queue
    has as many halves as may be open, and one more; then its beginning is raised."""
    with p.pipeline(tmp_path) as tree:
        index = ffi.new("uint32_t *")
        name = HALF_TOPIC.encode()
        assert lib.topics_add(tree.topics, name, len(name), 1, 1, 6, index) == 0
        slot = 4  # behind the four queues of "T"
        lib.queue_recovered(tree.topics, slot, 0, OPEN_MAX + 1, 0)
        handler, writer, session = tree.handler(), tree.writer(), tree.session()
        session.send(half())
        p.run(handler, writer)
        assert (session.verdict(1).code, session.verdict(1).detail) == (FULL, OPEN_MAX)
        lib.queue_raise_min(tree.topics, slot, 1)
        session.send(half())
        p.run(handler, writer)
        assert (session.verdict(2).code, session.verdict(2).queue_offset) == (APPENDED, OPEN_MAX + 1)
