"""No descriptor or no mapping is left in one process of the tree: what cannot be done is refused with an error that says why,
reads continue, and the resource is used by itself when it is back.

Method: the limit of the running process is set below what it holds, so that whatever it opens or maps next fails.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from tests.trees import SMALL, actors, small_broker
from tests.waiting import until

BODY = bytes(1000)
ROLLS = 3 * SMALL["log_file_size"] // len(BODY)  # messages, through more than two files of the log


def mapped(pid: int) -> int:
    """Bytes of the process's address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


# The scarce resource, its limit, and how low the limit must be so that a process gets nothing more.
MEANS: dict[str, tuple[int, Callable[[int], int]]] = {
    "descriptors": (resource.RLIMIT_NOFILE, lambda pid: 0),
    "mappings": (resource.RLIMIT_AS, mapped),
}
ACTORS = ("writer", "allocator", "flush", "reput", "coordinator", "notifier", "handler 0")


@contextmanager
def without(means: str, pid: int) -> Iterator[None]:
    limit, low = MEANS[means]
    soft, hard = resource.prlimit(pid, limit)
    resource.prlimit(pid, limit, (low(pid), hard))
    try:
        yield
    finally:
        resource.prlimit(pid, limit, (soft, hard))


def send(producer: orbitmq.Producer, count: int) -> tuple[int, list[errors.StoreFull]]:
    """How many were stored until one was refused, and the refusal."""
    for sent in range(count):
        try:
            producer.send("orders", BODY)
        except errors.StoreFull as error:
            return sent, [error]
    return count, []


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(("name", "placement"), [*((name, "spread") for name in ACTORS), ("writer", "together")])
def test_one_process_without(tmp_path: Path, name: str, placement: str, means: str) -> None:
    with small_broker(tmp_path, placement=placement) as broker:
        broker.create_topic("orders", 2)
        with broker.producer() as producer, broker.consumer(None, topics=["orders"], start="earliest") as consumer:
            first = producer.send("orders", BODY)
            assert len(consumer.poll_batch(1, timeout=240)) == 1
            pids = {each: actors(broker)[each].pid for each in ACTORS}
            with without(means, pids[name]):
                sent, refusals = send(producer, ROLLS)
                if (name, means) in {("writer", "descriptors"), ("writer", "mappings"), ("allocator", "descriptors")}:
                    assert "next file" in str(refusals[0]), refusals
                    assert "limit of open files" in str(refusals[0]) or "max_map_count" in str(refusals[0])
                else:
                    assert not refusals and sent == ROLLS
                consumer.seek("orders", first.queue, first.offset)
                assert len(consumer.poll_batch(1, timeout=240)) == 1, "what was there before"
            read = 1
            sent += 1 + until(lambda: send(producer, 1)[0], "sends to go on")
            producer.send("orders", BODY, durability="flushed")
            while read < sent + 1:
                read += len(consumer.poll_batch(1000, timeout=240))
            assert (read, consumer.lag()) == (sent + 1, dict.fromkeys(consumer.lag(), 0))
            assert {each: actors(broker)[each].pid for each in ACTORS} == pids, "nobody died of it"


def test_a_flush_that_waits_for_a_descriptor(tmp_path: Path) -> None:
    """The disk was not asked to do anything, so it gets no error state, and a waiting sender gets the disk's answer later."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        with broker.producer() as producer:
            producer.send("orders", BODY)
            with without("descriptors", actors(broker)["flush"].pid):
                send(producer, ROLLS)
                waiting = producer.send_async("orders", BODY, durability="flushed")
                with pytest.raises(errors.TimedOut):
                    producer.send("orders", BODY, durability="flushed", timeout=0.2)
            assert waiting.result(30).durability == "flushed"
