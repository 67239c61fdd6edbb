"""Goal: a producer keeps its promises across the deaths of the tree's processes.

Method: a whole small tree. Its processes are killed with SIGKILL while messages are on their way, and the log is read
afterwards: each message with a receipt must be there once, where the receipt says.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import BrokerError, Closed, OrbitError, PerhapsStored, StoreFull
from orbitmq.store.commit_log.record import Record, parse
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, until


def bodies(store: Path) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for path in sorted((store / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data) and isinstance(record := parse(data, at), Record):
            found[bytes(record.body)] += 1
            at += record.size
    return found


def test_send_batch_flush_and_fork(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders")
        producer = broker.producer(message_max=1 << 14)
        assert producer.send("orders", b"one").offset == 0
        assert producer.send("orders", b"two", durability="flushed").durability == "flushed"
        assert len(producer.send_batch("orders", [b"%d" % i for i in range(20_000)])) == 20_000
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = (
                    0 if producer.send("orders", b"child").size and len(producer.send_batch("orders", [b"c"] * 10)) == 10 else 2
                )
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert producer.send("orders", b"parent").size
        producer.close()
    found = bodies(tmp_path)
    assert sum(found.values()) == 20_014
    assert found[b"c"] == 10 and found[b"child"] == found[b"parent"] == 1


def test_a_log_that_cannot_grow(tmp_path: Path) -> None:
    """Goal: a full disk costs an error that names it, and nothing else; with room again everything continues. Method: the
    folder in which log files are made is gone for a while."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders")
        making = tmp_path / "orbitmq" / "allocating"
        making.rename(tmp_path / "elsewhere")
        with broker.producer() as producer:
            stored = 0
            with pytest.raises(StoreFull, match="'orders'") as full:
                while True:
                    producer.send("orders", bytes(50_000))
                    stored += 1
            assert full.value.errno == errno.ENOENT and str(tmp_path) in full.value.hint
            (tmp_path / "elsewhere").rename(making)

            def sent() -> bool:
                with suppress(StoreFull):
                    return bool(producer.send("orders", bytes(50_000)))
                return False

            until(sent, "the next file of the log")
        consumer = broker.consumer(topics=["orders"])
        found = 0
        while found <= stored:
            found += len(consumer.poll_batch(timeout=WATCHDOG_S))
    assert sum(bodies(tmp_path).values()) == found == stored + 1


@pytest.mark.parametrize("victim", ["writer", "handler 0", "handler 1", "flush", "allocator", "reput", "coordinator"])
def test_no_actors_death_is_noticed(tmp_path: Path, victim: str) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders")
        with broker.producer(message_max=1 << 14, window=1024) as producer:
            stored = []
            for round_ in range(6):
                pendings = [producer.send_async("orders", b"%d.%d" % (round_, i)) for i in range(500)]
                batch = producer.send_batch_async("orders", [b"%d.b%d" % (round_, i) for i in range(500)])
                if round_ in (1, 3):
                    kill(broker, victim)
                stored += [pending.result(30) for pending in pendings] + list(batch.result(30))
            assert len({receipt.physical_offset for receipt in stored}) == 6000
    assert set(bodies(tmp_path).values()) == {1}
    assert len(bodies(tmp_path)) == 6000


def test_the_trees_death_and_its_successor(tmp_path: Path) -> None:
    with small_broker(tmp_path, name=f"heir-{os.getpid()}") as broker:
        broker.create_topic("orders")
        producer = broker.producer(message_max=1 << 14)
        first = producer.send("orders", b"first")
        os.kill(broker.pid, signal.SIGKILL)
        outcomes: Counter[str] = Counter()
        for i in range(3000):
            try:
                producer.send_oneway("orders", b"%d" % i) if i % 2 else producer.send("orders", b"%d" % i, timeout=10)
                outcomes["stored"] += 1
            except PerhapsStored:
                outcomes["perhaps"] += 1
            except BrokerError:
                outcomes["refused"] += 1
                break
        assert outcomes["refused"] == 1
        with small_broker(tmp_path, name=broker.name):
            second = producer.send("orders", b"second", durability="flushed")
            assert second.physical_offset > first.physical_offset
            producer.close()
    found = bodies(tmp_path)
    assert found[b"first"] == found[b"second"] == 1
    assert max(found.values()) == 1


def test_a_session_that_has_ended_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: if trees die so fast that a fresh session's is dead already, the producer opens another one, and does not call
    itself closed. Method: the first ones leave nothing behind, as if another thread had seen their end."""
    usual, opened = Producer._reopen, iter([False] * 5)

    def reopen(producer: Producer) -> None:
        if next(opened, True):
            usual(producer)

    monkeypatch.setattr(Producer, "_reopen", reopen)
    with small_broker(tmp_path) as broker:
        broker.create_topic("t")
        with broker.producer() as producer:
            producer.send("t", b"one")
        with pytest.raises(Closed):
            producer.send("t", b"two")
    assert bodies(tmp_path) == {b"one": 1}


def test_a_stopped_broker_refuses(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders")
        producer = broker.producer(message_max=1 << 14)
        pending = producer.send_async("orders", b"a")
        broker.stop_broker()
        assert pending.result(10).offset == 0
        with pytest.raises(OrbitError):
            producer.send("orders", b"b", timeout=10)


NO_MEMORY = """
import orbitmq, sys, _testcapi
client = orbitmq.connect(sys.argv[1])
with client.producer() as producer:
    producer.send("orders", b"opens the session", keys=["a", "b"])
    for call in (producer.send_oneway, lambda topic, body, keys: producer.send_batch_async(topic, [body], keys=[keys])):
        failed = 0
        while True:
            keys = [f"\N{GREEK SMALL LETTER ALPHA}{failed}", "b" * 100]  # no text of these exists as UTF-8 yet
            _testcapi.set_nomemory(failed, failed + 1)
            try:
                call("orders", b"x", keys=keys)
            except MemoryError:
                failed += 1
            else:
                break
            finally:
                _testcapi.remove_mem_hooks()
        assert failed > 2, "what fails is more than the first copy"
"""


def test_keys_for_which_there_is_no_memory(tmp_path: Path) -> None:
    """Goal: a send that fails for want of memory says so, and stores nothing. Method: each allocation of a call fails
    once, which CPython's own test module makes happen."""
    pytest.importorskip("_testcapi")
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        program = [sys.executable, "-c", NO_MEMORY, broker.name]
        done = subprocess.run(program, capture_output=True, timeout=WATCHDOG_S, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert sum(bodies(tmp_path).values()) == 3


def test_somebody_who_looks_at_all_objects_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """Goal: what a memory profiler holds meanwhile, and so cannot be completed, is not sent in part. Method: keys whose
    sequence looks for the tuple that the batch keeps its keys in."""
    held: list[object] = []

    class Keys:
        def __iter__(self) -> Iterator[str]:
            held.extend(each for each in gc.get_objects() if type(each) is tuple and len(each) == 1777)
            yield from ("a" * 100, "b" * 100)

    keys: list[Any] = [["plain"]] * 1777
    keys[5] = Keys()
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("orders", 1)
        producer.send("orders", b"first")
        with pytest.raises(SystemError, match="bad argument"):
            producer.send_batch("orders", [b"x"] * 1777, keys=keys)
        assert held
        held.clear()
        assert producer.send("orders", b"second").offset == 1
