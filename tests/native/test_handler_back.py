"""Of handler_back.c and retry_image.c: what a record becomes that a group gives back, against a model of RocketMQ's rules, and
what a session of another kind than the gateway's may try. tests/actors/test_gateway_sendback.py shows the whole way."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log.record import Record
from orbitmq.store.delays import DELAY_TOPIC
from tests.native import pipeline as p

SEND_BACK = (1 << 32) - 6
UNKNOWN_MESSAGE = 21
FAULTY = 4
SEND_AGAIN = (1 << 32) - 7
BACK = struct.Struct("=Qii")
AGAIN = struct.Struct("=iiiI")
FIRST = b"RETRY_TOPIC\1T\2ORIGIN_MESSAGE_ID\1first"
LEVELS = 18
INT_MAX = 2**31 - 1


def back(place: int, level: int = 0, most: int = 16) -> bytes:
    content = p.MESSAGE.pack(0, BACK.size, 0, 0, 0, SEND_BACK) + BACK.pack(place, level, most)
    return content + bytes(-len(content) % 8)


def again(body: bytes, properties: bytes = FIRST, level: int = 0, most: int = 16, tries: int = 1, queue: int = 0) -> bytes:
    told = AGAIN.pack(level, most, tries, 0) + properties
    content = p.MESSAGE.pack(len(body), len(told), queue, 7, 0xFF, SEND_AGAIN) + told + body
    return content + bytes(-len(content) % 8)


class Tree:
    """A pipeline with the topics of the group "g"."""

    def __init__(self, pipeline: p.Pipeline, retries: int = 1) -> None:
        self.pipeline = pipeline
        self.retry = self._add("%RETRY%g", retries)
        self._add("%DLQ%g", 1)
        self._add(DELAY_TOPIC, LEVELS)
        self.handler, self.writer = pipeline.handler(), pipeline.writer()
        self.session = pipeline.session()

    def _add(self, name: str, queues: int) -> tuple[int, int]:
        index = ffi.new("uint32_t *")
        text = name.encode()
        assert lib.topics_add(self.pipeline.topics, text, len(text), queues, queues, p.PERM_READ, index) == 0
        return index[0], lib.topic_hash(text, len(text))

    def send(self, *messages: bytes, **how: Any) -> p.Verdict:
        """The last one's verdict."""
        self.session.send(*messages, **how)
        p.run(self.handler, self.writer)
        return self.session.verdict(self.session.completed)

    def give_back(self, place: int, level: int = 0, most: int = 16, flags: int = 0) -> p.Verdict:
        return self.send(back(place, level, most), topic=self.retry[0], topic_hash=self.retry[1], flags=flags)


def model(record: Record, level: int, most: int, retries: int) -> tuple[str, int, dict[str, str]]:
    """Topic, queue and properties of what RocketMQ 4.9 stores, without what its queue offset decides."""
    notes = {"RETRY_TOPIC": record.topic, "ORIGIN_MESSAGE_ID": str(record.message_id)}
    own = ("REAL_TOPIC", "REAL_QID", "DELAY", "__CRC32#")
    kept = {name: value for name, value in record.properties.items() if name not in own}
    properties = {**notes, **kept, "WAIT": "false"}
    if record.reconsume_times >= most or level < 0:
        return "%DLQ%g", 0, properties
    level = min(level or 3 + record.reconsume_times, LEVELS)
    place = {"DELAY": str(level), "REAL_TOPIC": "%RETRY%g", "REAL_QID": str(record.queue_offset % retries)}
    return DELAY_TOPIC, level - 1, {**properties, **place}


@pytest.mark.parametrize(("retries", "store"), [(1, "10.1.2.3"), (3, "10.1.2.3"), (3, "fd00::6")])
def test_what_it_becomes(tmp_path: Path, retries: int, store: str) -> None:
    """Method: seeded rounds give back any record that is for a group, with any level and number of tries. Records that wait
    cannot be given back, so reconsume times come from dead letters."""
    rng = random.Random(retries)
    with p.pipeline(tmp_path, store_host=(store, 10911)) as pipeline:
        tree = Tree(pipeline, retries)
        for n in range(20):
            properties = b"colour\1blue\2TAGS\1a" if n % 2 else b""
            host = (p.HERE, ("10.0.0.1", n), ("fd00::5", n))[n % 3]
            tree.send(p.message(b"%d" % n, properties, queue=n % 4, flag=n), host=host)
        most_tried, stored = 0, pipeline.records()
        for _ in range(300):
            given, before = rng.choice([each for each in stored if each.topic != DELAY_TOPIC]), pipeline.wrote
            level = rng.choice((-INT_MAX - 1, -1, -1, 0, 1, 2, 18, 19, INT_MAX))
            most = rng.choice((-1, 0, 1, given.reconsume_times, given.reconsume_times + 1, 16, INT_MAX))
            assert tree.give_back(given.physical_offset, level, most).code == p.APPENDED
            (made,) = pipeline.records(before)
            stored.append(made)
            topic, queue, expected = model(given, level, most, retries)
            said = {name: value for name, value in made.properties.items() if name != "__CRC32#"}
            assert (made.topic, made.queue_id, said) == (topic, queue, expected)
            assert (made.reconsume_times, made.prepared_offset) == (given.reconsume_times + 1, 0)
            assert (made.body, made.flag, made.sys_flag, made.born_ms, made.born_host) == (
                given.body, given.flag, given.sys_flag, given.born_ms, given.born_host)  # fmt: skip
            most_tried = max(most_tried, made.reconsume_times)
        assert most_tried > 3


def test_what_is_refused(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        place = tree.send(p.message(b"x")).physical_offset
        before = pipeline.wrote
        assert tree.send(back(place)).code == p.UNKNOWN_TOPIC, "not to a topic of retries"
        assert tree.give_back(place, flags=p.SEND_DEDUP).code == p.RESERVED
        for wrong in (place + 1, before, before + 1, 2**63, 2**64 - 1):
            assert tree.give_back(wrong).code == UNKNOWN_MESSAGE
        lib.queue_recovered(pipeline.topics, 0, 0, 1, 0)
        lib.queue_raise_min(pipeline.topics, 0, 1)
        assert tree.give_back(place).code == UNKNOWN_MESSAGE, "it is purged"
        other = tree.send(p.message(b"x", queue=1)).physical_offset
        lib.topic_set_deleted(pipeline.topics, pipeline.topic, True)
        assert tree.give_back(other).code == UNKNOWN_MESSAGE, "its topic is deleted"


def test_a_group_without_topics(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        place = tree.send(p.message(b"x")).physical_offset
        for name in (DELAY_TOPIC, "%DLQ%g"):
            index = lib.topics_find(pipeline.topics, name.encode(), len(name))
            lib.topic_set_deleted(pipeline.topics, index, True)
        assert tree.give_back(place).code == tree.give_back(place, -1).code == p.UNKNOWN_TOPIC


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with p.pipeline(tmp_path, read_only=True) as pipeline:
        assert Tree(pipeline).give_back(0).code == 9


def test_with_what_it_was(tmp_path: Path) -> None:
    """Method: seeded properties, some of them the broker's own, against those that a sender may set."""
    rng = random.Random(3)
    free = [b"TAGS\1a", b"KEYS\1k", b"UNIQ_KEY\1u", b"colour\1blue", b"x\1", b"", b"\1y", b"z", b"A\1\1"]
    noted = [b"DELAY\0015", b"TRAN_MSG\1true", b"REAL_TOPIC\1T", b"WAIT\1true", b"CLUSTER\1c", b"ATOMIC\0010/2", b"__CRC32#1"]
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline, 2)
        send = {"topic": tree.retry[0], "topic_hash": tree.retry[1]}
        for _ in range(200):
            mine, theirs = (rng.sample(each, rng.randrange(len(each) + 1)) for each in (free, noted))
            first = FIRST.split(b"\2")[: rng.choice((1, 2))]
            pieces = [*mine, *theirs, *first]
            rng.shuffle(pieces)
            properties = b"\2".join(pieces) + rng.choice((b"", b"\2"))
            level, most = rng.choice((-1, 0, 3, 99, INT_MAX)), rng.choice((-1, 0, 2, 16))
            tries = rng.choice((0, 1, 2, 16, INT_MAX))
            host, before = rng.choice((p.HERE, ("10.0.0.1", 40_000), ("fd00::5", 40_000))), pipeline.wrote
            assert tree.send(again(b"body", properties, level, most, tries, 5), **send, host=host).code == p.APPENDED
            (made,) = pipeline.records(before)
            kept = dict(each.decode().split("\1", 1) for each in mine if each[:1] not in (b"", b"x", b"\1", b"z"))
            expected = {**kept, **dict(each.decode().split("\1") for each in first), "WAIT": "false"}
            topic, queue = ("%DLQ%g", 0) if tries >= most else ("%RETRY%g", 1)
            if tries < most and level > 0:
                topic, queue = DELAY_TOPIC, min(level, LEVELS) - 1
                expected |= {"DELAY": str(queue + 1), "REAL_TOPIC": "%RETRY%g", "REAL_QID": "1"}
            said = {name: value for name, value in made.properties.items() if name != "__CRC32#"}
            assert (made.topic, made.queue_id, said) == (topic, queue, expected)
            told = 1 | 0x10 * (":" in host[0])
            assert (made.reconsume_times, made.flag, made.sys_flag, bytes(made.body)) == (tries, 7, told, b"body")
            assert made.born_host == host


def test_what_comes_again_is_refused(tmp_path: Path) -> None:
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        send = {"topic": tree.retry[0], "topic_hash": tree.retry[1]}
        assert tree.send(again(b"x")).code == p.UNKNOWN_TOPIC, "not to a topic of retries"
        for properties in (b"", b"ORIGIN_MESSAGE_ID\1f", b"RETRY_TOPIC\1", b"RETRY_TOPIC"):
            assert tree.send(again(b"x", properties), **send).code == p.RESERVED
        assert tree.send(again(b"x", tries=-1), **send).code == p.RESERVED
        assert tree.send(again(b"x"), **send, flags=p.SEND_DEDUP).code == p.RESERVED
        assert tree.send(again(b"x", FIRST + b"\2a\1" + b"b" * 32760), **send).code == p.PROPERTIES
        assert tree.send(again(b"x", FIRST + b"\2a\1" + b"b" * 32000), **send).code == p.TOO_LARGE
        assert tree.send(again(b"x" * (128 << 10)), **send).code == p.TOO_LARGE
        assert pipeline.wrote == 0


@pytest.mark.parametrize("kind", [SEND_BACK, SEND_AGAIN])
@pytest.mark.parametrize("size", [0, 8, 15])
def test_half_a_request_ends_its_session_only(tmp_path: Path, size: int, kind: int) -> None:
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        other = pipeline.session(slot=1)
        content = p.MESSAGE.pack(0, size, 0, 0, 0, kind) + bytes(size)
        tree.session.send(content + bytes(-len(content) % 8))
        other.send(p.message(b"good"))
        p.run(tree.handler, tree.writer)
        assert tree.session.state == FAULTY and [each.body for each in pipeline.records()] == [b"good"]


@pytest.mark.parametrize("content", [back(0), again(b"y")], ids=["back", "again"])
def test_no_atomic_batch_has_one(tmp_path: Path, content: bytes) -> None:
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        tree.send(p.message(b"x"))
        tree.session.send_atomic((tree.retry[0], [content]), topic_hash=tree.retry[1])
        p.run(tree.handler, tree.writer)
        assert tree.session.state == FAULTY and len(pipeline.records()) == 1
