"""Goal: what the handler keeps of the message before never gets into the record of one that differs, and nothing that a client
writes while the handler looks gets past its judgement."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from orbitmq.native._core import ffi, lib
from tests.native import pipeline as p
from tests.native.pipeline import run


def test_messages_that_are_nearly_alike(tmp_path: Path) -> None:
    """Method: messages that differ from the one before in a seeded choice of topic, properties, size of the body, flag,
    sys_flag, time, sender's address and queue, refused ones among them; each record has what was sent, and a good CRC."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with p.pipeline(tmp_path) as tree:
        index = ffi.new("uint32_t *")
        assert lib.topics_add(tree.topics, b"U", 1, 4, 4, p.PERM_READ | p.PERM_WRITE, index) == 0
        topics = [(tree.topic, tree.topic_hash, "T"), (index[0], lib.topic_hash(b"U", 1), "U")]
        properties = [b"", b"TAGS\1a\2", b"TAGS\1b\2", b"TAGS\1a", b"TAGS\1a\2K\1v\2"]
        properties += [b"TAGS\1a\2K\1" + b"v" * 300, b"DELAY\0013\2"]
        hosts = [p.HERE, ("127.0.0.1", 0), ("10.0.0.1", 40_000), ("10.0.0.1", 40_001), ("fd00::5", 40_000), ("::1", 0)]
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        sent, expected = 0, []
        topic, time_ms, host = topics[0], 1_700_000_000_000, p.HERE
        text, size, flag, sys_flag, queue = properties[1], 100, 0, 0, 0
        while sent < 600:
            if rng.random() < 0.3:
                topic = rng.choice(topics)
            if rng.random() < 0.3:
                time_ms += rng.randrange(3)
            if rng.random() < 0.3:
                host = rng.choice(hosts)
            frame = []
            for _ in range(rng.randrange(1, 9)):
                if rng.random() < 0.3:
                    text = rng.choice(properties)
                if rng.random() < 0.3:
                    size = rng.choice((0, 1, 31, 99, 100, 101, 1024, 3000))
                if rng.random() < 0.2:
                    flag = rng.randrange(3)
                if rng.random() < 0.2:
                    sys_flag = rng.randrange(4)
                if rng.random() < 0.3:
                    queue = rng.randrange(5)
                body = rng.randbytes(size)
                content = p.MESSAGE.pack(size, len(text), queue, flag, sys_flag, 0) + text + body
                frame.append(content + bytes(-len(content) % 8))
                if queue < 4 and not text.startswith(b"DELAY"):
                    told = sys_flag & 1 | 0x10 * (":" in host[0])
                    expected.append((topic[2], body, text.rstrip(b"\2"), queue, flag, told, time_ms, host))
            sent += len(frame)
            head = p.FRAME.pack(topic[0], topic[1], len(frame), p.SEND_BORN * (host is not p.HERE), time_ms)
            session.put(head + p.born(host) + b"".join(frame))
            run(handler, writer)
        found = [
            (
                record.topic,
                bytes(record.body),
                bytes(record.raw_properties)[:-20].rstrip(b"\2"),
                record.queue_id,
                record.flag,
                record.sys_flag,
                record.born_ms,
                record.born_host,
            )
            for record in tree.records()
        ]
        assert found == expected


def test_properties_that_change_while_they_are_judged(tmp_path: Path) -> None:
    """Goal: a client that writes on after it has published gets a refusal or an allowed name stored, and never a reserved
    name or a record whose CRC does not hold. Method: a thread turns AELAY into DELAY and back in all messages meanwhile."""
    with p.pipeline(tmp_path, file_size=8 << 20, lane_capacity=4 << 20) as tree:
        handler, writer, session = tree.handler(), tree.writer(), tree.session(window=1024)
        one, other = (p.message(b"body", b"%cELAY\0013\2" % letter) for letter in b"AD")
        count, frames = 250, 80
        begin = 0
        done = threading.Event()

        def disturb() -> None:
            versions = [one * count, other * count]
            while not done.is_set():
                for version in versions:
                    if begin:
                        session.memory[begin : begin + len(version)] = version

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for _ in range(frames):
                before = session.ring.position
                session.send(*[one] * count)
                begin = session.ring_offset + 128 + before + 8 + p.FRAME.size
                run(handler, writer)
                begin = 0
        finally:
            done.set()
            thread.join()
        assert session.completed == frames * count
        for record in tree.records():
            assert b"DELAY" not in bytes(record.raw_properties)
