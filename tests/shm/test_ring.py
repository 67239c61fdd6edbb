"""Goal: a ring delivers every record once, whole and in order, whatever the sizes; it reports full and empty correctly; and a
producer that writes garbage is detected and can affect nothing but its own ring.

Method: one suite over both rings, the C one and the plain Python one, and over mixed pairs of their ends, which also shows that
both use the same bytes. A state machine keeps a list of what should be in the ring. Then two real processes.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from orbitmq.shm.ring import RingConsumer, RingLook, RingProducer, RingRecord, ring_size
from tests.shm.children import children
from tests.shm.model_ring import DATA, HEAD, TAIL, ModelConsumer, ModelProducer
from tests.waiting import until

CAPACITY = 4096
HALF = CAPACITY // 2 - 8  # largest payload
PRODUCERS: list[Any] = [RingProducer, ModelProducer]
CONSUMERS: list[Any] = [RingConsumer, ModelConsumer]
PAIRS = [(producer, consumer) for producer in PRODUCERS for consumer in CONSUMERS]


def make_memory(capacity: int = CAPACITY) -> mmap.mmap:
    return mmap.mmap(-1, ring_size(capacity))


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0].__name__}-{pair[1].__name__}")
def ends(request: pytest.FixtureRequest) -> tuple[Any, Any, mmap.mmap]:
    memory = make_memory()
    producer, consumer = request.param
    return producer(memory, CAPACITY), consumer(memory, CAPACITY), memory


def take(consumer: Any) -> tuple[int, bytes]:
    record = consumer.peek()
    assert isinstance(record, RingRecord)
    payload = bytes(record.payload)
    consumer.advance()
    return record.type, payload


def test_empty_until_published(ends: tuple[Any, Any, mmap.mmap]) -> None:
    producer, consumer, _ = ends
    assert consumer.peek() is RingLook.EMPTY
    assert producer.put(b"one", 1) and producer.put(b"", 2)
    assert consumer.peek() is RingLook.EMPTY
    producer.publish()
    assert take(consumer) == (1, b"one")
    assert take(consumer) == (2, b"")
    assert consumer.peek() is RingLook.EMPTY


def test_full_until_released(ends: tuple[Any, Any, mmap.mmap]) -> None:
    producer, consumer, _ = ends
    count = 0
    while producer.put(bytes(56), 7):
        count += 1
    assert count == CAPACITY // 64
    producer.publish()
    take(consumer)
    assert not producer.put(bytes(56), 7), "passed is not released: the payload may still be read"
    consumer.release()
    assert producer.put(bytes(56), 7)
    assert not producer.put(b"", 7)


def test_half_size_always_fits_an_empty_ring(ends: tuple[Any, Any, mmap.mmap]) -> None:
    """At any position, padding included, the largest record fits once the consumer has caught up."""
    producer, consumer, _ = ends
    for size in (size for before in range(0, HALF + 1, 8) for size in (before, HALF, HALF, HALF)):
        assert producer.put(b"x" * size, 1)
        producer.publish()
        assert take(consumer) == (1, b"x" * size)
        assert consumer.peek() is RingLook.EMPTY
        consumer.release()


def test_a_record_never_wraps(ends: tuple[Any, Any, mmap.mmap]) -> None:
    producer, consumer, memory = ends
    for _ in range(3):
        assert producer.put(bytes(1000), 1)
    producer.publish()
    for _ in range(3):
        take(consumer)
    consumer.release()
    assert producer.put(b"y" * 1500, 2)
    producer.publish()
    assert struct.unpack_from("<II", memory, DATA + 3 * 1008) == (CAPACITY - 3 * 1008, 0)
    assert take(consumer) == (2, b"y" * 1500)
    assert producer.position == consumer.position == CAPACITY + 1512


def test_successors_begin_where_the_shared_words_stand(ends: tuple[Any, Any, mmap.mmap]) -> None:
    """What a dead producer did not publish never existed; what a dead consumer did not release is seen again."""
    producer, consumer, memory = ends
    producer.put(b"kept", 1)
    producer.publish()
    producer.put(b"lost", 1)
    take(consumer)
    successor = type(producer)(memory, CAPACITY)
    assert successor.put(b"next", 2)
    successor.publish()
    again = type(consumer)(memory, CAPACITY)
    assert [take(again), take(again)] == [(1, b"kept"), (2, b"next")]
    assert again.peek() is RingLook.EMPTY


BROKEN_TAILS = [1, 7, CAPACITY + 8, 2**63, 2**64 - 8]
# length and type of a record at the start of a ring whose tail stands at 512
BROKEN_HEADERS = [(0, 1), (7, 1), (513, 1), (CAPACITY, 1), (2**32 - 1, 1), (2**32 - 8, 0), (16, 0), (512, 0), (0, 0)]


@pytest.mark.parametrize("tail", BROKEN_TAILS)
def test_broken_tail(ends: tuple[Any, Any, mmap.mmap], tail: int) -> None:
    _, consumer, memory = ends
    struct.pack_into("<Q", memory, TAIL, tail)
    assert consumer.peek() is RingLook.BROKEN
    assert consumer.position == 0


def test_tail_that_goes_back(ends: tuple[Any, Any, mmap.mmap]) -> None:
    producer, consumer, memory = ends
    producer.put(bytes(100), 1)
    producer.publish()
    take(consumer)
    struct.pack_into("<Q", memory, TAIL, 8)
    assert consumer.peek() is RingLook.BROKEN


@pytest.mark.parametrize("header", BROKEN_HEADERS)
def test_broken_header(ends: tuple[Any, Any, mmap.mmap], header: tuple[int, int]) -> None:
    _, consumer, memory = ends
    struct.pack_into("<II", memory, DATA, *header)
    struct.pack_into("<Q", memory, TAIL, 512)
    assert consumer.peek() is RingLook.BROKEN
    assert consumer.position == 0


def test_record_larger_than_half(ends: tuple[Any, Any, mmap.mmap]) -> None:
    _, consumer, memory = ends
    struct.pack_into("<II", memory, DATA, CAPACITY // 2 + 8, 1)
    struct.pack_into("<Q", memory, TAIL, CAPACITY)
    assert consumer.peek() is RingLook.BROKEN


@given(garbage=st.binary(min_size=64, max_size=64), tail=st.integers(0, CAPACITY // 8).map(lambda n: n * 8))
@settings(max_examples=300, deadline=None)
def test_garbage_reads_the_same_in_both(garbage: bytes, tail: int) -> None:
    """Any bytes in the ring: both consumers show the same records, within the ring, and stop at the same place."""
    memory = make_memory()
    # Small lengths and types now and then, so that some of it looks like records.
    words = [word if i % 3 else word % 64 for i, word in enumerate(struct.unpack("<16I", garbage))]
    memory[DATA : DATA + CAPACITY] = struct.pack("<16I", *words) * (CAPACITY // 64)
    struct.pack_into("<Q", memory, TAIL, tail)
    seen: list[list[object]] = []
    for kind in CONSUMERS:
        consumer = kind(memory, CAPACITY)
        found: list[object] = []
        look = consumer.peek()
        while isinstance(look, RingRecord):
            found.append((look.type, bytes(look.payload)))
            consumer.advance()
            look = consumer.peek()
        seen.append([*found, look, consumer.position])
    assert seen[0] == seen[1]


def test_a_head_moved_by_the_producer_does_not_move_the_consumer(ends: tuple[Any, Any, mmap.mmap]) -> None:
    producer, consumer, memory = ends
    producer.put(b"a", 1)
    producer.publish()
    struct.pack_into("<Q", memory, HEAD, 2**40)
    assert take(consumer) == (1, b"a")
    consumer.release()
    assert struct.unpack_from("<Q", memory, HEAD) == (16,)


def test_misuse_is_refused() -> None:
    for capacity in (0, 2048, 4095, 6000, 1 << 32):
        with pytest.raises(ValueError, match="power of two"):
            ring_size(capacity)
    memory = make_memory()
    producer, consumer = RingProducer(memory, CAPACITY), RingConsumer(memory, CAPACITY)
    with pytest.raises(ValueError, match=str(HALF + 1)):
        producer.claim(HALF + 1)
    with pytest.raises(ValueError, match="are claimed"):
        producer.commit(0, 1)
    producer.claim(10)
    for size, kind in ((11, 1), (10, 0), (10, 1 << 32)):
        with pytest.raises(ValueError, match="cannot commit"):
            producer.commit(size, kind)
    producer.commit(4, 1)
    with pytest.raises(ValueError, match="showed none"):
        consumer.advance()
    with pytest.raises(ValueError, match="takes"):
        RingProducer(bytearray(CAPACITY), CAPACITY)


class RingMachine(RuleBasedStateMachine):
    """Any order of claims, commits, publications, looks and releases, against a list of records."""

    pair: tuple[Any, Any] = PAIRS[0]

    @initialize()
    def begin(self) -> None:
        self.memory = make_memory()
        self.producer = self.pair[0](self.memory, CAPACITY)
        self.consumer = self.pair[1](self.memory, CAPACITY)
        self.private: deque[tuple[int, bytes]] = deque()
        self.visible: deque[tuple[int, bytes]] = deque()
        self.count = 0

    @rule(size=st.one_of(st.integers(0, 64), st.integers(0, HALF)))
    def put(self, size: int) -> None:
        self.count += 1
        payload = bytes([self.count % 251]) * size
        held = self.producer.position - struct.unpack_from("<Q", self.memory, HEAD)[0]
        if self.producer.put(payload, self.count):
            self.private.append((self.count, payload))
        else:
            assert held > 0, "an empty ring takes every record"

    @rule()
    def publish(self) -> None:
        self.producer.publish()
        self.visible += self.private
        self.private.clear()

    @rule()
    def look(self) -> None:
        if self.visible:
            assert take(self.consumer) == self.visible.popleft()
        else:
            assert self.consumer.peek() is RingLook.EMPTY

    @rule()
    def release(self) -> None:
        self.consumer.release()

    @rule()
    def new_producer(self) -> None:
        self.producer = self.pair[0](self.memory, CAPACITY)
        self.private.clear()

    @invariant()
    def never_more_than_the_ring(self) -> None:
        if hasattr(self, "memory"):
            tail, head = struct.unpack_from("<Q", self.memory, TAIL)[0], struct.unpack_from("<Q", self.memory, HEAD)[0]
            assert head <= self.consumer.position <= self.producer.position <= head + CAPACITY
            assert head <= tail <= self.producer.position


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].__name__}-{pair[1].__name__}")
def test_any_order_of_calls(pair: tuple[Any, Any]) -> None:
    machine = type("Machine", (RingMachine,), {"pair": pair})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=60, deadline=None))


def test_two_processes_account_for_every_record() -> None:
    """50,000 numbered records of changing sizes through a small ring: each arrives once, whole and in order."""
    memory = make_memory(1 << 14)
    rounds = 50_000

    def produce() -> None:
        producer = RingProducer(memory, 1 << 14)
        for number in range(rounds):
            payload = struct.pack("<Q", number) * (1 + number % 40)
            while not producer.put(payload, number + 1):
                producer.publish()
            if number % 7 == 0:
                producer.publish()
        producer.publish()

    with children() as family:
        family.start(produce)
        consumer = RingConsumer(memory, 1 << 14)
        for number in range(rounds):
            if consumer.peek() is RingLook.EMPTY:
                consumer.release()
                until(lambda: consumer.peek() is not RingLook.EMPTY, "a record", look_ms=0)
            assert take(consumer) == (number + 1, struct.pack("<Q", number) * (1 + number % 40))
            if number % 5 == 0:
                consumer.release()
        assert consumer.peek() is RingLook.EMPTY
        consumer.release()
        family.finish()
